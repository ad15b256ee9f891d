"""The driver keeps its promises: order, durability, time, and an end that is clean."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import DamagedBytesError, InputError
from catchment.monitor.machine import Action, Persist, Send, Stopping, Tick
from catchment.net.disk import Disk
from catchment.net.driver import Driver, milliseconds
from catchment.net.mailbox import Inbox, Limits
from tests.net.loop import Numbers, running, until


class Wire:
    """A `Link` to nowhere that notes what leaves, and when."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.inbox = Inbox(Limits(frames=10_000))
        self.sent: list[bytes] = []
        self.stopped = False
        self.on_send: Callable[[bytes], None] = lambda _: None

    async def start(self) -> None: ...

    def send(self, to: str, frame: bytes) -> None:
        assert not self.stopped
        self.on_send(frame)
        self.sent.append(frame)

    async def stop(self, grace: float) -> None:
        self.stopped = True


class Scripted:
    """A machine that does what a function says."""

    def __init__(self, script: Callable[[Any, int], list[Action]], due: int | None = None) -> None:
        self.script, self.due = script, due

    def handle(self, event: Any, now: int) -> list[Action]:
        return self.script(event, now)


class SlowDisk(Disk):
    """A disk that waits for a word before it writes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.go = threading.Event()
        self.rounds: list[list[str]] = []

    def write(self, blobs: Any) -> None:
        self.go.wait(60)
        self.rounds.append([blob.blob.decode() for blob in blobs])
        super().write(blobs)


def test_a_send_after_a_persist_leaves_only_when_the_blob_is_durable(tmp_path: Path) -> None:
    async def play() -> None:
        wire = Wire()

        def script(event: Any, _: int) -> list[Action]:
            name = event.frame.decode()
            before, after = (Send("x", f"{name} {when}".encode()) for when in ("before", "after"))
            return [before, Persist("state", name.encode()), after]

        disk = SlowDisk(tmp_path)
        checked = []

        def check(frame: bytes) -> None:
            name, when = frame.decode().split()
            if when == "after":
                assert int(disk.read()["state"]) >= int(name)
                checked.append(name)

        wire.on_send = check
        driver = Driver(Scripted(script), wire, disk)
        task = asyncio.ensure_future(driver.run())
        for number in range(5):
            wire.inbox.put("x", str(number).encode())
        await until(lambda: wire.sent)
        await asyncio.sleep(0.3)
        assert wire.sent == [b"0 before"]  # all else is behind the first blob
        disk.go.set()
        await until(lambda: len(wire.sent) == 10)
        driver.stop()
        await task
        disk.close()
        assert wire.sent == [f"{n} {when}".encode() for n in range(5) for when in ("before", "after")]
        assert checked == list("01234")
        assert disk.rounds == [["0"], ["1", "2", "3", "4"]] or disk.rounds == [list("01234")]

    asyncio.run(play())


def test_the_loop_goes_on_while_the_disk_writes_and_a_stop_waits_for_it(tmp_path: Path) -> None:
    async def play() -> None:
        wire = Wire()
        disk = SlowDisk(tmp_path)
        driver = Driver(Scripted(lambda *_: [Persist("a", b"1"), Send("x", b"later")]), wire, disk)
        task = asyncio.ensure_future(driver.run())
        wire.inbox.put("x", b"")
        await until(lambda: driver.counts["frames"] == 1)
        driver.stop()
        await asyncio.sleep(0.1)
        assert not task.done()
        disk.go.set()
        await task
        assert wire.sent == [b"later"]
        assert wire.stopped
        disk.close()

    asyncio.run(play())


def test_a_slow_disk_holds_the_source_back(tmp_path: Path) -> None:
    async def play() -> None:
        wire, disk = Wire(), SlowDisk(tmp_path)
        source = Numbers(100_000, batch=10)
        driver = Driver(Scripted(lambda *_: [Persist("a", b"1")]), wire, disk, source=source)
        task = asyncio.ensure_future(driver.run())
        await asyncio.sleep(0.5)
        assert driver.counts["batches"] < 100
        disk.go.set()
        await until(lambda: driver.source_ended and driver.counts["events"] == 100_000)
        driver.stop()
        await task
        disk.close()
        assert driver.counts["rounds"] < driver.counts["persists"]

    asyncio.run(play())


def test_ticks_come_when_they_are_due_and_time_does_not_run_backwards(tmp_path: Path) -> None:
    async def play() -> None:
        times: list[int] = []

        def script(event: Any, now: int) -> list[Action]:
            assert isinstance(event, Tick)
            times.append(now)
            machine.due = now + 50 if len(times) < 6 else None
            return []

        machine = Scripted(script, due=0)
        async with running(machine, Wire(), tmp_path) as driver:
            await until(lambda: len(times) == 6)
            await asyncio.sleep(0.2)
            assert driver.counts["ticks"] == len(times) == 6
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert min(gaps) >= 50
        assert sorted(gaps)[2] < 500

    asyncio.run(play())
    assert abs(milliseconds() - time.monotonic() * 1000) < 1000


def test_a_frame_that_cannot_be_read_is_counted_and_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def script(event: Any, _: int) -> list[Action]:
        if event.frame == b"bad":
            raise DamagedBytesError("this is bad")
        return [Send("x", event.frame)]

    async def play() -> None:
        wire = Wire()
        async with running(Scripted(script), wire, tmp_path) as driver:
            for frame in (b"bad", b"good", b"bad"):
                wire.inbox.put("x", frame)
            await until(lambda: driver.counts["frames"] == 3)
        assert (wire.sent, driver.counts["malformed"]) == ([b"good"], 2)

    asyncio.run(play())
    assert "a frame of x cannot be read, number 2 of such: this is bad" in caplog.text


@pytest.mark.parametrize("where", ["frame", "tick", "batch", "disk", "source"])
def test_what_fails_otherwise_ends_the_driver_cleanly_and_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    class Broken(Numbers):
        def next(self) -> Any:
            raise OSError("no source")

    def script(*_: Any) -> list[Action]:
        if where == "disk":
            (tmp_path / "state").rename(tmp_path / "elsewhere")
            return [Persist("a", b""), Send("x", b"must not leave")]
        if where == "source":
            return []
        raise ZeroDivisionError("the machine")

    async def play() -> None:
        wire = Wire()
        source = {"batch": Numbers(10), "source": Broken(10)}.get(where)
        machine = Scripted(script, due=0 if where in ("tick", "disk") else None)
        with Disk(tmp_path / "state") as disk:
            driver = Driver(machine, wire, disk, source=source)
            wire.inbox.put("x", b"") if where == "frame" else None
            with pytest.raises(OSError if where in ("disk", "source") else ZeroDivisionError):
                await asyncio.wait_for(driver.run(), 20)
        assert wire.stopped
        assert wire.sent == []

    asyncio.run(play())
    assert "stopping, because this went wrong" in caplog.text


def test_a_disk_that_fails_at_the_last_blob_of_a_stop_is_told(tmp_path: Path) -> None:
    def script(event: Any, _: int) -> list[Action]:
        if not isinstance(event, Stopping):
            return []
        (tmp_path / "state").rename(tmp_path / "elsewhere")
        return [Persist("state", b"all")]

    async def play() -> None:
        with Disk(tmp_path / "state") as disk:
            driver = Driver(Scripted(script), Wire(), disk, source=Numbers(10, batch=5), done=lambda: True)
            with pytest.raises(OSError, match="state"):
                await asyncio.wait_for(driver.run(), 20)

    asyncio.run(play())


def test_what_a_source_gave_before_it_failed_is_durable(tmp_path: Path) -> None:
    class Rotated(Numbers):
        def next(self) -> Any:
            batch = super().next()
            if batch is None:
                raise InputError("another file", "put the first one back")
            return batch

    taken: list[Any] = []

    def script(event: Any, _: int) -> list[Action]:
        taken.append(event)
        return [Persist("state", b"all")] if isinstance(event, Stopping) else []

    async def play() -> None:
        with Disk(tmp_path) as disk:
            driver = Driver(Scripted(script), Wire(), disk, source=Rotated(10, batch=5))
            with pytest.raises(InputError, match="another file"):
                await asyncio.wait_for(driver.run(), 20)
            assert disk.read()["state"] == b"all"

    asyncio.run(play())
    assert [type(event) for event in taken[2:]] == [Stopping]


def test_a_machine_is_told_once_that_its_source_has_ended(tmp_path: Path) -> None:
    async def play() -> None:
        told: list[Any] = []

        def script(event: Any, _: int) -> list[Action]:
            told.append(event)
            return [Persist("state", b"all")] if isinstance(event, Stopping) else []

        async with running(Scripted(script), Wire(), tmp_path, source=Numbers(10)) as driver:
            await until(lambda: driver.counts["rounds"] == 1)
            await asyncio.sleep(0.2)
            assert [isinstance(event, Stopping) for event in told] == [False, True]

    asyncio.run(play())
