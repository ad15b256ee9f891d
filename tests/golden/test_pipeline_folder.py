"""The output of a pipeline and its savepoint are for ever: golden ones are read as they are, without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from catchment.app.query import PipelineFolder, Question, ask
from catchment.spark.pipeline import parse_pipeline
from catchment.spark.savepoint import list_savepoint, savepoint_offsets
from tests.golden.archives import unpack
from tests.golden.pipelines import SAVEPOINT, SITES, TARGET, described, exact, good, happened, in_ticks

WINDOW = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(TARGET, tmp_path_factory.mktemp("pipeline"))


@pytest.fixture
def inside(folder: Path) -> pa.Table:
    """The events that an answer is about: of one window, up to where all sites are."""
    now = PipelineFolder(folder).read("hits").now
    events = good(happened())
    ticks = in_ticks(events)
    return events.filter(pa.array((ticks > now - WINDOW) & (ticks <= now)))


def weighed(events: pa.Table) -> Counter[str]:
    """The sum of the values of each key."""
    sums = events.group_by("key").aggregate([("value", "sum")])
    return Counter(dict(zip(sums["key"].to_pylist(), sums["value_sum"].to_pylist(), strict=True)))


def test_what_a_reader_is_told_of_the_pipeline(folder: Path) -> None:
    there = PipelineFolder(folder)
    assert there.tick == 1_000_000
    assert {name: (about.kind, about.integers) for name, about in there.sketches.items()} == {
        "hits": ("ecm", False),
        "pages": ("top", False),
        "visitors": ("distinct", False),
        "sizes": ("quantiles", True),
        "volume": ("count", False),
    }
    batches = {path.name.partition("=")[0] for path in (folder / "snapshots").iterdir()}
    assert batches == {"batch", "until"}, "old batches were folded"
    for name in there.sketches:
        reading = there.read(name)
        assert (tuple(reading.sketches), reading.behind, reading.late) == (SITES, (), 0)


def test_what_was_folded_is_read(folder: Path) -> None:
    there, pipeline, events = PipelineFolder(folder), parse_pipeline(described()), good(happened())
    (file,) = (folder / "snapshots").glob("until=*/part.parquet")
    rows = [row for row in pq.ParquetFile(file).read().to_pylist() if row["name"] == "hits"]
    assert len(rows) == len(SITES)
    for row in rows:
        site, at = row["site"], int(row["at"].timestamp())
        found = there.read("hits", sites=(site,), now=at)
        assert found.now == at
        assert found.sketches[site] == exact(pipeline, "hits", site, events, until=at)


def test_frequencies_hold(folder: Path, inside: pa.Table) -> None:
    there, truth = PipelineFolder(folder), weighed(inside)
    answer = ask(there, Question("point", "hits", tuple(truth)))[""]
    assert answer.sites == SITES
    assert np.mean(answer.holds(list(truth.values()))) >= 0.9  # delta is 1 in 10 for each
    assert ask(there, Question("total", "hits"))[""].holds(truth.total())
    assert ask(there, Question("self-join", "hits"))[""].holds(sum(count**2 for count in truth.values()))
    one, other = (weighed(inside.filter(pc.equal(inside["site"], site))) for site in SITES)
    assert ask(there, Question("join", "hits", SITES))[""].holds(sum(one[key] * other[key] for key in one))
    for site, total in ask(there, Question("total", "volume", per_site=True)).items():
        assert total.holds(pc.sum(inside.filter(pc.equal(inside["site"], site))["value"]).as_py())


def test_the_most_frequent_keys_and_how_many_there_are_hold(folder: Path, inside: pa.Table) -> None:
    there, truth = PipelineFolder(folder), Counter(inside["key"].to_pylist())
    top = ask(there, Question("top", "pages", k=3))[""]
    assert top.keys[0] == truth.most_common(1)[0][0]
    assert all(answer.holds(truth[key]) for key, answer in top)
    assert ask(there, Question("total", "pages"))[""].holds(inside.num_rows)
    assert ask(there, Question("distinct", "visitors"))[""].holds(len(truth))


def test_quantiles_and_ranges_hold(folder: Path, inside: pa.Table) -> None:
    there, values = PipelineFolder(folder), np.sort(inside["value"].to_numpy())
    median = ask(there, Question("quantile", "sizes", ("0.5",)))[""]
    assert median.low <= values[values.size // 2] <= median.high
    assert ask(there, Question("between", "sizes", ("5", "10")))[""].holds(((values >= 5) & (values <= 10)).sum())


def test_the_savepoint_tells_how_far_the_source_was_and_has_exactly_these_events() -> None:
    offset = savepoint_offsets(SAVEPOINT)[0]
    assert list(offset) == ["events"]
    pipeline, events = parse_pipeline(described()), good(happened(0, offset["events"]))
    states = dict(list_savepoint(SAVEPOINT))
    assert set(states) == {f"site={site}, name={each.name}" for site in SITES for each in pipeline.sketches}
    for site in SITES:
        count = pc.sum(pc.equal(events["site"], site)).as_py()
        for each in pipeline.sketches:
            state = states[f"site={site}, name={each.name}"]
            assert state.current() == exact(pipeline, each.name, site, events)
            assert (state.late, state.lateness, state.every) == (0, 5, 20)
            assert state.events == (count if each.weights is None else state.events)
