"""Kafka through Spark's own connector: events in as JSON with a reason for each bad one, sketches in and out as bytes.

    spark = session(config=connector_settings())
    events = kafka_events(spark, "broker:9092", "views", "site STRING, at TIMESTAMP, key STRING")
    good, bad = events.where("reason IS NULL"), events.where("reason IS NOT NULL")

    to_kafka_sketches(sketches, key="site").write.format("kafka").option(…).save()
    read_kafka_sketches(spark.readStream.format("kafka").option(…).load(), key="site")

A sketch may be larger than the megabyte that Kafka takes by default: raise `kafka.max.request.size` on the writer and
`max.message.bytes` on the topic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from catchment.errors import NameNotFoundError, ParameterError
from catchment.sketch.codec import MAGIC

__all__ = ["connector_settings", "kafka_events", "read_kafka_sketches", "to_kafka_sketches"]

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_CORRUPT = "_corrupt_record"
_ADDED = ("reason", "raw")


def connector_settings(version: str | None = None, *, jars: Path | None = None) -> dict[str, str]:
    """The settings that put the connector on a session's class path; they count only when its JVM starts.

    Parameters
    ----------
    version
        Of the connector; that of the Spark in use by default. Spark fetches it with all that it needs from Maven.
    jars
        A folder with the connector's jars, for machines that reach no repository; nothing is fetched then.
    """
    if jars is None:
        return {"spark.jars.packages": f"{_CONNECTOR}:{version or pyspark.__version__}"}
    found = sorted(jars.glob("*.jar"))
    if not any(jar.name.startswith("spark-sql-kafka") for jar in found):
        raise NameNotFoundError(f"no jar of spark-sql-kafka in {jars}", "copy the connector and its dependencies there")
    return {"spark.jars": ",".join(jar.resolve().as_uri() for jar in found)}


def kafka_events(
    spark: SparkSession,
    servers: str,
    topic: str,
    schema: StructType | str,
    *,
    streaming: bool = True,
    **options: Any,
) -> DataFrame:
    """The events of a topic whose values are JSON objects, a row for each record, and none lost in silence.

    The columns are those of `schema`, then `reason` and `raw`. A record that is as the schema wants has null in both.
    Any other has null in the schema's columns, says in `reason` what is wrong and with which field, and keeps its bytes
    in `raw`. A column that is `NOT NULL` must be there; others may be missing. Fields beyond the schema are ignored.

    Parameters
    ----------
    spark, servers, topic
        A session with `connector_settings()`; `host:port`, several with commas; the topic to subscribe to.
    schema
        A `StructType`, or the columns as SQL writes them: `"site STRING NOT NULL, at TIMESTAMP"`.
    streaming
        Whether to read as a stream or once, up to what is there now.
    options
        Of Spark's connector, such as `startingOffsets` (the earliest by default) or `maxOffsetsPerTrigger`.
    """
    fields = _fields(schema)
    reader: Any = spark.readStream if streaming else spark.read
    for name, value in ({"startingOffsets": "earliest"} | options).items():
        reader = reader.option(name, value)
    records: DataFrame = (
        reader.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
    )
    text = f.col("value").cast("string")
    parsed = f.col("parsed")
    checked = records.select("value", _parse(text, list(fields)).alias("parsed")).select(
        "value", "parsed", _reason(f.col("value"), text, parsed, fields).alias("reason")
    )
    good = f.col("reason").isNull()
    columns = [f.when(good, parsed[field.name]).alias(field.name) for field in fields]
    return checked.select(*columns, "reason", f.when(~good, f.col("value")).alias("raw"))


def to_kafka_sketches(df: DataFrame, key: str = "site", sketch: str = "sketch") -> DataFrame:
    """What Spark's Kafka writer wants, `key` and `value`: the text of the column `key` and the bytes of a sketch.

    Rows without a sketch are left out: a record without a value would delete the key's last sketch from a topic that is
    compacted. Records of one key keep their order, so the last one read is the newest.
    """
    kept = df.where(f.col(sketch).isNotNull())
    return kept.select(f.col(key).cast("string").alias("key"), f.col(sketch).alias("value"))


def read_kafka_sketches(df: DataFrame, key: str = "site", sketch: str = "sketch") -> DataFrame:
    """The sketches in what Spark's Kafka reader gives, batch or stream: `key` (text), `sketch` (bytes), `reason`.

    `reason` is null for what starts as a sketch does; any other value is named there and still in `sketch`, so that a
    dead-letter table can keep it. `Sketch.from_bytes` checks the rest, every byte of it, when it reads.
    """
    value = f.col("value")
    start = f.substring(value, 1, len(MAGIC))
    reason = (
        f.when(value.isNull(), f.lit("the record has no value"))
        .when(start != f.lit(MAGIC), f.concat(f.lit("the bytes start with 0x"), f.hex(start), f.lit(": not a sketch")))
        .cast("string")
    )
    return df.select(f.col("key").cast("string").alias(key), value.alias(sketch), reason.alias("reason"))


def _fields(schema: StructType | str) -> list[StructField]:
    read: Any = schema
    if isinstance(schema, str):
        try:
            read = StructType.fromDDL(schema)
        except ParseException as problem:
            reason = str(problem).strip().splitlines()[0]
            raise ParameterError(
                f"schema={schema!r} ({reason})", "write columns as SQL does: 'site STRING, at TIMESTAMP'"
            ) from problem
    taken = {*_ADDED, _CORRUPT} & {name.lower() for name in read.names}
    if taken or not read.names:
        fault = f"schema has a column {min(taken)!r}" if taken else "schema has no columns"
        raise ParameterError(fault, f"name at least one column, and none of them {', '.join(_ADDED)} or {_CORRUPT}")
    return list(read.fields)


def _parse(text: Column, fields: list[StructField]) -> Column:
    """The fields as a struct; its last one holds the text if anything in it did not fit."""
    nullable = [StructField(field.name, field.dataType) for field in fields]
    return f.from_json(
        text,
        StructType([*nullable, StructField(_CORRUPT, StringType())]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )


def _reason(value: Column, text: Column, parsed: Column, fields: list[StructField]) -> Column:
    """Why a record is bad, or null. Which field it was is looked for only when one was, so good records pay nothing."""
    kind = f.schema_of_variant(f.try_parse_json(text))
    reason = (
        f.when(value.isNull(), f.lit("the record has no value"))
        .when(~f.is_valid_utf8(text), f.lit("the value is not UTF-8 text"))
        .when(parsed.isNotNull() & parsed[_CORRUPT].isNull(), _missing(parsed, fields))
        .when(f.try_parse_json(text).isNull(), f.lit("the value is not JSON"))
        .when(~kind.startswith("OBJECT"), f.concat(f.lit("the value is JSON, but not an object: "), kind))
    )
    for field in fields:
        alone = _parse(text, [field])
        wanted = f"the field {field.name} is not {field.dataType.simpleString()}"
        reason = reason.when(alone[_CORRUPT].isNotNull(), f.lit(wanted))
    return reason.otherwise(f.lit("the fields do not fit the schema"))


def _missing(parsed: Column, fields: list[StructField]) -> Column:
    """The first column that must be there and is not, as a reason; null if there is none."""
    reasons = [
        f.when(parsed[field.name].isNull(), f.lit(f"the field {field.name} is missing or null"))
        for field in fields
        if not field.nullable
    ]
    return f.coalesce(*reasons, f.lit(None).cast("string"))
