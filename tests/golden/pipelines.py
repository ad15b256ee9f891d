"""A pipeline that was stopped half-way, and its savepoint, for every later version to go on with.

`python -m tests.golden.pipelines` made `pipeline-v1.tar.gz`, the output folder with its checkpoint, and
`savepoint-v1.parquet`, the states of that checkpoint. They are never made again. A micro-batch was planned when the
run was told to stop: it is in the checkpoint, and was not committed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catchment.sketch.base import Sketch
from catchment.spark.pipeline import Pipeline, Run, parse_pipeline
from catchment.spark.savepoint import export_savepoint
from catchment.spark.session import session
from catchment.spark.source.options import Options
from catchment.spark.source.recipe import Recipe
from catchment.window.gather import build
from tests.golden.archives import pack, refuse_again
from tests.golden.checkpoint import relocate

__all__ = ["EVENTS", "SAVEPOINT", "SITES", "TARGET", "described", "exact", "good", "happened", "in_ticks"]

TARGET = Path(__file__).with_name("pipeline-v1.tar.gz")
SAVEPOINT = Path(__file__).with_name("savepoint-v1.parquet")

EVENTS = 2_400
"""Of all batches; the golden run has come to about two thirds of them."""
PER_BATCH = 300
SITES = ("site-0", "site-1")
_STOP_AFTER = 4
_RECIPE = {
    "seed": 9, "sites": len(SITES), "keys": 40, "key_type": "text", "values": 20, "density": 15, "late": 0.1,
    "late_by": 4, "nulls": 0.02, "start": '"2026-01-01T00:00:00Z"',
}  # fmt: skip


def described(folder: str = "out", *, dead_letters: bool = True) -> str:
    """The file of the pipeline, with a sketch of each kind."""
    options = "\n".join(f"{name} = {_quoted(value)}" for name, value in _RECIPE.items())
    return f"""
[pipeline]
name = "golden"

[source]
format = "generator"
[source.options]
events = {EVENTS}
{options}

[columns]
time = "time"
site = "site"

[window]
length = "1 minute"
lateness = "5 seconds"

[[sketch]]
name = "hits"
kind = "ecm"
key = "key"
weights = "value"
epsilon = 0.2
delta = 0.1

[[sketch]]
name = "pages"
kind = "top"
key = "key"
epsilon = 0.05
panes = 6

[[sketch]]
name = "visitors"
kind = "distinct"
key = "key"
epsilon = 0.1
panes = 6

[[sketch]]
name = "sizes"
kind = "quantiles"
key = "value"
bits = 6
epsilon = 0.2
delta = 0.1

[[sketch]]
name = "volume"
kind = "count"
weights = "value"
epsilon = 0.1

[output]
folder = "{folder}"
every = "20 seconds"
keep = 2
dead_letters = {str(dead_letters).lower()}

[spark]
per_batch = {PER_BATCH}
"""


def _quoted(value: Any) -> str:
    return str(value) if not isinstance(value, str) or value.startswith('"') else f'"{value}"'


def happened(first: int = 0, stop: int = EVENTS) -> pa.Table:
    """The events of the source, by the recipe itself."""
    options = {name: str(value).strip('"') for name, value in _RECIPE.items()}
    return pa.Table.from_batches([Recipe.from_options(Options(options)).batch(first, stop - first)])


def good(events: pa.Table) -> pa.Table:
    """Those that can be used: with a key and a time."""
    return events.filter(pc.and_(pc.is_valid(events["key"]), pc.is_valid(events["time"])))


def in_ticks(events: pa.Table) -> np.ndarray[Any, Any]:
    """Their times, in the seconds of the pipeline."""
    return np.asarray(events["time"].cast("int64").to_numpy() // 1_000_000)


def exact(pipeline: Pipeline, name: str, site: str, events: pa.Table, *, until: int = 2**40) -> Sketch:
    """The sketch of that name that has seen these events of a site, up to a tick, in one go."""
    (about,) = (each for each in pipeline.sketches if each.name == name)
    events = events.filter(pc.equal(events["site"], site))
    events = events.filter(pa.array(in_ticks(events) <= until))
    columns = {role: events[column] for role, column in (("keys", about.key), ("weights", about.weights)) if column}
    given = {role: column.to_pylist() if role == "keys" else column.to_numpy() for role, column in columns.items()}
    return build(about.using, given.pop("keys", None), in_ticks(events), **given)


def main() -> None:
    refuse_again(TARGET, SAVEPOINT)
    spark = session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Run(
            parse_pipeline(described(), folder=folder), spark, once=True,
            tell=lambda metrics: run.stop() if metrics.batch == _STOP_AFTER else None,
        )  # fmt: skip
        run.start()
        export_savepoint(spark, folder / "out" / "checkpoint", SAVEPOINT)
        relocate(folder / "out" / "checkpoint", "/golden/checkpoint")
        pack(folder / "out", TARGET)
    spark.stop()


if __name__ == "__main__":
    main()
