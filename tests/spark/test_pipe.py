"""The bounded queue of the door: order, limits, and both ways out."""

from __future__ import annotations

import threading
import time

import pytest

from catchment.spark.pipe import Pipe, TooLateError


def test_a_slow_reader_slows_the_writer() -> None:
    pipe: Pipe[int] = Pipe(depth=3)
    put: list[int] = []

    def write() -> None:
        for number in range(50):
            pipe.put(number)
            put.append(number)
        pipe.end()

    writer = threading.Thread(target=write)
    writer.start()
    taken = []
    while (item := pipe.take(time.monotonic() + 60)) is not None:
        taken.append(item)
        assert len(put) <= len(taken) + 3
        time.sleep(0.001)
    writer.join()
    assert taken == list(range(50))


def test_a_problem_comes_after_what_was_put_before_it() -> None:
    pipe: Pipe[str] = Pipe(depth=2)
    pipe.put("first")
    pipe.end(KeyError("broken"))
    assert pipe.take() == "first"
    with pytest.raises(KeyError, match="broken"):
        pipe.take()


def test_breaking_off_releases_both_sides() -> None:
    pipe: Pipe[str] = Pipe(depth=1)
    pipe.put("fills it")
    told: list[bool] = []
    writer = threading.Thread(target=lambda: told.append(pipe.put("waits")))
    writer.start()
    pipe.break_off(ValueError("stopped"))
    writer.join(60)
    assert told == [False]
    with pytest.raises(ValueError, match="stopped"):
        pipe.take()


def test_a_reader_gives_up_at_its_deadline() -> None:
    start = time.monotonic()
    with pytest.raises(TooLateError):
        Pipe[str](depth=1).take(start + 0.05)
    assert time.monotonic() - start >= 0.05
