"""Shedding on Spark: what is kept and what is dropped, once each, also after a crash; a burst is got over."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from benchmarks.balance_parts.shedding import through_a_burst
from catchment import CountMin
from catchment.balance.shed_record import ShedRecord
from catchment.errors import BytesError, DamagedBytesError, InputError, ParameterError, UnknownFormatError, WeightError
from catchment.kernel.checksum import crc32c
from catchment.sketch.codec import Writer
from catchment.spark.shed import ShedStream, shed
from catchment.spark.shed_state import ShedDecision, ShedState, StateFolder

pytestmark = pytest.mark.spark

EVENTS = "id bigint, kind string, at timestamp"
SECOND = 1_000_000


def now() -> int:
    return time.time_ns() // 1000


def operate(row: dict[str, Any]) -> Any:
    time.sleep(0.03 if row["kind"] == "slow" else 0.003)
    if row["id"] % 5 == 0:
        return None
    results = [{"id": row["id"], "kind": row["kind"]}]
    return results * 2 if row["id"] % 5 == 1 else results[0]


def rows(first: int, count: int, at: int) -> pa.Table:
    ids = list(range(first, first + count))
    kinds = [("slow", "quick", "quick", None)[number % 4] for number in ids]
    return pa.table({"id": ids, "kind": kinds, "at": pa.array([at] * count, pa.timestamp("us", tz="UTC"))})


class Stage:
    """A stream of files, and what came out of it by batch; a batch that is written again replaces itself."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.results: dict[int, list[int]] = {}
        self.dropped: dict[int, list[int]] = {}
        self.put_at = time.time() - 3600
        (folder / "in").mkdir()

    def put(self, name: str, table: pa.Table) -> None:
        """One more file; Spark reads the oldest first, and two of one instant in any order."""
        file = self.folder / "in" / f"{name}.parquet"
        pq.write_table(table, file)
        self.put_at += 1
        os.utime(file, (self.put_at, self.put_at))

    def wide(self, **options: Any) -> ShedStream:
        """With a column of users and one of sizes; what is dropped goes nowhere."""
        return self.flow(columns=f"{EVENTS}, user string, size int", dropped=None, **options)

    def flow(self, *, columns: str = EVENTS, **options: Any) -> ShedStream:
        def into(results: Any, number: int) -> None:
            self.results[number] = [row.id for row in results.collect()]

        def dropped(shed_rows: Any, number: int) -> None:
            assert shed_rows.columns == ["id", "kind", "at"]
            self.dropped[number] = [row.id for row in shed_rows.collect()]

        stream = self.spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        usual: dict[str, Any] = {
            "schema": "id bigint, kind string", "arrival": "at", "target": "10 minutes", "into": into, "tasks": 2,
            "dropped": dropped, "checkpoint": self.folder / "checkpoint", "expected_cost": "1 ms",
        }  # fmt: skip
        return shed(stream, operate, "kind", **usual | options)

    def run(self, flow: ShedStream) -> None:
        flow.start(availableNow=True).awaitTermination()


def expected(ids: range) -> Counter[int]:
    return expected_of(list(ids))


def expected_of(ids: list[int]) -> Counter[int]:
    return Counter(number for number in ids for _ in range((0, 2, 1, 1, 1)[number % 5]))


def test_what_waited_too_long_is_dropped_once_and_the_rest_is_done_once(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    stage.put("a", rows(0, 20, now()))
    stage.put("b", pa.concat_tables([rows(20, 20, now() - 3600 * SECOND), rows(40, 20, now())]))
    told: list[Any] = []
    flow = stage.flow(on_report=told.append)
    stage.run(flow)
    assert Counter(stage.results[0]) + Counter(stage.results[1]) == expected(range(20)) + expected(range(40, 60))
    assert (stage.dropped[0], sorted(stage.dropped[1])) == ([], list(range(20, 40)))
    assert [(one.rows, one.kept, one.dropped) for one in told] == [(20, 20, 0), (40, 20, 20)]
    assert flow.reports == told
    assert flow.metrics["dropped_total"] == flow.record.events == 20
    assert flow.metrics["kept_total"] == 40
    slow, quick = flow.shedder.price(["slow", "quick"])
    assert slow > 25_000
    assert 2_000 < quick < slow  # by the clock: a busy machine makes both longer
    text = flow.report()
    assert "target 600 s, 2 tasks, 40 rows kept, 20 dropped" in text
    assert len(text.splitlines()) == 5

    again = stage.flow()
    stage.put("c", rows(60, 8, now()))
    stage.run(again)
    assert Counter(stage.results[2]) == expected(range(60, 68))
    assert again.metrics["kept_total"] == 48
    assert [one.batch for one in again.reports] == [0, 1, 2]
    assert again.reports[2].expected_cost > 2  # what was learnt, and not the guess of 1 ms


def test_a_batch_that_runs_again_is_shed_as_it_was_and_counted_once(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    arrived = now()
    stage.put("a", rows(0, 10, arrived))

    def failing(results: Any, _number: int) -> None:
        results.count()
        raise RuntimeError("the sink is full")

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        stage.run(stage.flow(into=failing, target="10 minutes"))
    assert list((tmp_path / "checkpoint" / "shedding").glob("state-*")) == []
    (decision,) = (tmp_path / "checkpoint" / "shedding").glob("decision-*")
    # Decided anew, every row would by now have waited too long for a target of ten milliseconds.
    flow = stage.flow(target="10 ms")
    stage.run(flow)
    assert Counter(stage.results[0]) == expected(range(10))
    assert (flow.metrics["dropped_total"], flow.metrics["kept_total"]) == (0, 10)
    # Without the file it is decided anew.
    decision.unlink()
    flow = stage.flow(target="10 ms")
    flow.process(spark.createDataFrame(rows(0, 10, arrived)), 0)
    assert sorted(stage.dropped[0]) == list(range(10))
    assert (flow.metrics["dropped_total"], flow.metrics["kept_total"]) == (10, 0)


def test_a_batch_is_shed_as_it_was_in_other_partitions_and_orders_and_other_rows_are_noticed(
    spark: Any, tmp_path: Path
) -> None:
    stage = Stage(spark, tmp_path)
    # One time, so that nothing but what is in the rows tells their order; some rows are equal.
    table = pa.concat_tables([rows(0, 30, now()), rows(0, 5, now())])

    def failing(_results: Any, _number: int) -> None:
        raise RuntimeError("the sink is full")

    usual = {"target": "200 seconds", "expected_cost": "30 seconds"}  # a busy machine takes some of it
    first = stage.flow(into=failing, tasks=3, **usual)
    with pytest.raises(RuntimeError, match="the sink is full"):
        first.process(spark.createDataFrame(table).coalesce(1), 0)
    (path,) = (tmp_path / "checkpoint" / "shedding").glob("decision-*")
    decision = ShedDecision.from_bytes(path.read_bytes())
    lost = int((decision.lanes < 0).sum())
    assert 0 < lost < 35
    kept: list[Counter[int]] = []
    for partitions in (1, 5):
        mixed = table.take(list(range(34, -1, -1)))
        flow = stage.flow(tasks=partitions % 3, **usual)  # 1 and 2: lanes of the first run would be too many
        flow.process(spark.createDataFrame(mixed).repartition(partitions), 0)
        kept.append(Counter(stage.results[0]))
        assert flow.metrics["dropped_total"] == len(stage.dropped[0]) == lost
        assert kept[-1] + expected_of(stage.dropped[0]) == expected_of(table.column("id").to_pylist())
    assert kept[0] == kept[1]
    assert ShedDecision.from_bytes(path.read_bytes()).to_bytes() == decision.to_bytes()
    stage.results.clear()
    before = sorted((file.name, file.read_bytes()) for file in path.parent.iterdir())
    with pytest.raises(InputError, match=r"batch 0 has other rows than when .*decision-0 was written.*remove the file"):
        stage.flow(**usual).process(spark.createDataFrame(table.slice(1)), 0)
    assert stage.results == {}
    assert sorted((file.name, file.read_bytes()) for file in path.parent.iterdir()) == before


def test_files_may_be_on_any_file_system_that_spark_reaches(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.shed.link./far", (tmp_path / "far").as_uri())
    stage = Stage(spark, tmp_path)
    for number in range(5):
        flow = stage.flow(folder="viewfs://shed/far/learnt")
        flow.process(spark.createDataFrame(rows(10 * number, 4, now())), number)
        assert flow.metrics["kept_total"] == 4 * (number + 1)
    names = {file.name for file in (tmp_path / "far" / "learnt").iterdir() if not file.name.endswith(".crc")}
    assert names == {f"{kind}-{number}" for kind in ("state", "decision") for number in (2, 3, 4)}
    # A stream with a new checkpoint, and the folder of another's: it begins anew, and is not taken for a rerun.
    flow = stage.flow(folder="viewfs://shed/far/learnt")
    flow.process(spark.createDataFrame(rows(500, 4, now())), 0)
    assert flow.metrics["kept_total"] == 4
    names = {file.name for file in (tmp_path / "far" / "learnt").iterdir() if not file.name.endswith(".crc")}
    assert names == {"last-life", "state-0", "decision-0"}
    assert ShedState.from_bytes((tmp_path / "far" / "learnt" / "last-life").read_bytes()).batch == 4


def test_a_lost_partition_that_comes_back_in_another_order_is_shed_as_it_was(spark: Any, tmp_path: Path) -> None:
    """The sink is called, and the kept rows are forgotten under way: the side output must be those not in the sink."""
    stage = Stage(spark, tmp_path)
    old, new = rows(0, 30, now() - 3600 * SECOND), rows(100, 30, now())
    pq.write_table(pa.concat_tables([old, new]), tmp_path / "order.parquet")

    def into(results: Any, number: int) -> None:
        stage.results[number] = [row.id for row in results.collect()]
        mixed = pa.concat_tables([new, old])
        pq.write_table(mixed.take(list(range(59, -1, -1))), tmp_path / "order.parquet")
        spark.catalog.clearCache()

    flow = stage.flow(into=into)
    flow.process(spark.read.parquet(str(tmp_path / "order.parquet")), 0)
    assert Counter(stage.results[0]) == expected(range(100, 130))
    assert sorted(stage.dropped[0]) == list(range(30))


def test_answers_by_any_column_hold_for_all_rows(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow()
    stale, fresh = now() - 2000 * SECOND, now()
    table = pa.concat_tables([rows(0, 40, stale), rows(1000, 24, fresh)])
    flow.process(spark.createDataFrame(table), 0)
    sketch = CountMin(0.001, 0.001)
    sketch.update(["slow", "quick", "quick"] * 6)
    record = ShedRecord.from_bytes(flow.record.to_bytes())
    assert not sketch.estimate("quick").holds(32)
    assert record.ask(sketch, "estimate", "quick").holds(32)
    assert record.ask(sketch, "estimate", "slow").holds(16)
    ids = CountMin(0.001, 0.001)
    ids.update(list(range(1000, 1024)))
    assert not ids.estimate(3).holds(1)
    assert record.ask(ids, "estimate", 3).holds(1)
    assert record.between((stale // SECOND - 1, stale // SECOND)).events == 40
    assert record.between((stale // SECOND, fresh // SECOND)).events == 0


def test_a_record_by_key_widens_each_key_by_what_was_dropped_of_it(spark: Any, tmp_path: Path) -> None:
    """Over a restart, against counting; rows without a key or a weight are events to no sketch."""
    stage = Stage(spark, tmp_path)
    options = {"record_key": "user", "record_weight": "size"}
    stale, fresh = now() - 3600 * SECOND, now() + 600 * SECOND
    came: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    sketch = CountMin(0.001, 0.001)
    for number in range(3):
        table = rows(40 * number, 40, stale)
        users = [None if n == 7 else f"u{n % 10}" for n in range(40)]
        sizes = [None if n == 8 else n % 4 for n in range(40)]
        late = [n % 10 < 4 for n in range(40)]  # of users 0 to 3 everything is dropped, and nothing of the others
        times = pa.array([stale if is_late else fresh for is_late in late], pa.timestamp("us", tz="UTC"))
        table = table.set_column(2, "at", times)
        table = table.append_column("user", pa.array(users)).append_column("size", pa.array(sizes, pa.int32()))
        flow = stage.wide(**options)
        flow.process(spark.createDataFrame(table), number)
        for user, size, is_late in zip(users, sizes, late, strict=True):
            if user is not None and size is not None:
                came[user] += size
                gone[user] += size * is_late
                sketch.update([user] * (not is_late), weights=size)
    record = flow.record
    assert flow.metrics["dropped_total"] == 48
    assert (record.events, record.weight) == (48, sum(gone.values()))
    for user in came:
        before, answer = sketch.estimate(user), record.ask(sketch, "estimate", user)
        assert answer.holds(came[user])
        assert answer.high == before.high + gone[user]  # so few keys share no cell
        assert before.holds(came[user]) == (not gone[user])
    total = record.ask(sketch, "total")
    assert total.value == total.low == total.high == sum(came.values())
    assert record.ask(sketch, "self_join").holds(sum(count**2 for count in came.values()))
    windowed = record.between((stale // SECOND - 1, stale // SECOND))
    assert windowed.weight == sum(gone.values())

    with pytest.raises(ParameterError, match=r"record_key=None.* where 48 rows .*record_key='user'.*go on with these"):
        stage.wide().process(spark.createDataFrame(table), 3)
    negative = table.set_column(4, "size", pa.array([-1] * 40, pa.int32()))
    with pytest.raises(WeightError, match="weight -1 in size is negative"):
        stage.wide(**options).process(spark.createDataFrame(negative), 3)
    assert not (tmp_path / "checkpoint" / "shedding" / "decision-3").exists()


def test_a_record_may_begin_to_know_keys_until_something_was_dropped(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    stage.flow().process(spark.createDataFrame(rows(0, 4, now())), 0)
    flow = stage.flow(record_key="id")
    flow.process(spark.createDataFrame(rows(4, 4, now() - 3600 * SECOND)), 1)
    empty = CountMin(0.001, 0.001)
    assert [flow.record.ask(empty, "estimate", key).high for key in (3, 4, 7, 8)] == [0, 1, 1, 0]


def test_rows_without_a_time_have_just_come_and_empty_batches_are_nothing(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow(target="10 minutes")
    table = pa.table(
        {"id": [1, 2], "kind": ["quick", None], "at": pa.array([None, None], pa.timestamp("us", tz="UTC"))}
    )
    flow.process(spark.createDataFrame(table, schema=EVENTS), 0)
    assert Counter(stage.results[0]) == expected(range(1, 3))
    flow.process(spark.createDataFrame([], schema=EVENTS), 1)
    assert [one.batch for one in flow.reports] == [0]


def test_a_first_batch_is_shed_by_the_cost_that_is_expected(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow(target="200 seconds", expected_cost="100 seconds", tasks=1)
    flow.process(spark.createDataFrame(rows(0, 40, now())), 0)
    assert 30 <= flow.metrics["dropped_total"] < 40


def test_clocks_that_are_behind_or_set_back_stop_nothing(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow()
    for number in range(3):
        flow.process(spark.createDataFrame(rows(10 * number, 10, now())), number)
        flow._state.operator._finished += 3600e6  # as if that had been at another's clock
        flow._state.startup = 0.0
    assert flow.metrics["kept_total"] == 30
    assert ShedState.from_bytes(flow._state.to_bytes()).startup >= 0


def test_a_restart_may_learn_in_another_way(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    stage.flow().process(spark.createDataFrame(rows(0, 10, now())), 0)
    other = stage.flow(epsilon=0.2, window=100)
    other.process(spark.createDataFrame(rows(10, 10, now())), 1)
    assert Counter(stage.results[1]) == expected(range(10, 20))
    assert other.shedder.costs.parameters != stage.flow().shedder.costs.parameters


def test_a_start_that_was_slow_once_does_not_shed_for_ever(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow(target="10 minutes")
    flow.process(spark.createDataFrame(rows(1, 1, now())), 0)
    flow._state.startup = 2000e6
    for number in range(1, 8):
        flow.process(spark.createDataFrame(rows(1, 1, now())), number)
        if stage.results[number]:
            break
    assert 2 <= number < 8
    assert flow.metrics["dropped_total"] == number - 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"arrival": "id"}, "arrival='id' is of type bigint"),
        ({"arrival": "when"}, "arrival='when'"),
        ({"target": "soon"}, "target='soon'"),
        ({"tasks": 0}, "tasks=0"),
        ({"checkpoint": "s3://bucket/place"}, "a folder at s3"),
        ({"constraint": "median"}, "constraint='median'"),
        ({"record_key": "user"}, "record_key='user'"),
        ({"record_key": "at"}, "record_key='at' is of type timestamp"),
        ({"record_weight": "kind"}, "record_weight='kind' is of type string: give a column of integers"),
        ({"schema": "bigint"}, "schema='bigint'"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    spark: Any, tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ParameterError, match=complaint):
        Stage(spark, tmp_path).flow(**options)
    with pytest.raises(ParameterError, match="not a stream"):
        shed(spark.range(3), operate, "id", schema="id int", arrival="id", target=None, into=print, checkpoint="here")


def hurt(blob: bytes) -> Iterator[bytes]:
    """Bytes with a bit flipped here and there, cut short, too long, and none."""
    for at in sorted({0, 3, 4, 5, 6, 8, 12, len(blob) - 1, *range(20, len(blob), max(len(blob) // 40, 1))}):
        yield blob[:at] + bytes([blob[at] ^ 16]) + blob[at + 1 :]
    yield from (blob[:cut] for cut in (0, 1, 3, 4, 5, 19, len(blob) // 2, len(blob) - 1))
    yield blob + b"?"


def of_a_later_version(blob: bytes) -> bytes:
    later = bytearray(blob[:-4])
    later[4] = 9
    return bytes(later) + crc32c(np.frombuffer(later, dtype=np.uint8)).to_bytes(4, "little")


def test_files_that_are_hurt_stop_the_stream_by_their_names_and_nothing_is_lost(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow()
    flow.process(spark.createDataFrame(rows(0, 3, now())), 0)
    place = tmp_path / "checkpoint" / "shedding"
    files = StateFolder(spark, place)
    table = spark.createDataFrame(rows(10, 4, now())).persist()
    with pytest.raises(ZeroDivisionError):
        stage.flow(into=lambda *_: 1 / 0).process(table, 1)
    stage.results.clear()
    kinds: dict[str, Any] = {"state-0": ShedState.from_bytes, "decision-1": ShedDecision.from_bytes}
    for name, read in kinds.items():
        path, sums = place / name, place / f".{name}.crc"
        whole, checked = path.read_bytes(), sums.read_bytes()
        assert read(whole).to_bytes() == whole
        for bytes_ in hurt(whole):
            with pytest.raises(BytesError):
                read(bytes_)
        later = of_a_later_version(whole)
        for bytes_ in (whole[:-1], b"", whole[:50] + bytes([whole[50] ^ 1]) + whole[51:], later):
            for kept in (checked, None):
                path.write_bytes(bytes_)
                sums.unlink(missing_ok=True) if kept is None else sums.write_bytes(kept)
                error = UnknownFormatError if bytes_ is later and kept is None else DamagedBytesError
                before = {file.name: file.read_bytes() for file in place.iterdir()}
                with pytest.raises(error, match=rf"{name}: .*remove it"):
                    files.load(1) if name == "state-0" else files.decided(1, b"")
                assert {file.name: file.read_bytes() for file in place.iterdir()} == before
        with pytest.raises(UnknownFormatError, match=rf"{name}: format version 9: .* upgrade it; or .*remove it"):
            stage.flow().process(table, 1)
        assert stage.results == {}
        path.write_bytes(whole)
    flow = stage.flow()
    flow.process(table, 1)
    table.unpersist()
    assert Counter(stage.results[1]) == expected(range(10, 14))
    assert flow.metrics["kept_total"] == 7


def test_states_of_the_first_layout_are_read(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path)
    flow = stage.flow()
    flow.process(spark.createDataFrame(pa.concat_tables([rows(0, 3, now()), rows(5, 2, 0)])), 0)
    state = ShedState.from_bytes(flow._state.to_bytes())
    writer = Writer()
    writer.numbers("qdd", state.batch, state.startup, state.stretch)
    text = json.dumps([asdict(report) for report in state.reports]).encode()
    for part in (state.shedder.to_bytes(), state.operator.to_bytes(), state.record.to_bytes(), text):
        writer.numbers("Q", len(part))
        writer.raw(part)
    first = writer.getvalue()
    first += crc32c(np.frombuffer(first, dtype=np.uint8)).to_bytes(4, "little")
    assert state.dropped == 2
    assert ShedState.from_bytes(first).to_bytes() == state.to_bytes()
    for bytes_ in hurt(first):
        with pytest.raises(BytesError):
            ShedState.from_bytes(bytes_)


def test_the_document_s_sinks_hold_a_batch_that_runs_again_once(spark: Any, tmp_path: Path) -> None:
    document = Path(__file__).parents[2] / "docs" / "balance-shedding.md"
    (example,) = (
        found
        for found in re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)
        if "catchment.spark" in found
    )
    (tmp_path / "in").mkdir()
    stale, fresh = now() - 3600 * SECOND, now() + 600 * SECOND
    for number in range(2):
        ids = list(range(10 * number, 10 * number + 10))
        times = pa.array([stale if n % 2 else fresh for n in ids], pa.timestamp("us", tz="UTC"))
        table = pa.table({"id": ids, "kind": ["k"] * 10, "text": ["a" * n for n in ids], "timestamp": times})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    schema = "id bigint, kind string, text string, timestamp timestamp"
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

    def held(name: str) -> list[int]:
        return sorted(row.id for row in spark.read.parquet(str(tmp_path / name)).select("id").collect())

    for _ in range(2):
        given: dict[str, Any] = {"events": read.parquet(str(tmp_path / "in")), "place": str(tmp_path)}
        exec(compile(example, str(document), "exec"), given)
        try:
            given["query"].processAllAvailable()
        finally:
            given["query"].stop()
        # Nothing is known of costs in the first batch, and nothing of it is dropped.
        assert held("scores") == [*range(10), 10, 12, 14, 16, 18]
        assert held("dropped") == [11, 13, 15, 17, 19]
        assert given["flow"].metrics["dropped_total"] == 5
        (tmp_path / "checkpoint" / "commits" / "1").unlink()  # as if the driver had failed after the sinks had returned
        (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)


@pytest.mark.long("crashes")
def test_an_operator_gets_over_a_burst_with_shedding_and_not_without(spark: Any) -> None:
    # No target can be below what a micro-batch takes, which is longer on a machine that is busy with other things.
    # Where that changes in the middle of a run, another is made.
    for _ in range(3):
        target = max(1.5, 3 * through_a_burst(spark, 0.3, sheds=False).shortest_batch)
        shedding, keeping = (
            through_a_burst(spark, target, sheds=sheds, until=(0.5, 2.0, 4.0)) for sheds in (True, False)
        )
        if shedding.recovered <= 1.1 and keeping.recovered >= 2:
            break
    assert shedding.dropped > 0.2 * shedding.rows
    assert shedding.recovered <= 1.1, shedding.report
    assert keeping.dropped == 0
    assert keeping.recovered >= 2, keeping.report
