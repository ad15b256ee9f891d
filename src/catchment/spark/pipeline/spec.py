"""Pipeline: what a pipeline's file says, checked and frozen. `read.py` makes it; `run.py` runs it."""

from __future__ import annotations

from dataclasses import dataclass, field

from catchment.sketch.base import Sketch
from catchment.spark.plan import SketchOf
from catchment.window.settings_lines import Path
from catchment.window.settings_tables import Places

__all__ = [
    "AS_FAST_AS_POSSIBLE",
    "AVAILABLE_NOW",
    "Columns",
    "Output",
    "Pipeline",
    "SketchSpec",
    "Source",
    "SparkSettings",
    "Window",
]

AS_FAST_AS_POSSIBLE = "as fast as possible"
AVAILABLE_NOW = "available now"


@dataclass(frozen=True, slots=True)
class Source:
    """Where events come from; `options` are those of the format."""

    format: str
    path: str | None = None
    schema: str | None = None
    servers: str | None = None
    topic: str | None = None
    jars: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns say when, and by what events are kept apart: the site first."""

    time: str
    by: tuple[str, ...]
    time_format: str | None


@dataclass(frozen=True, slots=True)
class Window:
    """Lengths of time, in microseconds; `tick` and `every` also as written, for what takes them so."""

    length: int
    tick: int
    lateness: int
    ahead: int | None

    @property
    def ticks(self) -> int:
        return self.length // self.tick


@dataclass(frozen=True, slots=True)
class SketchSpec:
    """One sketch of all events, for each site."""

    name: str
    kind: str
    key: str | None
    weights: str | None
    using: Sketch
    path: Path

    def of(self) -> SketchOf:
        return SketchOf(self.using, keys=self.key, weights=self.weights)


@dataclass(frozen=True, slots=True)
class Output:
    """Where snapshots go, and how many batches of them stay; `every` in microseconds."""

    folder: str
    every: int
    mode: str
    keep: int
    dead_letters: bool
    kafka_servers: str | None = None
    kafka_topic: str | None = None
    kafka_jars: str | None = None


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How Spark runs it."""

    master: str
    config: dict[str, str]
    trigger: str
    per_batch: int | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline as its file describes it."""

    name: str
    source: Source
    columns: Columns
    window: Window
    sketches: tuple[SketchSpec, ...]
    output: Output
    checkpoint: str
    spark: SparkSettings
    places: Places = field(compare=False, repr=False)
