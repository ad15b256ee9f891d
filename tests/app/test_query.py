"""Questions to an output folder, without Spark: folders as a pipeline writes them, also while it does."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment import DyadicECM, ECMSketch, Panes, Sketch, SpaceSaving, UltraLogLog, Wave
from catchment.answer import Ranking
from catchment.app.query import PipelineFolder, Question, ask
from catchment.errors import CatchmentError, NameNotFoundError, QueryError
from catchment.spark.pipeline.folder import OutputFolder

WINDOW = 600
KINDS: dict[str, tuple[str, Sketch]] = {
    "hits": ("ecm", ECMSketch(0.05, 0.01, window=WINDOW)),
    "pages": ("top", Panes(SpaceSaving(0.01), WINDOW, panes=10)),
    "visitors": ("distinct", Panes(UltraLogLog(0.02), WINDOW, panes=10)),
    "sizes": ("quantiles", DyadicECM.for_tree(0.05, 0.01, window=WINDOW, height=1, bits=8)),
    "volume": ("count", Wave(0.01, window=WINDOW)),
}
SITES = ("north", "south")


def events(site: str, until: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Keys and times of a site: five a tick, the same for every call."""
    at = np.repeat(np.arange(1, until + 1), 5)
    rng = np.random.default_rng(SITES.index(site))
    return rng.geometric(0.2, size=5 * 10_000)[: at.size].astype(np.int64), at


def sketch_of(name: str, site: str, until: int) -> Sketch:
    sketch = KINDS[name][1].copy()
    keys, at = events(site, until)
    if name == "volume":
        sketch.update(at=at)
    else:
        sketch.update(keys, at=at)
    return sketch


def row(name: str, site: str, at: int) -> dict[str, Any]:
    blob = sketch_of(name, site, at).to_bytes()
    moment = datetime.fromtimestamp(at, UTC)
    return {"site": site, "name": name, "at": moment, "sketch": blob, "events": 5 * at, "late": 0}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(
        rows,
        pa.schema(
            {
                "site": pa.string(),
                "name": pa.string(),
                "at": pa.timestamp("us", "UTC"),
                "sketch": pa.binary(),
                "events": pa.int64(),
                "late": pa.int64(),
            }
        ),
    )


def started(path: Path, keep: int = 20, mode: str = "snapshots") -> OutputFolder:
    folder = OutputFolder(path, keep=keep)
    listed = [{"name": name, "kind": kind, "integers": name != "volume"} for name, (kind, _) in KINDS.items()]
    about = {"version": 1, "name": "t", "tick": 1_000_000, "window": WINDOW, "lateness": 10, "every": 60, "mode": mode}
    folder.begin({**about, "sites": ["site"], "sketches": listed}, path / "checkpoint")
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both sites at 60 and 120, the north alone at 180: the moment of both is 120."""
    path = tmp_path_factory.mktemp("out")
    folder = started(path)
    for batch, (at, sites) in enumerate(((60, SITES), (120, SITES), (180, SITES[:1]))):
        folder.write(batch, table([row(name, site, at) for site in sites for name in KINDS]))
    return path


def one(path: Path, question: str, name: str, *arguments: str, **more: Any) -> Any:
    return ask(PipelineFolder(path), Question(question, name, arguments, **more))[""]


def everywhere(start: int = 0, end: int = 120) -> np.ndarray[Any, Any]:
    parts = []
    for site in SITES:
        keys, at = events(site, end)
        parts.append(keys[at > start])
    return np.concatenate(parts)


def test_answers_over_all_sites_hold_the_truth(path: Path) -> None:
    truth = everywhere()
    keys, counts = np.unique(truth, return_counts=True)
    point = one(path, "point", "hits", "1", "2", "999")
    assert point.holds([counts[0], counts[1], 0]).all()
    assert (point.sites, point.missing, point.window) == (SITES, (), (120 - WINDOW, 120))
    assert truth.size == one(path, "total", "hits").value == one(path, "total", "volume").value
    assert keys.size in one(path, "distinct", "visitors")
    assert int((counts.astype(object) ** 2).sum()) in one(path, "self-join", "hits")
    assert float(np.sort(truth)[truth.size // 2 - 1]) in one(path, "quantile", "sizes", "0.5")
    assert int(((truth >= 2) & (truth <= 4)).sum()) in one(path, "between", "sizes", "2", "4")
    north, south = (np.bincount(events(site, 120)[0], minlength=200) for site in SITES)
    assert int(north @ south) in one(path, "join", "hits", *SITES)
    assert int((counts.astype(object) ** 2).sum()) in one(path, "join", "hits", "hits")


def test_rankings_name_the_sites_and_the_true_leaders(path: Path) -> None:
    keys, counts = np.unique(everywhere(60), return_counts=True)
    order = np.argsort(-counts)
    top = one(path, "top", "pages", k=3, last=60)
    assert isinstance(top, Ranking)
    assert top.keys == tuple(keys[order[:3]])
    assert top.answers.holds(counts[order[:3]]).all()
    assert top.answers.sites == SITES
    heavy = set(keys[counts >= 0.1 * counts.sum()])
    assert heavy <= set(one(path, "heavy", "pages", phi=0.1, last=60).keys)
    assert heavy <= set(one(path, "heavy", "sizes", phi=0.1, last=60).keys)


def test_one_site_each_site_and_an_earlier_moment(path: Path) -> None:
    folder = PipelineFolder(path)
    each = ask(folder, Question("total", "volume", per_site=True))
    assert {site: answer.value for site, answer in each.items()} == {"north": 600, "south": 600}
    assert one(path, "total", "volume", sites=("south",)).sites == ("south",)
    assert one(path, "total", "volume", now=60).value == 600
    assert one(path, "total", "volume", last=30, now=60).window == (30, 60)


def test_a_site_that_is_behind_is_named(path: Path) -> None:
    late = one(path, "total", "volume", now=180)
    assert (late.value, late.sites, late.missing) == (900 + 600, SITES, ("south",))
    (path / "metrics.jsonl").write_text('{"watermark": "1970-01-01T00:05:00.000Z"}\n')
    silent = one(path, "total", "volume", now=180)
    assert silent.missing == (), "the watermark has passed: there were no events to wait for"
    (path / "metrics.jsonl").unlink()


def test_a_site_that_fell_silent_does_not_hold_up_the_others(tmp_path: Path) -> None:
    folder = started(tmp_path)
    folder.write(0, table([row("volume", "south", 60)]))
    folder.write(1, table([row("volume", "north", 600)]))
    answer = one(tmp_path, "total", "volume")
    assert (answer.value, answer.missing, answer.window) == (3300, ("south",), (0, 600))


def test_updates_are_of_the_newest_batch(tmp_path: Path) -> None:
    folder = started(tmp_path, mode="updates")
    folder.write(0, table([row("volume", "south", 58), row("volume", "north", 60)]))
    answer = one(tmp_path, "total", "volume")
    assert (answer.value, answer.missing) == (590, ())


@pytest.mark.parametrize(
    ("question", "kind", "problem"),
    [
        (Question("quantile", "hits", ("0.5",)), QueryError, r"cannot be asked for quantile.*kind quantiles"),
        (Question("tpo", "pages"), QueryError, "did you mean 'top'"),
        (Question("total", "hist"), NameNotFoundError, "did you mean 'hits'"),
        (Question("point", "hits"), QueryError, "0 arguments: how often"),
        (Question("point", "hits", ("x",)), QueryError, "integers, and not 'x'"),
        (Question("quantile", "sizes", ("half",)), QueryError, "'half' is no number"),
        (Question("total", "hits", sites=("west",)), NameNotFoundError, "no site 'west'.*north"),
        (Question("join", "hits", ("volume",)), QueryError, "volume is of kind count"),
        (Question("total", "hits", last=601), QueryError, "1 to 600 ticks"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(path: Path, question: Question, kind: Any, problem: str) -> None:
    with pytest.raises(kind, match=problem):
        ask(PipelineFolder(path), question)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="no output folder"):
        PipelineFolder(tmp_path)
    started(tmp_path)
    with pytest.raises(NameNotFoundError, match="no snapshot of hits"):
        one(tmp_path, "total", "hits")
    about = json.loads((tmp_path / "pipeline.json").read_text())
    (tmp_path / "pipeline.json").write_text(json.dumps(about | {"version": 2}))
    with pytest.raises(CatchmentError, match="version 2"):
        PipelineFolder(tmp_path)


def test_reading_while_batches_come_and_are_folded(tmp_path: Path) -> None:
    """Every answer is of one moment of both sites, and time never goes back."""
    folder = started(tmp_path, keep=2)
    tables = [table([row("volume", site, 60 * batch) for site in SITES]) for batch in range(1, 11)]
    folder.write(0, tables[0])
    over = threading.Event()
    problems: list[BaseException] = []

    def write() -> None:
        try:
            for batch in range(1, 400):
                folder.write(batch, tables[min(batch // 40, 9)])
        except BaseException as problem:
            problems.append(problem)
        finally:
            over.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not over.is_set():
        answer = one(tmp_path, "total", "volume", last=60)
        seen.append((answer.window[1], 600 in answer))
    writer.join()
    assert not problems
    assert len(seen) > 5
    assert all(true for _, true in seen)
    assert [at for at, _ in seen] == sorted(at for at, _ in seen)
