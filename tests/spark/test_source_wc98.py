"""The format `wc98`: every record once, and what is malformed named."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.kernel.wc98 import LOGGED, NO_SIZE, RECORD
from catchment.spark.source import Checks, register_sources, split_bad
from catchment.spark.source.wc98 import CORRUPT, FilePart, Plan, WebLogReader, WebLogStreamReader

pytestmark = pytest.mark.spark


def records(count: int, *, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    made = np.frombuffer(rng.bytes(count * 20), dtype=RECORD).copy()
    made["at"] = np.sort(rng.integers(*LOGGED, count))
    made["size"][::7] = NO_SIZE
    return made


def as_rows(made: Any) -> list[dict[str, Any]]:
    """What the source should give for records, times as seconds."""
    return [
        {"time": at, "client": client, "object": wanted, "size": None if size == NO_SIZE else size, "method": method,
         "status": status, "type": kind, "server": server, "region": server // 32}
        for at, client, wanted, size, method, status, kind, server in made.tolist()
    ]  # fmt: skip


def found(batches: Any) -> list[dict[str, Any]]:
    """Rows of Arrow data, times as seconds, without a corrupt column that says nothing."""
    table = batches if isinstance(batches, pa.Table) else pa.Table.from_batches(batches)
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row["time"] = None if row["time"] is None else int(row["time"].timestamp())
        if row.get(CORRUPT, "") is None:
            del row[CORRUPT]
    return rows


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    """The rows as the tasks make them, part after part."""
    reader = WebLogReader(Plan.from_options({"path": str(path)} | {name: str(o) for name, o in options.items()}))
    return found([batch for part in reader.partitions() for batch in reader.read(part)])


def in_spark(spark: Any, path: Path, **options: Any) -> Any:
    register_sources(spark)
    return spark.read.format("wc98").options(**options).load(str(path))


def test_a_folder_of_plain_and_gzipped_files_gives_every_record_once(spark: Any, tmp_path: Path) -> None:
    parts = [records(count, seed=count) for count in (1000, 333, 1)]
    (tmp_path / "a").write_bytes(parts[0].tobytes())
    (tmp_path / "b.gz").write_bytes(gzip.compress(parts[1].tobytes()))
    (tmp_path / "c").write_bytes(parts[2].tobytes())
    (tmp_path / "_SUCCESS").write_bytes(b"no data")
    (tmp_path / "empty").write_bytes(b"")
    frame = in_spark(spark, tmp_path, split=5000)
    assert frame.rdd.getNumPartitions() == 4 + 1 + 1
    expected = as_rows(np.concatenate(parts))
    assert sorted(found(frame.toArrow()), key=str) == sorted(expected, key=str)
    assert in_spark(spark, tmp_path / "[bc]*").count() == 334
    assert in_spark(spark, tmp_path / "empty").count() == 0
    kinds = dict(frame.dtypes)
    assert (kinds["time"], kinds["client"], kinds["server"]) == ("timestamp", "bigint", "smallint")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_large_files_are_read_in_chunks(tmp_path: Path, pack: Any) -> None:
    made = records(150_000)
    (tmp_path / "log").write_bytes(pack(made.tobytes()))
    assert read(tmp_path / "log") == as_rows(made)


def test_a_record_cut_short_is_named_and_the_others_are_there(spark: Any, tmp_path: Path) -> None:
    made = records(100)
    (tmp_path / "log").write_bytes(made.tobytes()[:-7])
    rows = read(tmp_path / "log", split=400)
    assert rows[:-1] == as_rows(made)[:99]
    assert rows[-1]["client"] is None
    assert rows[-1][CORRUPT] == f"{tmp_path}/log: 13 of 20 bytes of a record at 1980: {made[99:].tobytes()[:13].hex()}"
    assert read(tmp_path / "log", mode="dropmalformed") == as_rows(made)[:99]
    with pytest.raises(InputError, match=r"malformed: .*13 of 20 bytes"):
        read(tmp_path / "log", mode="FAILFAST")
    good, bad = split_bad(in_spark(spark, tmp_path), Checks(key="object", corrupt=CORRUPT))
    assert good.count() == 99
    assert CORRUPT not in good.columns
    (letter,) = bad.collect()
    assert letter["reason"] == "corrupt record"
    assert "13 of 20 bytes of a record at 1980" in letter["record"]
    with pytest.raises(Exception, match=r"InputError: malformed: .*13 of 20 bytes"):
        in_spark(spark, tmp_path, mode="FAILFAST").count()


def test_a_gzip_file_cut_short_gives_what_was_whole(tmp_path: Path) -> None:
    made = records(5000)
    packed = gzip.compress(made.tobytes())
    (tmp_path / "log").write_bytes(packed[: len(packed) // 2])
    *rows, last = read(tmp_path / "log")
    assert 1000 < len(rows) < 5000
    assert rows == as_rows(made)[: len(rows)]
    assert f"at {20 * len(rows)} (the gzip file ends early)" in last[CORRUPT]
    assert len(read(tmp_path / "log", mode="DROPMALFORMED")) == len(rows)


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(records(5000).tobytes()))
    packed[-6] ^= 1  # its checksum
    (tmp_path / "log").write_bytes(packed)
    assert "damaged gzip" in read(tmp_path / "log")[-1][CORRUPT]


def test_gzip_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    made = records(50)
    data = made.tobytes()
    (tmp_path / "log").write_bytes(gzip.compress(data[:333]) + gzip.compress(data[333:]))
    assert read(tmp_path / "log") == as_rows(made)


def test_lost_bytes_show_in_times_outside_the_log(tmp_path: Path) -> None:
    made = records(100)
    made["client"], made["object"] = 77, 88
    data = made.tobytes()
    (tmp_path / "log").write_bytes(data[:400] + data[404:])
    rows = read(tmp_path / "log")
    assert rows[:20] == as_rows(made)[:20]
    strange = [row for row in rows if CORRUPT in row]
    assert len(strange) == 80
    assert f"the time of the record at 400 is outside the log: {data[404:424].hex()}" in strange[0][CORRUPT]
    assert {row["object"] for row in strange} == {None}
    assert read(tmp_path / "log", mode="DROPMALFORMED") == as_rows(made)[:20]
    with pytest.raises(InputError, match="record at 400 is outside the log"):
        read(tmp_path / "log", mode="FAILFAST")


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    made = records(10)
    (tmp_path / "log").write_bytes(made.tobytes()[:100])
    plan = Plan.from_options({"path": str(tmp_path)})
    *rows, last = found(list(plan.read(FilePart(str(tmp_path / "log"), 0, 200))))
    assert rows == as_rows(made)[:5]
    assert "ends 100 bytes before it did" in last[CORRUPT]


def test_a_stream_follows_a_growing_folder(spark: Any, tmp_path: Path) -> None:
    register_sources(spark)
    folder = tmp_path / "log"
    folder.mkdir()
    made = records(300)
    data = made.tobytes()

    def run() -> list[int]:
        stream = spark.readStream.format("wc98").options(max_files=1).load(str(folder))
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    (folder / "a").write_bytes(data[:2007])
    (folder / "b.gz").write_bytes(gzip.compress(data[4000:]))
    assert run() == [100, 100]
    (folder / "a").write_bytes(data[:4000])
    assert run() == [100], "the record that was unfinished is read once it is whole"
    assert run() == []
    assert sorted(found(spark.read.parquet(str(tmp_path / "out")).toArrow()), key=str) == sorted(as_rows(made), key=str)


def test_offsets_of_a_stream_are_whole_records(tmp_path: Path) -> None:
    reader = WebLogStreamReader(Plan.from_options({"path": str(tmp_path)}))
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset({}, limit) == reader.initialOffset() == {}
    (tmp_path / "a").write_bytes(records(5).tobytes()[:-1])
    name = str(tmp_path / "a")
    assert reader.latestOffset({}, limit) == {name: 80}
    assert reader.latestOffset({name: 80}, limit) == {name: 80}
    assert reader.partitions({name: 20}, {name: 80}) == [FilePart(name, 20, 80)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "x", "mode": "LENIENT"}, "mode='LENIENT': give one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"path": "x", "header": "true"}, "wc98 has no option 'header'"),
        ({"path": "x", "split": "1"}, "split='1'"),
        ({}, "without a path"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Plan.from_options(options)
    assert message in str(refused.value)


def test_a_query_on_no_files_is_not_built(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no file"):
        Plan.from_options({"path": str(tmp_path / "gone")}).check_files()
    with pytest.raises(Exception, match="NameNotFoundError: no file"):
        in_spark(spark, tmp_path / "gone")
