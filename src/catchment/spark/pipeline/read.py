"""A pipeline's file, TOML, read and checked: what is wrong is named with its line, before Spark starts."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from catchment.errors import PipelineError
from catchment.spark.pipeline.kinds import KINDS
from catchment.spark.pipeline.spec import (
    AS_FAST_AS_POSSIBLE,
    AVAILABLE_NOW,
    Columns,
    Output,
    Pipeline,
    SketchSpec,
    Source,
    SparkSettings,
    Window,
)
from catchment.spark.source.generator import Plan as GeneratorPlan
from catchment.spark.stream import OUTPUTS
from catchment.window.settings_file import open_settings, parse_settings
from catchment.window.settings_tables import Table

__all__ = ["EXAMPLE", "FORMATS", "parse_pipeline", "read_pipeline"]

FORMATS = ("generator", "parquet", "json", "csv", "netflow", "wc98", "kafka")
"""Where events may come from."""

EXAMPLE = Path(__file__).with_name("example.toml")
"""A pipeline that runs as it is."""

_NEED_SCHEMA = ("json", "csv", "kafka")
_TAKEN = ("name", "at", "sketch", "events", "late", "part", "clock", "reason", "record", "seen")
_JARS = "name the folder of the connector's jars, or leave it out"
_NAME = re.compile(r"[\w.-]+")


def read_pipeline(file: Path) -> Pipeline:
    """The pipeline of a file; folders that it names are relative to the file's own.

    Raises
    ------
    PipelineError
        with the file, the line, the value and the cure.
    NameNotFoundError
        There is no such file.
    """
    cure = f"write one with `catchment pipeline init {file}`"
    return _pipeline(open_settings(file, what="a pipeline", cure=cure, kind=PipelineError), file.parent)


def parse_pipeline(text: str, file: str = "pipeline.toml", folder: Path | None = None) -> Pipeline:
    """The pipeline that a text describes; `folder` is what relative paths in it start from."""
    return _pipeline(parse_settings(text, file, what="a pipeline", kind=PipelineError), folder or Path())


def _pipeline(file: Table, folder: Path) -> Pipeline:
    # First: of a table whose name is misspelt, it is this that should be said, not that the right one is missing.
    file.only("pipeline", "source", "columns", "window", "sketch", "output", "checkpoint", "spark")
    about = file.table("pipeline", needed=True)
    name = about.text("name")
    about.finish()
    source = _source(file.table("source", needed=True), folder)
    spark = _spark(file.table("spark"))
    _fits(file, source, spark)
    window = _window(file.table("window", needed=True))
    columns = _columns(file.table("columns", needed=True))
    sketches = _sketches(file.tables("sketch"), window)
    output = _output(file.table("output", needed=True), folder, window)
    checkpoint = file.table("checkpoint")
    kept = checkpoint.text("folder", None)
    checkpoint.finish()
    where = _below(folder, kept) if kept else f"{output.folder}/checkpoint"
    return Pipeline(name, source, columns, window, sketches, output, where, spark, file.places)


def _source(table: Table, folder: Path) -> Source:
    kind = table.choice("format", FORMATS)
    path = schema = servers = topic = jars = None
    if kind == "kafka":
        servers = table.text("servers", cure='write servers = "host:9092"')
        topic = table.text("topic", cure='write topic = "events"')
        jars = table.text("jars", None, cure=_JARS)
    elif kind != "generator":
        path = _below(folder, table.text("path", cure='write path = "data/", the folder of the files'))
    if kind in (*_NEED_SCHEMA, "parquet"):
        needed = {} if kind in _NEED_SCHEMA else {"default": None}
        schema = table.text("schema", cure='write schema = "site STRING, time TIMESTAMP, key STRING"', **needed)
    options = table.table("options").rest()
    table.finish()
    if kind == "generator":
        table.places.checked((*table.path, "options"), lambda: GeneratorPlan.from_options(options))
    return Source(kind, path, schema, servers, topic, _below(folder, jars) if jars else None, options)


def _fits(file: Table, source: Source, spark: SparkSettings) -> None:
    """What two tables say together must make sense."""
    options = ("source", "options")
    if source.format == "generator" and spark.trigger == AVAILABLE_NOW and "events" not in source.options:
        raise file.places.error(
            ("spark", "trigger"),
            f'trigger = "{AVAILABLE_NOW}" for a generator without end',
            "say how many events there are: events = 1000000 under [source.options]",
        )
    if spark.per_batch is not None and "per_batch" in source.options:
        raise file.places.error(
            (*options, "per_batch"), "per_batch is given here and under [spark]", "keep the one under [spark]"
        )


def _columns(table: Table) -> Columns:
    time = table.text("time", cure='write time = "time", the column of timestamps or of ticks')
    site = table.text("site", None)
    more = table.texts("by", cure='write by = ["region", "tenant"]')
    time_format = table.text("time_format", None)
    table.finish()
    groups = (*((site,) if site else ()), *more)
    for name, key in zip(groups, ("site",) if site else ("by",), strict=False):
        if name in _TAKEN:
            raise table.error(key, f"a column called {name!r}", f"rename it: {', '.join(_TAKEN)} are taken")
    for place, name in enumerate(more):
        if name in _TAKEN or name in groups[: len(groups) - len(more) + place]:
            raise table.error("by", f"the column {name!r}", f"name each column once, and none of {', '.join(_TAKEN)}")
    return Columns(time, groups, time_format)


def _window(table: Table) -> Window:
    tick = table.duration("tick", "1 second", least=1)
    lengths = {
        "length": table.duration("length", "1 hour", least=1),
        "lateness": table.duration("lateness", "10 seconds"),
        "ahead": table.duration("ahead", None),
    }
    table.finish()
    for name in ("length", "lateness"):
        _whole_ticks(table, name, lengths[name], tick)
    if lengths["lateness"] > lengths["length"]:
        raise table.error("lateness", "lateness is longer than the window", "give a shorter lateness")
    return Window(lengths["length"], tick, lengths["lateness"], lengths["ahead"])


def _whole_ticks(table: Table, name: str, length: int, tick: int) -> None:
    if length % tick:
        raise table.error(
            name,
            f"{name} is {length} µs, which is no whole number of ticks of {tick} µs",
            "choose a finer tick under [window], or a multiple of it here",
        )


def _sketches(tables: list[Table], window: Window) -> tuple[SketchSpec, ...]:
    found: dict[str, SketchSpec] = {}
    for table in tables:
        name = table.text("name")
        if not _NAME.fullmatch(name):
            raise table.error("name", f'name = "{name}"', "use letters, digits, dots, - and _")
        if name in found:
            raise table.error("name", f'a second sketch called "{name}"', "give each a name of its own")
        chosen = table.choice("kind", KINDS)
        kind = KINDS[chosen]
        key = table.text("key", cure=f'write key = "…": a {chosen} sketch is of a column') if kind.keyed else None
        weights = table.text("weights", None) if kind.weighed else None
        using = table.places.checked(table.path, partial(kind.build, table, window.ticks))
        table.finish()
        found[name] = SketchSpec(name, chosen, key, weights, using, table.path)
    return tuple(found.values())


def _output(table: Table, folder: Path, window: Window) -> Output:
    where = _below(folder, table.text("folder", cure='write folder = "out", where snapshots go'))
    if "://" in where:
        raise table.error("folder", f'folder = "{where}"', "give a folder that this machine sees as its own")
    every = table.duration("every", "1 minute", least=1)
    _whole_ticks(table, "every", every, window.tick)
    mode = table.choice("mode", OUTPUTS, OUTPUTS[0])
    keep = table.whole("keep", 20, low=2, high=1_000_000)
    dead = table.truth("dead_letters", True)
    kafka = table.table("kafka")
    servers = topic = jars = None
    if table.has("kafka"):
        servers = kafka.text("servers", cure='write servers = "host:9092"')
        topic = kafka.text("topic", cure='write topic = "sketches"')
        jars = kafka.text("jars", None, cure=_JARS)
    kafka.finish()
    table.finish()
    return Output(where, every, mode, keep, dead, servers, topic, _below(folder, jars) if jars else None)


def _spark(table: Table) -> SparkSettings:
    master = table.text("master", "local[2]")
    config = table.table("config").rest()
    trigger = table.text("trigger", AS_FAST_AS_POSSIBLE)
    if trigger not in (AS_FAST_AS_POSSIBLE, AVAILABLE_NOW):
        table.duration("trigger", AS_FAST_AS_POSSIBLE, least=1)
    per_batch = table.whole("per_batch", None, low=1, high=2**52)
    table.finish()
    return SparkSettings(master, config, trigger, per_batch)


def _below(folder: Path, path: str) -> str:
    """A path as the file means it; addresses such as s3a://… stay as they are."""
    return path if "://" in path else str((folder / path).resolve())
