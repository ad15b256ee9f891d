"""Streams of balance go on where those of the first version stopped: what they keep is read, and counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from catchment import CountMin
from catchment.balance import Partitioner
from catchment.balance.scheduler import CostModel
from catchment.spark.balanced_report import BatchReport
from catchment.spark.keyed_state import read_keyed_states, read_learnt
from catchment.spark.learnt_folder import LearntFolder
from catchment.spark.shed_state import ShedState, StateFolder
from tests.golden.archives import names_in, unpack
from tests.golden.balances import DEAR, PER_BATCH, TARGET, Row, happened, is_stale, keyed, mapped, shedding
from tests.golden.checkpoint import relocate

pytestmark = pytest.mark.spark

Sink = dict[int, Counter[Any]]


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return unpack(TARGET, tmp_path)


def into(sink: Sink) -> Any:
    """Keeps the rows of each batch."""

    def write(rows: Any, number: int) -> None:
        sink[number] = Counter(map(tuple, rows.collect()))

    return write


def of(rows: list[Row]) -> Counter[Any]:
    return Counter((row["key"], row["value"]) for row in rows)


def kept_and_stale(batch: int) -> tuple[list[Row], list[Row]]:
    rows = happened(batch)
    return [row for row in rows if not is_stale(row)], [row for row in rows if is_stale(row)]


def test_a_shedding_stream_goes_on_as_it_was_decided(spark: Any, golden: Path) -> None:
    folder = golden / "shed" / "checkpoint" / "shedding"
    names = {path.name for path in folder.iterdir() if path.suffix != ".crc"}
    assert names == {"last-life", "state-0", "decision-0", "state-1", "decision-1", "decision-2"}
    results: Sink = {}
    dropped: Sink = {}

    def drop(rows: Any, number: int) -> None:
        into(dropped)(rows.select("key", "value"), number)

    flow = shedding(spark, golden / "shed", 4, into(results), dropped=drop)
    flow.start(availableNow=True).awaitTermination()

    # Batch 2 was decided without a target. Batch 3 has one.
    kept, stale = kept_and_stale(3)
    assert results == {2: of(happened(2)), 3: of(kept)}
    assert dropped == {2: Counter(), 3: of(stale)}
    everything = [kept_and_stale(batch)[1] for batch in (0, 1)] + [stale]
    gone = [row for rows in everything for row in rows]
    assert [one.batch for one in flow.reports] == [0, 1, 2, 3]
    assert flow.metrics["dropped_total"] == len(gone)
    assert flow.metrics["kept_total"] == 4 * PER_BATCH - len(gone)
    by_key: Counter[str | None] = Counter()
    for row in gone:
        by_key[row["key"]] += row["value"] if row["key"] is not None else 0
    assert flow.record.weight == by_key.total() - by_key.pop(None, 0)
    empty = CountMin(0.001, 0.001)
    assert all(flow.record.ask(empty, "estimate", key).high >= weight for key, weight in by_key.items())
    assert {path.name for path in folder.iterdir() if path.suffix != ".crc"} == {
        "last-life", "state-1", "decision-1", "state-2", "decision-2", "state-3", "decision-3",
    }  # fmt: skip


def test_a_life_after_a_golden_one_keeps_its_newest_state(spark: Any, golden: Path) -> None:
    folder = golden / "shed" / "checkpoint" / "shedding"
    assert ShedState.from_bytes((folder / "last-life").read_bytes()).batch == 1
    newest = (folder / "state-1").read_bytes()
    files = StateFolder(spark, folder)
    files.begin(0)
    assert files.load(0) is None
    assert names_in(folder) == {"last-life", "state-N", "decision-N"}
    assert (folder / "last-life").read_bytes() == newest


def test_a_mapped_stream_knows_what_was_learnt(spark: Any, golden: Path) -> None:
    folder = golden / "mapped" / "checkpoint" / "learnt"
    assert {path.name for path in folder.iterdir() if path.suffix != ".crc"} == {"base", "batch-0", "batch-1"}
    before = LearntFolder(spark, folder)
    assert before.newest(CostModel.from_bytes, before=0)[0] == CostModel.from_bytes((folder / "base").read_bytes())
    model, problems = before.newest(CostModel.from_bytes)
    assert model is not None
    assert problems == []
    assert model.rows == 4 * PER_BATCH  # two batches of the life before, and two of this one
    dear, other = model.estimate([DEAR, "key-11"])
    assert dear > 5_000 > other
    results: Sink = {}
    reports: list[BatchReport] = []
    writer = mapped(spark, golden / "mapped", 3, into(results), on_report=reports.append)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert results == {2: Counter((row["key"], 2 * row["value"]) for row in happened(2))}
    (report,) = reports
    assert (report.number, report.notes) == (2, ())
    assert sum(report.estimated) == pytest.approx(sum(model.estimate(keys_of(2))) / 1e6)
    read, _ = before.newest(CostModel.from_bytes)
    assert read is not None
    assert report.known_rows == read.rows == 5 * PER_BATCH


def keys_of(batch: int) -> list[str]:
    return [row["key"] for row in happened(batch)]


def sums(batches: int) -> dict[tuple[str, str | None], int]:
    """Of values by site and key, by adding up."""
    found: Counter[tuple[str, str | None]] = Counter()
    for batch in range(batches):
        for row in happened(batch):
            found[row["site"], row["key"]] += row["value"]
    return dict(found)


def test_states_by_key_go_on_where_they_were(spark: Any, golden: Path) -> None:
    checkpoint = golden / "keyed" / "checkpoint"
    relocate(checkpoint, str(checkpoint))

    def states() -> dict[tuple[str, str | None], int]:
        rows = read_keyed_states(spark, checkpoint).collect()
        assert len(rows) == len({tuple(row)[:2] for row in rows})
        return {(row["site"], row["key"]): int.from_bytes(row["state"], "little") for row in rows}

    assert states() == sums(2)
    partitioner = Partitioner.from_bytes((golden / "keyed" / "partitioner").read_bytes())
    keyed(spark, golden / "keyed", 3, partitioner).trigger(availableNow=True).start().awaitTermination()
    assert states() == sums(3)
    learner = read_learnt(spark, checkpoint)
    assert learner.total == learner.events == 3 * PER_BATCH
