"""Sources: every good event once, in order, from any position; every bad line counted, with its number and reason."""

from __future__ import annotations

import gzip
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.kernel.wc98 import LOGGED, RECORD
from catchment.net.address import Address
from catchment.net.source import BadLines, Csv, Fields, FileFeed, JsonLines, Reader, SocketFeed, StreamFeed, WebLog
from catchment.net.source.columns import integers, iso_ticks
from catchment.net.source.decoders import INTEGER, ISO
from catchment.net.source.reader import IdleClock

BOTH = Fields("k", "t")


def listed(keys: Any) -> list[Any]:
    found: list[Any] = keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist()
    return found


def events(source: Any) -> list[tuple[Any, int | None]]:
    """All that is left of a source; positions must fit."""
    found: list[tuple[Any, int | None]] = []
    start: int | None = None
    while (batch := source.next()) is not None:
        assert len(batch) > 0
        start = batch.position - len(batch) if start is None else start
        times = [None] * len(batch) if batch.times is None else batch.times.tolist()
        found += zip(listed(batch.keys), times, strict=True)
        assert batch.position == start + len(found)
    return found


def started(source: Reader, position: int = 0, marks: bytes = b"") -> Reader:
    source.start(position, marks)
    return source


def numbered(bad: BadLines) -> list[tuple[int, str]]:
    return sorted((line.number, line.reason) for line in bad.first)


CSV = (
    b"\xef\xbb\xbfk,other,t\r\n"  # a mark of byte order, which some programs put first
    b"a,x,1\r\n"
    b"\r\n"
    b'"b,""c""",y,2\n'
    b"d,z\n"  # 5: too few
    b"e,z,3,4\n"  # 6: too many
    b"\n"
    b",z,5\n"  # 8: no key
    b'"",z,6\n'
    b"f,z,soon\n"  # 10: no time
    b"\xff,z,7\n"  # 11: not UTF-8
    b'"g,z,8\n'  # 12: a quote that does not close
    b'h"i,"z,9\n'  # 13: closes nothing that was opened
    b"j\x00,z, 10 \n"
    b"k,z,99999999999999999999\n"  # 15: no 64 bits
    b"l\rm,z,11\n"  # 16: two lines for some
    b"n,\xff\xfe,12"
)
CSV_GOOD = [("a", 1), ('b,"c"', 2), ("", 6), ("j\0", 10), ("n", 12)]
CSV_BAD = [5, 6, 8, 10, 11, 12, 13, 15, 16]


def test_csv_with_every_kind_of_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_bytes(CSV)
    source = started(Reader(FileFeed(file), Csv(BOTH)))
    assert events(source) == CSV_GOOD
    assert [number for number, _ in numbered(source.bad)] == CSV_BAD
    assert source.bad.count == len(CSV_BAD) == sum(source.bad.reasons.values())
    reasons = dict(numbered(source.bad))
    assert reasons[5] == reasons[6] == "it has another number of fields"
    assert reasons[12] == "a quote that does not close"
    assert reasons[8] == reasons[11] == "no k, or one that is not text"
    assert reasons[10] == reasons[15] == "no t, or one that is no time"


JSON = [
    b'{"k": "a", "t": 1, "more": {"x": [1, 2]}}',
    b"",
    b'{"k": "b"}',  # 3: no time
    b'{"t": 2}',  # 4: no key
    b'{"k": 5, "t": 3}',  # 5: a number
    b'{"k": "c", "t": 4',  # 6: not closed
    b"[1, 2]",  # 7: no object
    b'{"k": "d", "t": 5} {"k": "e", "t": 6}',  # 8: two
    b'{"k": "\xff", "t": 7}',  # 9: not UTF-8
    b'{"k": "f", "t": 1.5}',  # 10
    b'{"k": null, "t": 8}',  # 11
    b"\x00\x01",  # 12
    b'{"k": "\\u00e9\\n", "t": -9}',
    b"[" * 100_000,  # 14: deep
    b'{"k": "g", "t": 10}',
]
JSON_GOOD = [("a", 1), ("é\n", -9), ("g", 10)]


def test_json_lines_with_every_kind_of_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_bytes(b"\n".join(JSON))
    source = started(Reader(FileFeed(file), JsonLines(BOTH)))
    assert events(source) == JSON_GOOD
    assert [number for number, _ in numbered(source.bad)] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14]
    assert "changed from string to number" in dict(numbered(source.bad))[5]


def records(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    made = np.zeros(count, dtype=RECORD)
    made["at"] = LOGGED[0] + np.arange(count)
    made["object"] = random.integers(0, 2**32, size=count)
    made["client"] = random.integers(0, 100, size=count)
    return made


def test_web_log_records_with_bad_ones(tmp_path: Path) -> None:
    made = records(1000)
    made["at"][[3, 500]] = 7
    file = tmp_path / "wc_day1"
    file.write_bytes(made.tobytes() + b"cut")
    source = started(Reader(FileFeed(file), WebLog("object")))
    good = np.delete(made, [3, 500])
    assert events(source) == list(zip(good["object"].tolist(), good["at"].tolist(), strict=True))
    assert numbered(source.bad) == [
        (4, "its time is outside the log"), (501, "its time is outside the log"), (1001, "it is cut short"),
    ]  # fmt: skip
    packed = tmp_path / "wc_day1.gz"
    packed.write_bytes(gzip.compress(made.tobytes()))
    by_client = started(Reader(FileFeed(packed), WebLog("client", tick=60_000_000), batch=77))
    assert events(by_client) == list(zip(good["client"].tolist(), (good["at"] // 60).tolist(), strict=True))
    with pytest.raises(ParameterError, match="choose one of client, object"):
        WebLog("at")


def big(folder: Path, kind: str, lines: int = 60_000) -> tuple[Path, Any, list[Any]]:
    """A file of some blocks with bad lines here and there, a decoder's maker, and the good keys."""
    good = [None if n % 997 == 5 else f"key {n} " + "x" * (n % 40) for n in range(lines)]
    file = folder / f"events.{kind}"
    if kind == "json":
        texts = ["{bad" if key is None else json.dumps({"k": key, "t": n}) for n, key in enumerate(good)]
        file.write_text("\n".join(texts) + "\n")
        return file, lambda: JsonLines(BOTH), [key for key in good if key is not None]
    if kind == "wc98":
        made = records(lines * 4)
        made["at"][::997] = 0
        file.write_bytes(made.tobytes())
        return file, WebLog, made["object"][made["at"] > 0].tolist()
    texts = ["bad" if key is None else f'"{key}",{n}' for n, key in enumerate(good)]
    data = ("k,t\n" + "\n".join(texts) + "\n").encode()
    file.write_bytes(gzip.compress(data) if kind == "csv.gz" else data)
    return file, lambda: Csv(BOTH), [key for key in good if key is not None]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "json", "wc98"])
def test_a_file_goes_on_exactly_from_any_position(tmp_path: Path, kind: str) -> None:
    file, decoder, good = big(tmp_path, kind)
    whole = started(Reader(FileFeed(file), decoder(), batch=7001))
    assert [key for key, _ in events(whole)] == good
    marks = whole.marks()
    assert len(json.loads(marks)["marks"]) > 2
    for position in (0, 1, 7001, len(good) // 2, len(good) - 1, len(good)):
        for known in (marks, b""):
            source = started(Reader(FileFeed(file), decoder(), batch=9000), position, known)
            assert [key for key, _ in events(source)] == good[position:], (position, known)
            assert source.bad.count == whole.bad.count, (position, known)
    with pytest.raises(InputError, match="the source ends 3 events before position"):
        events(started(Reader(FileFeed(file), decoder()), len(good) + 3))


def test_a_file_that_is_another_is_refused(tmp_path: Path) -> None:
    file, decoder, good = big(tmp_path, "csv")
    source = started(Reader(FileFeed(file), decoder()))
    events(source)
    marks = source.marks()
    data = file.read_bytes()
    file.write_bytes(data[:4] + b'"other",1\n' + data[4:])
    with pytest.raises(InputError, match="is not the file that was read"):
        started(Reader(FileFeed(file), decoder()), len(good), marks)
    file.write_bytes(data[:10_000])
    with pytest.raises(InputError, match="is not the file that was read"):
        started(Reader(FileFeed(file), decoder()), len(good), marks)


@pytest.mark.parametrize("rotate", ["renamed", "emptied", "gone"])
def test_a_followed_file_that_was_rotated_is_refused_then_and_later(tmp_path: Path, rotate: str) -> None:
    """Its marks are of what was read, not of what is there now."""
    file = tmp_path / "events.csv"
    file.write_text("k,t\na,1\nb,2\n")
    source = started(Reader(FileFeed(file, follow=True), Csv(BOTH)))
    batch = source.next()
    assert batch is not None
    if rotate != "emptied":
        file.rename(tmp_path / "events.csv.1")
    if rotate != "gone":
        file.write_text("k,t\nc,3\n")
    with pytest.raises(InputError, match="is gone" if rotate == "gone" else "is not the file that was read"):
        source.next()
    marks = source.marks()
    file.write_text("k,t\nc,3\nd,4\ne,5\n")
    with pytest.raises(InputError, match="is not the file that was read"):
        started(Reader(FileFeed(file, follow=True), Csv(BOTH)), 2, marks)


def test_a_followed_file_gives_whole_lines_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("")
    source = started(Reader(FileFeed(file, follow=True), Csv(BOTH)))

    def write() -> None:
        with file.open("a") as out:
            for text in ("k,", "t\na,1\nb,", "2\n", "c,3\nbad\nd,4", "\n"):
                time.sleep(0.15)
                out.write(text)
                out.flush()

    writer = threading.Thread(target=write)
    writer.start()
    found: list[Any] = []
    while len(found) < 4:
        batch = source.next()
        assert batch is not None
        found += zip(
            listed(batch.keys), (batch.times if batch.times is not None else np.zeros(0)).tolist(), strict=True
        )
    writer.join()
    assert found == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert numbered(source.bad) == [(5, "it has another number of fields")]
    later = threading.Timer(0.3, source.stop)
    later.start()
    assert source.next() is None
    later.join()
    again = started(Reader(FileFeed(file, follow=True), Csv(BOTH)), 2, source.marks())
    batch = again.next()
    assert batch is not None
    assert (listed(batch.keys), batch.position) == (["c", "d"], 4)
    file.write_text("k,t\n")
    with pytest.raises(InputError, match="files that are followed must only grow"):
        again.next()


def test_a_socket_is_dialled_again_and_its_cut_line_is_bad(caplog: pytest.LogCaptureFixture) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    feed = SocketFeed(Address("127.0.0.1", server.getsockname()[1]))
    source = started(Reader(feed, Csv(Fields("k"), columns=("k", "t"))), 100)
    assert not source.replayable

    def serve() -> None:
        for text in (b"a,1\nb,2\ncut", b"c,3\nd,4\n"):
            caller, _ = server.accept()
            caller.sendall(text)
            caller.close()

    thread = threading.Thread(target=serve)
    thread.start()
    found: list[Any] = []
    while len(found) < 4:
        batch = source.next()
        assert batch is not None
        found += listed(batch.keys)
    thread.join()
    assert batch is not None
    assert (found, batch.position, batch.times) == (list("abcd"), 104, None)
    assert [line.text for line in source.bad.first] == ["cut"]
    assert "is open again: what it sends again is counted again" in caplog.text
    server.close()
    source.close()


def test_the_standard_input_is_read_to_its_end() -> None:
    read, write = os.pipe()
    os.write(write, b'{"k": "a"}\nbad\n{"k": "b"}')
    os.close(write)
    source = started(Reader(StreamFeed(read), JsonLines(Fields("k"))))
    assert events(source) == [("a", None), ("b", None)]
    assert source.bad.count == 1
    os.close(read)


def test_a_line_without_end_is_passed_over_without_being_kept(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_bytes(b"k\na\n" + b"x" * 5_000_000 + b"\nb\n" + b"y" * 3_000_000)
    source = started(Reader(FileFeed(file), Csv(Fields("k"))))
    assert events(source) == [("a", None), ("b", None)]
    assert numbered(source.bad) == [(number, "it has more than 1048576 bytes") for number in (3, 5)]
    assert max(len(line.text) for line in source.bad.first) <= 200
    again = started(Reader(FileFeed(file), Csv(Fields("k"))), 1, source.marks())
    assert events(again) == [("b", None)]
    assert again.bad.count == 2


def test_of_many_bad_lines_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_text("bad\n" * 3000 + '{"k": "a"}\n')
    source = started(Reader(FileFeed(file), JsonLines(Fields("k"))))
    assert events(source) == [("a", None)]
    assert (source.bad.count, len(source.bad.first), source.bad.first[-1].number) == (3000, 20, 20)


def test_integer_keys_are_integers(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("k\n5\n-7\n 8\nx\n9.0\n")
    source = started(Reader(FileFeed(file), Csv(Fields("k", key_type=INTEGER))))
    assert events(source) == [(5, None), (-7, None), (8, None)]
    file.write_text('{"k": 5}\n{"k": "5"}\n{"k": null}\n')
    source = started(Reader(FileFeed(file), JsonLines(Fields("k", key_type=INTEGER))))
    assert events(source) == [(5, None)]
    assert source.bad.count == 2


def test_times_are_ticks_or_iso() -> None:
    texts = ["1970-01-01T00:00:01Z", "1970-01-01 00:00:02.5", "1970-01-01T02:00:03+02:00", "1970-01-01",
             "1969-12-31T23:59:59.9Z", "1970-13-01", "1970-02-30T00:00:00Z", "soon", "", None,
             "1970-01-01T25:00:00"]  # fmt: skip
    ticks, good = iso_ticks(pa.array(texts, pa.string()), 1_000_000)
    assert good.tolist() == [True] * 5 + [False] * 6
    assert ticks[good].tolist() == [1, 2, 3, 0, -1]
    fields = Fields("k", "t", time_format=ISO, tick=60_000_000)
    keys, times = Csv(fields, columns=("k", "t")).decode(b"a,1970-01-01T00:02:59Z\nb,2\n", 1, bad := BadLines())
    assert (listed(keys), times is not None and times.tolist(), bad.count) == (["a"], [2], 1)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1).map(str), st.text(max_size=4), st.none()), max_size=30))
def test_integers_are_those_that_python_reads(texts: list[str | None]) -> None:
    values, good = integers(pa.array(texts, pa.string()))
    for text, value, is_good in zip(texts, values.tolist(), good.tolist(), strict=True):
        try:
            wanted = None if text is None or not text.strip().lstrip("+-").isascii() or "_" in text else int(text)
        except ValueError:
            wanted = None
        if wanted is not None:
            assert is_good
            assert value == wanted
        else:
            assert not is_good


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 7))
def test_whatever_the_bytes_every_line_is_an_event_or_bad_and_never_an_error(lines: list[bytes], seed: int) -> None:
    good = b'"good %d",%d\n' % (seed, seed)
    block = b"".join(line.replace(b"\n", b"").replace(b"\r", b"") + b"\n" + good for line in lines)
    filled = [line for line in lines if line.replace(b"\n", b"").replace(b"\r", b"")]
    keys, times = Csv(BOTH, columns=("k", "t")).decode(block, 1, bad := BadLines())
    assert times is not None
    assert len(keys) == times.size
    assert len(keys) + bad.count == len(filled) + len(lines)
    assert listed(keys).count(f"good {seed}") >= len(lines)
    block = block.replace(good, b'{"k": "good", "t": 1}\n')
    keys, times = JsonLines(BOTH).decode(block, 1, bad := BadLines())
    assert len(keys) + bad.count <= len(filled) + len(lines)
    assert listed(keys).count("good") == len(lines)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: Csv(Fields("url")).begin(file.read_bytes()), "no column 'url': name one of k, t"),
        (lambda _: Csv(Fields("k"), columns=("k", "k")), "more than one column 'k'"),
        (lambda _: Csv(Fields("k"), separator="ab"), "give one character"),
        (lambda file: Reader(FileFeed(file), Csv(Fields("k")), batch=0), "batch=0: give 1 or more"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, make: Any, said: str) -> None:
    file = tmp_path / "events.csv"
    file.write_text("k,t\n")
    with pytest.raises(ParameterError, match=said):
        make(file)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no file"):
        FileFeed(tmp_path / "none")
    packed = tmp_path / "events.gz"
    packed.write_bytes(gzip.compress(b"k\n" + os.urandom(5000).hex().encode() + b"\n")[:3000])
    with pytest.raises(ParameterError, match="unpack it to follow it"):
        FileFeed(packed, follow=True)
    with pytest.raises(InputError, match="fetch the file again"):
        events(started(Reader(FileFeed(packed), Csv(Fields("k")))))


@pytest.mark.parametrize("kind", ["csv", "json", "wc98"])
def test_a_file_is_read_fast_enough_bad_lines_and_all(tmp_path: Path, kind: str) -> None:
    file, decoder, good = big(tmp_path, kind, 400_000)
    best = 0.0
    for _ in range(3):
        source = started(Reader(FileFeed(file), decoder()))
        start = time.process_time()
        count = 0
        while (batch := source.next()) is not None:
            count += len(batch)
        best = max(best, count / (time.process_time() - start))
        assert count == len(good)
    print(f"\n{kind}: {best:,.0f} events a second of the processor")
    # In JSON a bad line, one of a thousand here, costs another look at its block.
    # Floors far below what is seen, in time of the processor: this is no benchmark, it is to notice a row at a time.
    assert best >= (10_000 if kind == "json" else 60_000)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_times_beyond_what_a_window_counts_with_are_bad_lines(kind: str) -> None:
    times = [5, 2**60, 2**60 + 1, -(2**60), -(2**60) - 1, 1_700_000_000_000_000_000, 7]
    if kind == "csv":
        lines = "".join(f"key {place},{time}\n" for place, time in enumerate(times))
        decoder: Any = Csv(BOTH, columns=("k", "t"))
    else:
        lines = "".join(json.dumps({"k": f"key {place}", "t": time}) + "\n" for place, time in enumerate(times))
        decoder = JsonLines(BOTH)
    keys, found = decoder.decode(lines.encode(), 1, bad := BadLines())
    assert found.tolist() == [5, 2**60, -(2**60), 7]
    assert listed(keys) == ["key 0", "key 1", "key 3", "key 6"]
    assert +bad.reasons == {"a t beyond 2^60 ticks: give a coarser unit": 3}
    assert [number for number, _ in numbered(bad)] == [3, 5, 6]


def test_while_a_file_is_silent_time_goes_on_by_the_clock_on_the_wall(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("k,t\na,995\n")
    looks: list[float] = [50.0]

    def steady() -> float:
        looks.append(looks[-1] + 1)  # each look is a second later
        return looks[-1]

    idle = IdleClock(3_000_000, 1_000_000, wall=lambda: 1000 + looks[-1], steady=steady)
    source = started(Reader(FileFeed(file, follow=True), Csv(BOTH), idle=idle))
    first = source.next()
    assert first is not None
    assert (len(first), first.time) == (1, None)
    silent = [source.next() for _ in range(3)]
    # Three seconds of silence before the first; each is what the wall shows, less the lag.
    assert [(batch.time, len(batch), batch.position) for batch in silent if batch is not None] == [
        (1051, 0, 1), (1052, 0, 1), (1053, 0, 1),
    ]  # fmt: skip
    with file.open("a") as more:
        more.write("b,1003\n")
    event = source.next()
    assert event is not None
    assert (listed(event.keys), event.time, event.position) == (["b"], None, 2)
    again = source.next()
    assert again is not None
    assert again.time == 1057  # and the silence was three seconds long again
    source.stop()
    assert source.next() is None


def test_a_wall_clock_that_is_set_back_says_nothing_until_it_has_caught_up() -> None:
    wall = iter([100.0, 101.0, 50.0, 101.5, 102.0])
    steady = iter(range(10, 100))
    idle = IdleClock(1_000_000, 1_000_000, wall=lambda: next(wall), steady=lambda: float(next(steady)))
    assert [idle.reached() for _ in range(6)] == [None, 99, 100, None, None, 101]
