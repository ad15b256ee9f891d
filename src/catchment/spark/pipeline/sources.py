"""A pipeline's source as two streams: the events that can be used, and the dead letters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from catchment.errors import ParameterError
from catchment.spark.kafka import connector_settings, kafka_events
from catchment.spark.pipeline.spec import Pipeline, Source
from catchment.spark.source.dead_letters import Checks, split_bad
from catchment.spark.source.generator import EventSource
from catchment.spark.source.netflow import read_netflow
from catchment.spark.source.options import Options
from catchment.spark.source.wc98 import WebLogSource
from catchment.window.settings_lines import Path

__all__ = ["needed_settings", "open_source"]

_CORRUPT = "_corrupt_record"
_LIMITS = {"generator": "per_batch", "kafka": "maxOffsetsPerTrigger", "wc98": "max_files", "netflow": "max_files"}


def needed_settings(pipeline: Pipeline) -> dict[str, str]:
    """Spark settings without which the session could not read or write what the pipeline names."""
    if pipeline.source.format != "kafka" and pipeline.output.kafka_servers is None:
        return {}
    jars = pipeline.source.jars or pipeline.output.kafka_jars
    return connector_settings(jars=None if jars is None else FilePath(jars))


def open_source(spark: SparkSession, pipeline: Pipeline) -> tuple[DataFrame, DataFrame]:
    """The stream of events that can be used, and of dead letters (`reason`, `record`, `seen`).

    A row that lacks what any of the sketches needs is a dead letter for all of them, so that all tell of the same
    events.
    """
    places = pipeline.places
    rows = places.checked(("source",), lambda: _opened(spark, pipeline))
    _check_columns(pipeline, rows)
    letters: list[DataFrame] = []
    if pipeline.source.format == "kafka":
        letters.append(
            rows.where("reason IS NOT NULL").select(
                "reason", f.col("raw").cast("string").alias("record"), f.current_timestamp().alias("seen")
            )
        )
        rows = rows.where("reason IS NULL").drop("reason", "raw")
    keys = {each.key for each in pipeline.sketches if each.key is not None}
    weights = sorted({each.weights for each in pipeline.sketches if each.weights is not None})
    window = pipeline.window
    first = Checks(
        key=(*pipeline.columns.by, *sorted(keys)) or None,
        time=pipeline.columns.time,
        weight=weights[0] if weights else None,
        corrupt=_CORRUPT if _CORRUPT in rows.columns else None,
        ahead=None if window.ahead is None else window.ahead / 1_000_000,
        time_format=pipeline.columns.time_format,
    )
    for checks in (first, *(Checks(key=None, time=None, weight=weight) for weight in weights[1:])):
        where: Path = ("window", "ahead") if checks is first and first.ahead is not None else ("columns",)
        rows, bad = places.checked(where, partial(split_bad, rows, checks))
        letters.append(bad)
    dead = letters[0]
    for more in letters[1:]:
        dead = dead.unionByName(more)
    return rows, dead


def _check_columns(pipeline: Pipeline, rows: DataFrame) -> None:
    """Refuse a name that is no column, by the line on which it stands."""
    named: list[tuple[Path, str]] = [(("columns", "time"), pipeline.columns.time)]
    named += [(("columns", "site" if place == 0 else "by"), name) for place, name in enumerate(pipeline.columns.by)]
    for each in pipeline.sketches:
        named += [((*each.path, key), name) for key in ("key", "weights") if (name := getattr(each, key)) is not None]
    for path, name in named:
        if name not in rows.columns:
            there = ", ".join(column for column in rows.columns if column != _CORRUPT)
            raise pipeline.places.error(path, f'{path[-1]} = "{name}" is no column', f"there are {there}")


def _opened(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    source = pipeline.source
    options = dict(source.options)
    if pipeline.spark.per_batch is not None:
        options[_LIMITS.get(source.format, "maxFilesPerTrigger")] = str(pipeline.spark.per_batch)
    try:
        return _OPENERS.get(source.format, _files)(spark, source, options)
    except PySparkException as problem:
        said = str(problem).strip().splitlines()[0]
        raise ParameterError(
            f"Spark cannot read this {source.format} source ({said})", "mend path, schema or options"
        ) from problem


def _generator(spark: SparkSession, _source: Source, options: dict[str, str]) -> DataFrame:
    spark.dataSource.register(EventSource)
    return spark.readStream.format(EventSource.name()).options(**options).load()


def _wc98(spark: SparkSession, source: Source, options: dict[str, str]) -> DataFrame:
    spark.dataSource.register(WebLogSource)
    return spark.readStream.format(WebLogSource.name()).options(**options).load(source.path)


def _netflow(spark: SparkSession, source: Source, options: dict[str, str]) -> DataFrame:
    given = Options(options)
    zone = given.text("time_zone", None) or "UTC"
    most = given.whole("max_files", None, low=1, high=1_000_000)
    given.refuse_others(source.format)
    return read_netflow(spark, source.path or "", stream=True, time_zone=zone, max_files=most)


def _kafka(spark: SparkSession, source: Source, options: dict[str, str]) -> DataFrame:
    given: dict[str, Any] = dict(options)
    return kafka_events(spark, source.servers or "", source.topic or "", source.schema or "", **given)


def _files(spark: SparkSession, source: Source, options: dict[str, str]) -> DataFrame:
    """Files of one of Spark's own formats; those of text also say what they could not parse."""
    if source.schema is None:
        schema: Any = spark.read.format(source.format).options(**options).load(source.path).schema
    else:
        schema = StructType.fromDDL(source.schema)
        if source.format != "parquet" and _CORRUPT not in schema.names:
            schema = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
            options.setdefault("columnNameOfCorruptRecord", _CORRUPT)
    return spark.readStream.format(source.format).schema(schema).options(**options).load(source.path)


_OPENERS: dict[str, Callable[[SparkSession, Source, dict[str, str]], DataFrame]] = {
    "generator": _generator,
    "wc98": _wc98,
    "netflow": _netflow,
    "kafka": _kafka,
}
