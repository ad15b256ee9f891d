"""Rows that cannot be used are told apart, with the reason, instead of being dropped or failing the query.

    def take(rows, batch_id):
        good, bad = split_bad(rows, Checks(key="key", time="time", weight="value", ahead=300))
        counts = write_dead_letters(bad, "/data/dead_letters", batch_id)
        …

    stream.writeStream.foreachBatch(take).start()

Any DataFrame will do. Parquet has its types, so nulls, negative weights and times ahead are what can be bad. For CSV
and JSON give Spark a schema with a column `_corrupt_record STRING` and the mode PERMISSIVE, its default, and name that
column in `Checks.corrupt`. A Kafka value is parsed with `from_json(value, schema, {"columnNameOfCorruptRecord":
"_corrupt_record"})` in the same way. A time that comes as text is parsed here, so that what does not parse is kept.

Everything is an expression of the JVM: no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, IntegralType, StringType, TimestampNTZType, TimestampType

from catchment.errors import ParameterError

__all__ = [
    "DEAD_LETTERS",
    "REASONS",
    "Checks",
    "count_reasons",
    "read_dead_letters",
    "split_bad",
    "write_dead_letters",
]

CORRUPT_RECORD = "corrupt record"
NULL_KEY = "null key"
NULL_TIME = "null time"
UNPARSEABLE_TIME = "unparseable time"
TIME_IN_THE_FUTURE = "time in the future"
NULL_WEIGHT = "null weight"
NEGATIVE_WEIGHT = "negative weight"

REASONS = (
    CORRUPT_RECORD,
    NULL_KEY,
    NULL_TIME,
    UNPARSEABLE_TIME,
    TIME_IN_THE_FUTURE,
    NULL_WEIGHT,
    NEGATIVE_WEIGHT,
)
"""In the order in which they are looked for: a row gets the first that is true, so counts add up to rows."""

DEAD_LETTERS = "reason STRING, record STRING, seen TIMESTAMP"
"""The columns of dead letters: `record` is the whole row as JSON, nulls included."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Which columns must be usable; a column that is None is not looked at.

    - `key`: must not be null; several columns that make up the key may be given as a tuple.
    - `time`: must not be null. A STRING is parsed with `time_format` (Spark's pattern; ISO 8601 without one), and
      the good rows have it as TIMESTAMP. Integers are ticks already.
    - `ahead`: a time more than so many seconds after the current time is bad; None allows any. The current time is
      taken once when a batch is split, so that a row is in exactly one of the two parts; on a streaming DataFrame it
      is that of each micro-batch.
    - `weight`: must not be null or negative.
    - `corrupt`: the column in which Spark's readers keep what they could not parse; must be null. The good rows do not
      have it.
    """

    key: str | tuple[str, ...] | None = "key"
    time: str | None = "time"
    weight: str | None = None
    corrupt: str | None = None
    ahead: float | None = None
    time_format: str | None = None


def split_bad(df: DataFrame, checks: Checks | None = None) -> tuple[DataFrame, DataFrame]:
    """The rows that can be used, and the others as dead letters (`reason`, `record`, `seen`).

    Every row of `df` is in exactly one of the two, if `df` gives the same rows each time it is read; persist it where
    it does not, or where reading it twice costs more than memory.
    """
    checks = Checks() if checks is None else checks
    _check(df, checks)
    now = f.current_timestamp() if df.isStreaming else f.lit(datetime.now(UTC))
    reason = f.coalesce(*(f.when(bad, f.lit(why)) for why, bad in _tests(df, checks, now)))
    record = f.to_json(f.struct(*(_column(name) for name in df.columns)), {"ignoreNullFields": "false"})
    bad = df.where(reason.isNotNull()).select(
        reason.alias("reason"), record.alias("record"), now.cast("timestamp").alias("seen")
    )
    good = df.where(reason.isNull())
    if checks.time is not None and isinstance(df.schema[checks.time].dataType, StringType):
        good = good.withColumn(checks.time, _moment(df, checks, checks.time))
    return (good if checks.corrupt is None else good.drop(_column(checks.corrupt))), bad


def count_reasons(bad: DataFrame) -> dict[str, int]:
    """How many dead letters there are for each reason, most first."""
    rows = bad.groupBy("reason").count().collect()
    return {row["reason"]: row["count"] for row in sorted(rows, key=lambda row: (-row["count"], row["reason"]))}


def write_dead_letters(bad: DataFrame, path: str, batch_id: int) -> dict[str, int]:
    """Write the dead letters of a micro-batch as Parquet and give back how many there are for each reason.

    For `foreachBatch`. They go to a folder of the micro-batch, which is written anew where it is there already: a
    micro-batch that is repeated after a failure leaves its dead letters once. A micro-batch without any leaves no file.
    """
    if batch_id < 0:
        raise ParameterError(f"batch_id={batch_id}", "give the number that foreachBatch gives, from 0 on")
    folder = f"{path.rstrip('/')}/batch={batch_id}"
    writer = bad.write.mode("overwrite").partitionBy("reason").option("partitionOverwriteMode", "static")
    writer.parquet(folder)
    return count_reasons(bad.sparkSession.read.schema(DEAD_LETTERS).parquet(folder))


def read_dead_letters(spark: SparkSession, path: str) -> DataFrame:
    """All dead letters below a path, with the number of their micro-batch."""
    letters = spark.read.schema(f"batch BIGINT, {DEAD_LETTERS}").parquet(path)
    return letters.select("batch", "reason", "record", "seen")


def _tests(df: DataFrame, checks: Checks, now: Column) -> Iterator[tuple[str, Column]]:
    """Each reason that is looked for, and when a row has it, in the order of REASONS."""
    if checks.corrupt is not None:
        yield CORRUPT_RECORD, _column(checks.corrupt).isNotNull() | (_nulls(df) < 0)
    for key in _keys(checks):
        yield NULL_KEY, _column(key).isNull()
    if checks.time is not None:
        yield NULL_TIME, _column(checks.time).isNull()
        moment = _moment(df, checks, checks.time)
        if isinstance(df.schema[checks.time].dataType, StringType):
            yield UNPARSEABLE_TIME, moment.isNull()
        if checks.ahead is not None:
            allowed = f.timestamp_micros(f.unix_micros(now) + f.lit(int(checks.ahead * 1_000_000)))
            yield TIME_IN_THE_FUTURE, moment > allowed
    if checks.weight is not None:
        yield NULL_WEIGHT, _column(checks.weight).isNull()
        yield NEGATIVE_WEIGHT, _column(checks.weight) < 0


def _nulls(df: DataFrame) -> Column:
    """How many columns of a row are null.

    Never below zero, but Spark does not know that. Its readers parse only the columns that a query uses, and then do
    not see a record that is corrupt in another one: `good.count()` would count it. A test that uses every column
    makes the same records corrupt in every query. It also saves the query that would use the corrupt column alone,
    which Spark refuses.
    """
    return reduce(add, (_column(name).isNull().cast("int") for name in df.columns))


def _moment(df: DataFrame, checks: Checks, time: str) -> Column:
    """The time as a timestamp, null where it does not parse; integers as they are."""
    if not isinstance(df.schema[time].dataType, StringType):
        return _column(time)
    return f.try_to_timestamp(_column(time), None if checks.time_format is None else f.lit(checks.time_format))


def _keys(checks: Checks) -> tuple[str, ...]:
    return checks.key if isinstance(checks.key, tuple) else () if checks.key is None else (checks.key,)


def _column(name: str) -> Column:
    """A column by its exact name, also one with a dot in it."""
    return f.col(f"`{name.replace('`', '``')}`")


def _check(df: DataFrame, checks: Checks) -> None:
    """Refuse checks that this DataFrame cannot be given, by the name of what is wrong."""
    named = {f"key={key!r}": key for key in _keys(checks)}
    named |= {
        f"{name}={column!r}": column
        for name in ("time", "weight", "corrupt")
        if (column := getattr(checks, name)) is not None
    }
    if not named:
        raise ParameterError("nothing to check", "name at least one of key, time, weight and corrupt")
    for what, column in named.items():
        if column not in df.columns:
            raise ParameterError(f"no column for {what}", f"name one of {', '.join(df.columns)}, or None")
    if checks.ahead is None:
        return
    if checks.ahead < 0:
        raise ParameterError(f"ahead={checks.ahead:g}", "give seconds from 0 on, or None to allow any time")
    kind = None if checks.time is None else df.schema[checks.time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType | StringType):
        raise ParameterError(
            f"ahead={checks.ahead:g} with time={checks.time!r}",
            "ticks are not compared with the clock: give a column of timestamps"
            if isinstance(kind, IntegralType)
            else "name a column of timestamps",
        )
