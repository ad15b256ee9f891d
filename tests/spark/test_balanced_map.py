"""balanced_map: the same rows as any map, tasks that end together, what was learnt kept over restarts and crashes."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.balance import peak_over_mean
from catchment.balance.scheduler import CostModel
from catchment.errors import InputError, ParameterError, UnknownFormatError
from catchment.kernel.checksum import crc32c
from catchment.sketch.value_estimator import ValueEstimator
from catchment.spark.balanced_map import BalancedMap, balanced_map
from catchment.spark.balanced_report import BatchReport
from catchment.spark.balanced_tasks import COSTS, COSTS_TYPE, HASH, ROW, TASK, Dealer, Runner
from catchment.spark.learnt_folder import LearntFolder
from catchment.spark.row_identity import RowPlaces, content_hash

pytestmark = pytest.mark.spark

SCHEMA = "id long, kind string, doubled long"
SLEEPS = {"slow": 0.1, "middle": 0.012, "quick": 0.001}


def work(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(SLEEPS[row["kind"]])
    return {"id": row["id"], "kind": row["kind"], "doubled": 2 * row["id"]}


def rows(count: int, *, first: int = 0) -> list[tuple[int, str]]:
    """One slow row in 20, side by side, and a third of the others in the middle."""
    kinds = ["slow"] * (count // 20) + ["middle"] * (count // 4)
    kinds += ["quick"] * (count - len(kinds))
    return [(first + place, kind) for place, kind in enumerate(kinds)]


def expected(given: list[tuple[int, str]]) -> list[tuple[int, str, int]]:
    return [(number, kind, 2 * number) for number, kind in given]


def test_rows_are_the_same_however_they_are_dealt_and_tasks_end_together(spark: Any) -> None:
    given = rows(120)
    df = spark.createDataFrame(given, "id long, kind string").repartition(3)
    operator = BalancedMap(work, "kind", SCHEMA, tasks=2)
    for _ in range(2):
        results = operator.run(df)
        assert sorted(map(tuple, results.collect())) == expected(given)
    first, second = operator.reports
    assert (first.rows, first.estimated, first.error) == (120, (), None)
    assert first.known_rows == 120
    assert second.known_rows == 240
    # The model has seen every kind: tasks are estimated rightly, and dealt evenly.
    assert peak_over_mean(second.estimated) < 1.25
    least = sum(SLEEPS[kind] for _, kind in given)

    def as_estimated() -> bool:
        """Costs are by the clock: on a machine that is busy with other things some batch is, if not the first."""
        last = operator.reports[-1]
        assert last.error is not None
        return last.error < 0.4 and last.imbalance < 1.25 and sum(last.measured) < 1.5 * least

    for _ in range(8):
        if not as_estimated():
            operator.run(df).collect()
    assert as_estimated()
    operator.release()
    assert sum(second.measured) > 0.9 * least
    for kind, seconds in SLEEPS.items():
        assert 0.5 * seconds < operator.model.estimate([kind])[0] / 1e6 < 1.5 * seconds + 0.05
    assert second.metrics()["measured_imbalance"] == second.imbalance
    assert "estimated" in operator.report()
    assert "nothing: rows were dealt in equal counts" in str(first)


def test_each_row_goes_to_the_task_that_it_was_dealt_to(spark: Any) -> None:
    """Tasks are those of the shuffle, none joined or split, also where many rows are in a few partitions."""
    given = [(number, "abcdef"[number % 6]) for number in range(600)]
    costs = {kind: 1000 * 4**place for place, kind in enumerate("abcdef")}

    def where(row: dict[str, Any]) -> dict[str, Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return {"kind": row["kind"], "task": context.partitionId()}

    df = spark.createDataFrame(given, "id long, kind string").repartition(5)
    operator = BalancedMap(where, "kind", "kind string, task int", tasks=4)
    part = operator.model.blank()
    part.update(list(costs), values=list(costs.values()))
    operator.model.learn(part)
    found = [(row["kind"], row["task"]) for row in operator.run(df).collect()]
    operator.release()
    loads = np.zeros(4)
    for kind, task in found:
        loads[task] += costs[kind]
    (report,) = operator.reports
    assert Counter(kind for kind, _ in found) == Counter(kind for _, kind in given)
    assert loads / 1e6 == pytest.approx(report.estimated)
    assert loads.max() / loads.mean() < 1.001


def test_a_row_may_become_none_or_many(spark: Any) -> None:
    def spread(row: dict[str, Any]) -> Any:
        return None if row["id"] % 3 == 0 else [{"id": row["id"]}] * (row["id"] % 3)

    df = spark.range(30)
    results: Any = balanced_map(df, spread, "id", schema="id long", tasks=2)
    assert Counter(row["id"] for row in results.collect()) == {n: n % 3 for n in range(30) if n % 3}
    spark.catalog.clearCache()


def test_keys_of_any_type_and_null_keys_are_keys(spark: Any) -> None:
    df = spark.sql("SELECT id, IF(id % 2 = 0, NULL, id % 5) AS a, current_date() AS b, id / 7 AS c FROM range(40)")
    operator = BalancedMap(lambda row: {"id": row["id"]}, ["a", "b", "c"], "id long", tasks=2)
    for _ in range(2):
        assert sorted(row["id"] for row in operator.run(df).collect()) == list(range(40))
    operator.release()


def test_nothing_in_is_nothing_out(spark: Any) -> None:
    operator = BalancedMap(lambda row: row, "id", "id long", tasks=2)
    assert operator.run(spark.range(0)).collect() == []
    assert operator.reports[0].rows == 0
    assert operator.reports[0].imbalance == 1.0
    operator.run(spark.range(3))
    assert operator.run(spark.range(0)).collect() == []  # also where costs are known, and rows would be dealt by them
    assert operator.reports[2].rows == 0
    operator.release()


# -- streams ------------------------------------------------------------------------------------------------------


def put(folder: Path, number: int, given: list[tuple[int, str]]) -> None:
    lines = "".join(json.dumps({"id": n, "kind": kind}) + "\n" for n, kind in given)
    (folder / f".{number}").write_text(lines)
    os.utime(folder / f".{number}", (1_700_000_000 + number,) * 2)  # Spark takes files in the order of their times
    (folder / f".{number}").rename(folder / f"{number:04}.json")


def stream(spark: Any, source: Path) -> Any:
    return spark.readStream.schema("id long, kind string").option("maxFilesPerTrigger", 1).json(str(source))


def go(spark: Any, source: Path, checkpoint: Path, sink: dict[int, list[Any]], reports: list[BatchReport]) -> None:
    def into(batch: Any, number: int) -> None:
        sink[number] = sorted(map(tuple, batch.collect()))

    writer: Any = balanced_map(
        stream(spark, source), work, "kind", schema=SCHEMA, into=into, checkpoint=checkpoint, tasks=2,
        on_report=reports.append,
    )  # fmt: skip
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def test_a_restart_keeps_what_was_learnt(spark: Any, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    sink: dict[int, list[Any]] = {}
    reports: list[BatchReport] = []
    for number in range(2):
        put(source, number, rows(60, first=100 * number))
    go(spark, source, checkpoint, sink, reports)
    put(source, 2, rows(60, first=200))
    go(spark, source, checkpoint, sink, reports)
    assert sink == {number: expected(rows(60, first=100 * number)) for number in range(3)}
    assert [report.number for report in reports] == [0, 1, 2]
    assert [report.known_rows for report in reports] == [60, 120, 180]
    assert [bool(report.estimated) for report in reports] == [False, True, True]
    # By the clock: on a busy machine some batch is as estimated, if not the first.
    for number in range(3, 10):
        assert reports[-1].error is not None
        if reports[-1].error < 0.4:
            break
        put(source, number, rows(60, first=100 * number))
        go(spark, source, checkpoint, sink, reports)
    assert reports[-1].error is not None
    assert reports[-1].error < 0.4


def test_a_batch_that_runs_again_after_a_crash_counts_once(spark: Any, tmp_path: Path) -> None:
    source, learnt = tmp_path / "in", tmp_path / "learnt"
    source.mkdir()
    for number in range(2):
        put(source, number, rows(40, first=100 * number))
    sink: dict[int, list[Any]] = {}
    tries: Counter[int] = Counter()

    def into(batch: Any, number: int) -> None:
        tries[number] += 1
        found = sorted(map(tuple, batch.collect()))
        if number == 1 and tries[number] == 1:
            raise RuntimeError("the sink is away")
        assert sorted(map(tuple, batch.collect())) == found
        sink[number] = found

    def run() -> BalancedMap:
        operator = BalancedMap(work, "kind", SCHEMA, tasks=2, learnt=learnt)
        query = operator.stream(stream(spark, source), into, checkpoint=tmp_path / "checkpoint")
        running = query.trigger(availableNow=True).start()
        try:
            running.awaitTermination()
        finally:
            running.stop()
        return operator

    with pytest.raises(Exception, match="the sink is away"):
        run()
    folder = LearntFolder(spark, learnt)
    assert folder.numbers() == [0]  # nothing was learnt of a batch that was not written
    operator = run()
    assert tries == {0: 1, 1: 2}
    assert sink == {number: expected(rows(40, first=100 * number)) for number in range(2)}
    assert folder.numbers() == [0, 1]
    assert operator.model.rows == 80
    # Spark may also run a batch again that was written and not yet committed: it starts from what was before it.
    each = operator.into(into)
    batch = spark.createDataFrame(rows(40, first=100), "id long, kind string")
    each(batch, 1)
    assert operator.model.rows == 80
    read, problems = folder.newest(CostModel.from_bytes)
    assert problems == []
    assert read is not None
    assert read.to_bytes() == operator.model.to_bytes()


def counting(results: Any, _number: int) -> None:
    results.count()


def test_a_batch_whose_learning_could_not_be_kept_counts_once_when_it_runs_again(spark: Any, tmp_path: Path) -> None:
    learnt = tmp_path / "learnt"
    operator = BalancedMap(lambda row: {"id": row["id"]}, "id", "id long", tasks=2, learnt=learnt)
    each = operator.into(counting)
    each(spark.range(20), 0)
    learnt.rename(tmp_path / "away")
    learnt.write_text("no folder")  # as a file system that takes no files
    for _ in range(2):
        with pytest.raises(OSError, match="batch-1 could not be written"):
            each(spark.range(20, 50), 1)
        assert operator.model.rows == 20
    learnt.unlink()
    (tmp_path / "away").rename(learnt)
    each(spark.range(20, 50), 1)
    assert operator.model.rows == operator.reports[-1].known_rows == 50
    read, _ = LearntFolder(spark, learnt).newest(CostModel.from_bytes)
    assert read is not None
    assert read.to_bytes() == operator.model.to_bytes()
    assert not list(learnt.glob(".draft*"))


def test_a_batch_that_runs_again_counts_once_also_where_nothing_is_kept(spark: Any) -> None:
    operator = BalancedMap(lambda row: {"id": row["id"]}, "id", "id long", tasks=2)
    each = operator.into(counting)
    for number in (0, 1, 1, 1):
        each(spark.range(10), number)
    assert [report.known_rows for report in operator.reports] == [10, 20, 20, 20]


def test_a_folder_keeps_the_newest_and_skips_what_is_damaged(spark: Any, tmp_path: Path) -> None:
    folder = LearntFolder(spark, tmp_path / "learnt")
    assert folder.newest(CostModel.from_bytes) == (None, [])
    for number in range(13):
        folder.write(number, CostModel(pane=number + 1).to_bytes())
    assert folder.numbers() == list(range(3, 13))
    read, _ = folder.newest(CostModel.from_bytes, before=9)
    assert read is not None
    assert read.pane == 9
    folder.write(12, CostModel().to_bytes()[:-1])
    file = tmp_path / "learnt" / "batch-11"
    file.write_bytes(file.read_bytes()[:-1] + b"?")  # behind Hadoop's back
    read, problems = folder.newest(CostModel.from_bytes)
    assert read is not None
    assert read.pane == 11
    assert len(problems) == 2
    assert "batch-12" in problems[0]
    assert "batch-11" in problems[1]
    assert not list((tmp_path / "learnt").glob(".draft*"))
    # A model of another size is left out, and said so.
    operator = BalancedMap(lambda row: row, "id", "id long", tasks=2, learnt=tmp_path / "learnt", epsilon=0.1)
    operator.run(spark.range(5)).collect()
    operator.release()
    assert any("another epsilon" in note for note in operator.reports[0].notes)
    assert any("batch-12" in note for note in operator.reports[0].notes)
    assert operator.reports[0].number == 13


def test_files_that_are_hurt_are_named_with_a_cure_and_left_where_they_are(spark: Any, tmp_path: Path) -> None:
    folder = LearntFolder(spark, tmp_path)
    for number in range(3):
        folder.write(number, CostModel(pane=number + 1).to_bytes())
    file, sums = tmp_path / "batch-2", tmp_path / ".batch-2.crc"
    whole, checked = file.read_bytes(), sums.read_bytes()

    def look() -> str:
        """What is said of the file; if it is passed over, the one before it is found."""
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        try:
            read, problems = folder.newest(CostModel.from_bytes)
        except UnknownFormatError as problem:
            said = f"{type(problem).__name__}: {problem}"
        else:
            assert read is not None
            assert (read.pane, len(problems)) == (2, 1)
            (said,) = problems
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert str(file) in said
        assert "name another folder, or remove the file" in said
        return said

    flips = sorted({0, 3, 4, 5, 6, 8, 12, len(whole) - 1, *range(20, len(whole), max(len(whole) // 12, 1))})
    for hurt in (
        *(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in flips),
        *(whole[:cut] for cut in (0, 1, 4, 19, len(whole) // 2, len(whole) - 1)),
        whole + b"?",
    ):
        file.write_bytes(hurt)
        sums.write_bytes(checked)
        look()  # Hadoop's sums say it, where there are some
        sums.unlink()
        look()  # and ours do
    later = bytearray(whole[:-4])
    later[4] = 9
    folder.write(2, bytes(later) + crc32c(np.frombuffer(later, dtype=np.uint8)).to_bytes(4, "little"))
    assert look().startswith("UnknownFormatError")
    assert "format version 9: this catchment reads version 1: upgrade it" in look()
    called: list[int] = []
    operator = BalancedMap(lambda row: {"id": row["id"]}, "id", "id long", tasks=2, learnt=tmp_path)
    with pytest.raises(UnknownFormatError, match="batch-2: format version 9"):
        operator.into(lambda _, number: called.append(number))(spark.range(5), 3)
    assert called == []
    folder.write(2, whole)
    operator.into(lambda _, number: called.append(number))(spark.range(5), 3)
    assert called == [3]


def test_a_stream_that_begins_anew_starts_from_what_was_learnt_before(spark: Any, tmp_path: Path) -> None:
    folder = LearntFolder(spark, tmp_path)
    for number in range(12):
        folder.write(number, CostModel(pane=number + 1).to_bytes())
    folder.begin_anew(11)  # the same life: batch 11 runs again
    assert folder.numbers() == list(range(2, 12))
    for _ in range(2):  # a new one, whose first batch also runs twice
        folder.begin_anew(0)
        read, problems = folder.newest(CostModel.from_bytes, before=0)
        assert read is not None
        assert (read.pane, problems) == (12, [])
        folder.write(0, CostModel(pane=100).to_bytes())
        assert folder.numbers() == [0]
    read, _ = folder.newest(CostModel.from_bytes, before=1)
    assert read is not None
    assert read.pane == 100


# -- what runs in the workers, without Spark ----------------------------------------------------------------------


def keyed(numbers: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(numbers, pa.int64()),
            HASH: pa.array([10 * (n % 3) for n in numbers], pa.int64()),
            ROW: pa.array(numbers, pa.int64()),
        }
    )


def test_a_partition_that_is_computed_again_in_another_order_is_dealt_as_before() -> None:
    """Rows 1 and 4 have one cost key and are two rows; of 7 there are three, which nobody can tell apart."""
    given, tasks = [0, 1, 2, 4, 7, 7, 7], np.array([3, 2, 1, 0, 5, 6, 6], dtype=np.int32)
    dealer = Dealer(RowPlaces(np.zeros(7), np.array(given)), tasks)

    def dealt(*batches: list[int]) -> Counter[tuple[int, int]]:
        out = list(dealer(iter([keyed(batch) for batch in batches])))
        assert [n for batch in out for n in batch.column("id").to_pylist()] == [n for batch in batches for n in batch]
        return Counter((row["id"], row[TASK]) for batch in out for row in batch.to_pylist())

    expected = Counter(zip(given, tasks.tolist(), strict=True))
    for _ in range(50):
        np.random.default_rng(_).shuffle(given)
        assert dealt(given[:3], [], given[3:]) == dealt(given) == expected
    for wrong, problem in (
        ([0, 1, 2, 4, 7, 7, 7, 7], "1 rows that were not there"),
        ([0, 1, 2, 3, 7, 7, 7], "1 rows that were not there"),
        ([0, 1, 2, 4, 99, 7, 7], "1 rows that were not there"),
        ([0, 1, 2, 7, 7], "2 rows fewer"),
    ):
        with pytest.raises(InputError, match=problem):
            dealt(wrong)
    with pytest.raises(InputError, match="7 rows fewer"):
        dealt()


def test_the_hash_of_a_row_tells_all_rows_apart(spark: Any) -> None:
    """Also where Spark's hash does not: nulls that change places, empty things, texts equal by their collation."""
    one: dict[str, Any] = {"a": 1, "b": None, "c": "a", "d": [1, None], "e.f": {"x": 1}, "g": (1, None)}
    others: list[dict[str, Any]] = [
        {"a": None, "b": 1}, {"c": "A"}, {"c": None}, {"c": ""}, {"d": [None, 1]}, {"d": []}, {"d": None},
        {"e.f": {"x": 2}}, {"g": (None, 1)}, {"g": None},
    ]  # fmt: skip
    schema = "a int, b int, c string, d array<int>, `e.f` map<string, int>, g struct<p: int, q: int>"
    df = spark.createDataFrame([tuple((one | other).values()) for other in ({}, *others)], schema)
    df = df.withColumn("c", df["c"].cast("string collate UTF8_LCASE"))
    twice = df.unionAll(df).repartition(3)
    found = Counter(row[0] for row in twice.select(content_hash(twice)).collect())
    assert list(found.values()) == [2] * 11


def test_a_task_measures_what_its_rows_took() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import LongType, StructField, StructType

    schema = to_arrow_schema(
        StructType([StructField("id", LongType()), StructField(COSTS, COSTS_TYPE)]), timezone="UTC"
    )
    blank = CostModel().blank()

    def sleepy(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02 if row["id"] == 1 else 0)
        return {"id": row["id"]}

    runner = Runner(sleepy, ["id"], schema, blank.to_bytes())
    *results, last = runner(iter([keyed([0, 1]), keyed([2, 1])]))
    assert [row["id"] for batch in results for row in batch.to_pylist()] == [0, 1, 2, 1]
    (measured,) = last.to_pylist()
    costs = measured[COSTS]
    assert (measured["id"], costs["rows"], costs["task"]) == (None, 4, 0)
    assert costs["micros"] >= 40_000
    part = ValueEstimator.from_bytes(costs["part"])
    assert part.total().value == 4
    assert list(runner(iter([]))) == []
    for wrong, problem in ((5, "gave a int"), ([{"id": 1}, "x"], "gave a str"), ({"id": "x"}, "do not fit its schema")):
        with pytest.raises(InputError, match=problem):
            list(Runner(partial(give, wrong), ["id"], schema, blank.to_bytes())(iter([keyed([1])])))


def give(result: Any, _row: dict[str, Any]) -> Any:
    return result


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"cost_key": "kin"}, "cost_key='kin'"),
        ({"cost_key": []}, "no cost_key"),
        ({"tasks": 0}, "tasks=0"),
        ({"deal": "fairly"}, "deal='fairly'"),
        ({"schema": "catchment_costs long"}, "a column catchment_costs"),
        ({"schema": "long"}, "schema='long'"),
        ({"into": print}, "no stream"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(spark: Any, wrong: dict[str, Any], problem: str) -> None:
    df = spark.createDataFrame([(1, "quick")], "id long, kind string")
    given = {"cost_key": "kind", "schema": SCHEMA, **wrong}
    with pytest.raises(ParameterError, match=problem):
        balanced_map(df, work, **given)


def test_a_stream_says_where_it_goes_and_from_where(spark: Any, tmp_path: Path) -> None:
    df = stream(spark, tmp_path)
    with pytest.raises(ParameterError, match="without into"):
        balanced_map(df, work, "kind", schema=SCHEMA)
    with pytest.raises(ParameterError, match="a stream"):
        BalancedMap(work, "kind", SCHEMA).run(df)
    with pytest.raises(ParameterError, match="not a stream"):
        BalancedMap(work, "kind", SCHEMA).stream(spark.range(1), lambda *_: None)


DOCUMENT = Path(__file__).parents[2] / "docs" / "balance-scheduling.md"


def examples() -> list[Any]:
    found = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    return [compile(example, str(DOCUMENT), "exec") for example in found if "catchment.spark" in example]


def test_the_document_s_example_runs(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    exec(examples()[0], {"spark": spark})
    assert "batch 0: 2 rows to 2 tasks" in capsys.readouterr().out


def test_the_document_s_sink_holds_a_batch_that_runs_again_once(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        lines = [json.dumps({"id": 10 * number + n, "kind": "k", "text": "a" * n}) for n in range(5)]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
    read = spark.readStream.schema("id long, kind string, text string").option("maxFilesPerTrigger", 1)
    for _ in range(2):
        given: dict[str, Any] = {"stream": read.json(str(tmp_path / "in")), "place": str(tmp_path)}
        exec(examples()[1], given)
        try:
            given["query"].processAllAvailable()
        finally:
            given["query"].stop()
        answers = spark.read.parquet(str(tmp_path / "answers")).select("id", "length").collect()
        assert sorted(map(tuple, answers)) == [(10 * number + n, n) for number in range(2) for n in range(5)]
        (tmp_path / "checkpoint" / "commits" / "1").unlink()  # as if the driver had failed after the sink had returned
        (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)


def test_equal_counts_are_dealt_when_asked_for(spark: Any) -> None:
    operator = BalancedMap(lambda row: {"id": row["id"]}, "id", "id long", tasks=2, deal="counts")
    for _ in range(2):
        assert sorted(row["id"] for row in operator.run(spark.range(50)).collect()) == list(range(50))
    operator.release()
    assert [report.estimated for report in operator.reports] == [(), ()]
    assert operator.model.rows == 100
