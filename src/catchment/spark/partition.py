"""Balanced partitions of a DataFrame: the load of its keys is learnt in one pass, and rows go where the map says.

    partitioner = learn_partitioner(df, "user", 8)
    print(partitioner.report())
    rows = balanced_repartition(df, "user", 8, partitioner=partitioner)
    rows.mapInArrow(expensive, schema)               # eight tasks that take about as long as each other

The map is an expression on the JVM: a key's hash, two look-ups in an array for the heavy keys, one for the bucket. No
row passes through Python on the way, and `repartitionById` sends it to the very partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, IntegralType, StringType, StructType

from catchment.balance import KeyLearner, Partitioner, PartitionMap
from catchment.errors import ParameterError, QueryError, WeightError
from catchment.spark.tasks import big_batches

__all__ = ["balanced_repartition", "learn_partitioner", "measured_loads", "part_of"]

NULL_KEY = "null"
"""The name under which rows without a key are learnt: they are one group to Spark, and often the heaviest."""

MOST_MEASURED = 256
FIRST, ONE_IN = 100_000, 20

_KEY, _WEIGHT, _EARLY, _PART = "catchment:key", "catchment:weight", "catchment:early", "catchment:part"


def learn_partitioner(
    df: DataFrame,
    key: str | Iterable[str],
    parts: int,
    *,
    weight: str | None = None,
    sample: float | None = None,
    split: float | str | None = None,
    theta: float | None = None,
    mu: int = 64,
    seed: int = 0,
) -> Partitioner:
    """Learn how the load lies on the keys, in one pass over the rows, and draw the map. Runs a job, now.

    Each task learns by itself, and what they learnt is merged: a few kilobytes a task. Only the columns of the key and
    of the weight are read.

    Parameters
    ----------
    df
        The rows, or rows like them: of yesterday, for instance. Not a stream.
    key
        The column or columns by which rows belong together. A null is a key like any other.
    parts
        How many partitions are wanted.
    weight
        A column of integers, what a row costs; every row the same by default. A null weighs nothing.
    sample
        The share of the rows to look at. By default the first 100,000 of each task, and of the rest one in twenty,
        which then stands for twenty: 200,000 rows tell the load of each of eight parts within a percent or two.
    split
        As in `build_map`, for operators whose state merges: 0.5 serves well.
    theta, mu, seed
        As in `KeyLearner.for_parts`.
    """
    if df.isStreaming:
        raise ParameterError("a stream to learn from", "learn from a batch of rows like it, and give partitioner=")
    if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 < sample <= 1):
        raise ParameterError(f"sample={sample!r}", "give the share of the rows to look at, up to 1")
    names = key_names(df, key)
    partitioner = Partitioner(parts, theta=theta, mu=mu, split=split, seed=seed)
    columns = [key_column(df, names).alias(_KEY)]
    if weight is not None:
        if weight not in df.columns or not isinstance(df.schema[weight].dataType, IntegralType):
            raise WeightError(f"weight={weight!r}", "name a column of integers; scale fractions, for instance to µs")
        columns.append(sql.coalesce(quoted(weight).cast("bigint"), sql.lit(0).cast("bigint")).alias(_WEIGHT))
    rows = df.select(*columns)
    rows = _thinned(rows, seed) if sample is None else rows.sample(float(sample), seed) if sample < 1 else rows
    found = rows.mapInArrow(_Learn(partitioner.learner.to_bytes()), "learner binary").toArrow()
    partitioner.absorb(KeyLearner.from_bytes(blob) for blob in found.column(0).to_pylist())
    partitioner.build()
    return partitioner


def _thinned(rows: DataFrame, seed: int) -> DataFrame:
    """The first rows of each task, and of the rest one in so many, with as much weight."""
    number = sql.monotonically_increasing_id().bitwiseAND(sql.lit((1 << 33) - 1))
    numbered = rows.withColumn(_EARLY, number < FIRST)
    early, weight = quoted(_EARLY), quoted(_WEIGHT) if _WEIGHT in rows.columns else sql.lit(1).cast("bigint")
    seen = numbered.where(early | (sql.rand(seed) * ONE_IN < 1))
    return seen.select(quoted(_KEY), sql.when(early, weight).otherwise(weight * ONE_IN).alias(_WEIGHT))


class _Learn:
    """Rows of keys in, one learner out."""

    def __init__(self, blank: bytes) -> None:
        self.blank = blank

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        learner = KeyLearner.from_bytes(self.blank)
        for table in big_batches(batches):
            keys = table.column(_KEY).combine_chunks()
            weights = table.column(_WEIGHT).to_numpy() if _WEIGHT in table.column_names else None
            learn_column(learner, keys, weights)
        yield pa.RecordBatch.from_pydict({"learner": pa.array([learner.to_bytes()], pa.binary())})


def learn_column(learner: KeyLearner, keys: pa.Array, weights: NDArray[Any] | None) -> None:
    """Take in a column of keys, nulls under their own name."""
    if keys.null_count:
        there = keys.is_valid().to_numpy(zero_copy_only=False)
        missing = int(keys.null_count) if weights is None else int(weights[~there].sum())
        learner.update([NULL_KEY], weights=missing)
        keys, weights = keys.drop_null(), None if weights is None else weights[there]
    if len(keys):
        learner.update(keys, weights=1 if weights is None else weights)


def balanced_repartition(
    df: DataFrame,
    key: str | Iterable[str],
    parts: int,
    *,
    partitioner: Partitioner | PartitionMap | None = None,
    spread: str | Iterable[str] = (),
    part: str | None = None,
    metrics: str | Observation | None = None,
    **learning: Any,
) -> DataFrame:
    """The same rows in `parts` partitions of about equal load; all rows of a key in one of them, unless it is split.

    **Guarantee.** A row's partition is a function of its key and the map (and, for a split key, of the row): the same
    in every task, retry and micro-batch. So downstream a key is in one place. The loads are as even as those of the
    rows that were learnt from; a part is no lighter than the heaviest key in it.

    **Streams.** The map is fixed when the query is built, and what it was learnt from is not the stream: give
    `partitioner`. Rows of a micro-batch are sent to their part. This keeps no state; for that see `balanced_state`.

    **Split keys.** With `split`, rows of a heavy key are dealt out over several partitions by a hash of the row. The
    operator then gives one result for each key and partition, and a second, small step merges them by key.

    **Where a simpler one wins.** For sums and counts on the JVM Spark's own `groupBy` adds up before it shuffles, and
    no skew is left: this is for operators that must see the rows.

    Parameters
    ----------
    df, key, parts
        The rows, the column or columns of their key, and how many partitions are wanted.
    partitioner
        What `learn_partitioner` gave, for this key and as many parts, or its map; learnt here and now if left out.
    spread
        The columns that tell the rows of a split key apart: all that are not the key by default, so far as they can be
        hashed; where there are none, the row's number in its task, which is the same in a retry only if the task reads
        its rows in the same order again.
    part
        The name of a column to add with the number of the part.
    metrics
        An `Observation`, or for a stream a name, under which the rows in each part are counted: see `measured_loads`.
    learning
        `weight`, `sample`, `split`, `theta`, `mu` and `seed` of `learn_partitioner`.
    """
    names = key_names(df, key)
    if partitioner is None:
        if df.isStreaming:
            raise ParameterError("a stream without partitioner=", "learn_partitioner from a batch of rows like it")
        partitioner = learn_partitioner(df, names, parts, **learning)
    elif learning:
        raise ParameterError(f"{', '.join(learning)} with a partitioner", "it has learnt: leave them out")
    chart = as_map(partitioner, parts)
    if part is not None and part in df.columns:
        raise ParameterError(f"part={part!r} is a column already", "choose another name")
    placed = df.withColumn(_PART, part_of(df, names, chart, spread=spread))
    if metrics is not None:
        if parts > MOST_MEASURED:
            raise ParameterError(f"metrics for {parts} parts", f"at most {MOST_MEASURED} can be counted in passing")
        counts = [
            sql.sum(sql.when(sql.col(f"`{_PART}`") == number, 1).otherwise(0)).alias(f"part_{number}")
            for number in range(parts)
        ]
        placed = placed.observe(metrics, *counts)
    sent = placed.repartitionById(parts, sql.col(f"`{_PART}`"))
    return sent.drop(_PART) if part is None else sent.withColumnRenamed(_PART, part)


def measured_loads(observed: Observation | Mapping[str, Any] | Any) -> NDArray[np.int64]:
    """The rows in each part, from what `metrics` observed: an `Observation` after an action, or a stream's progress.

        seen = Observation("parts")
        balanced_repartition(df, "user", 8, metrics=seen).foreachPartition(work)
        imbalance(measured_loads(seen))

    In a stream it is `query.lastProgress.observedMetrics["parts"]`.
    """
    values = observed.get if isinstance(observed, Observation) else observed
    values = values.asDict() if hasattr(values, "asDict") else dict(values)
    count = sum(name.startswith("part_") for name in values)
    if not count:
        raise QueryError(f"no parts among {', '.join(values) or 'nothing'}", "give what metrics= of this observed")
    return np.array([values[f"part_{number}"] or 0 for number in range(count)], dtype=np.int64)


# -- the map on the JVM ---------------------------------------------------------------------------------------


def part_of(
    df: DataFrame, key: str | Iterable[str], chart: PartitionMap, *, spread: str | Iterable[str] = ()
) -> Column:
    """A column with the part of each row: what `chart.place` gives for the row's key."""
    names = key_names(df, key)
    hashed = _hash(df, names)
    spread_ = sql.xxhash64(sql.lit(chart.seed).cast("bigint"), hashed)
    bucket = _scaled(spread_, sql.lit(chart.buckets.size).cast("bigint"))
    slots = chart.slots
    mask = sql.lit(slots.size - 1).cast("bigint")
    table = _array([int(chart.heavy[n].view(np.int64)) if n >= 0 else None for n in slots.tolist()], "bigint")
    first = spread_.bitwiseAND(mask).cast("int")
    second = sql.shiftrightunsigned(spread_, 16).bitwiseAND(mask).cast("int")
    # An empty slot is null, which equals nothing. After the slots come the buckets.
    at = (
        sql.when(sql.get(table, first) == hashed, first)
        .when(sql.get(table, second) == hashed, second)
        .otherwise(bucket + slots.size)
    )
    if not chart.split:
        owners = (
            np.where(slots >= 0, chart.choices[chart.starts[np.maximum(slots, 0)]], 0)
            if chart.heavy.size
            else slots * 0
        )
        return sql.get(_array([*owners.tolist(), *chart.buckets.tolist()], "int"), at)
    begins = np.where(slots >= 0, chart.starts[np.maximum(slots, 0)], 0)
    pieces = np.where(slots >= 0, np.diff(chart.starts)[np.maximum(slots, 0)], 1)
    count = chart.choices.size
    starts = _array([*begins.tolist(), *range(count, count + chart.buckets.size)], "int")
    many = _array([*pieces.tolist(), *[1] * chart.buckets.size], "bigint")
    choices = _array([*chart.choices.tolist(), *chart.buckets.tolist()], "int")
    return sql.get(choices, sql.get(starts, at) + _scaled(_salt(df, names, spread), sql.get(many, at)))


def as_map(partitioner: Partitioner | PartitionMap, parts: int) -> PartitionMap:
    chart = partitioner.map if isinstance(partitioner, Partitioner) else partitioner
    if not isinstance(chart, PartitionMap):
        raise ParameterError(f"partitioner={chart!r}", "give what learn_partitioner made")
    if chart.parts != parts:
        raise ParameterError(f"a partitioner of {chart.parts} parts for parts={parts!r}", "learn for as many parts")
    return chart


def _scaled(x: Column, count: Column) -> Column:
    """As in kernel/partition.py: the product of two numbers below 2^32 and 2^31 is below 2^63."""
    return sql.shiftright(sql.shiftrightunsigned(x, 32) * count, 32).cast("int")


def _array(values: list[Any], kind: str) -> Column:
    """A constant: read once, when the query is planned. `lit` of a list would cost a call to the JVM for each value."""
    text = "[" + ",".join("null" if value is None else str(value) for value in values) + "]"
    return sql.from_json(sql.lit(text), f"array<{kind}>")


def key_names(df: DataFrame, key: str | Iterable[str]) -> list[str]:
    names = [key] if isinstance(key, str) else list(key)
    unknown = [name for name in names if name not in df.columns]
    if not names or unknown:
        raise ParameterError(f"key={key!r}", f"name one column or more of {', '.join(df.columns)}")
    return names


def quoted(name: str) -> Column:
    return sql.col("`" + name.replace("`", "``") + "`")


def key_column(df: DataFrame, names: list[str]) -> Column:
    """The key as one column of integers, text or binary: what other columns are, and several, by their hash."""
    kind = df.schema[names[0]].dataType
    if len(names) == 1 and isinstance(kind, IntegralType):
        return quoted(names[0]).cast("bigint")
    if len(names) == 1 and isinstance(kind, StringType | BinaryType):
        return quoted(names[0])
    return sql.xxhash64(*map(quoted, names))


def _hash(df: DataFrame, names: list[str]) -> Column:
    value = key_column(df, names)
    return sql.coalesce(sql.when(value.isNotNull(), sql.xxhash64(value)), sql.xxhash64(sql.lit(NULL_KEY)))


def _salt(df: DataFrame, names: list[str], spread: str | Iterable[str]) -> Column:
    """A hash of the row, without its key."""
    given = [spread] if isinstance(spread, str) else list(spread)
    unknown = [name for name in given if name not in df.columns]
    if unknown:
        raise ParameterError(f"spread={unknown[0]!r} is no column", f"there are {', '.join(df.columns)}")
    found = given or [field.name for field in df.schema if field.name not in names and _is_hashable(field.dataType)]
    return sql.xxhash64(*map(quoted, found)) if found else sql.xxhash64(sql.monotonically_increasing_id())


def _is_hashable(kind: Any) -> bool:
    """Whether Spark hashes values of this type: all but maps and variants, wherever they are inside."""
    text = (
        kind.simpleString() if not isinstance(kind, StructType) else " ".join(f.dataType.simpleString() for f in kind)
    )
    return "map<" not in text and "variant" not in text
