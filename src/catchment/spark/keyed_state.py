"""State by key in a stream, in parts of equal load: each key's state in one place, also when the map changes.

Spark puts the state of a group where its own hash of the grouping column says, and no map can change that. So rows are
grouped by a *slot*, a number that Spark's hash sends to the part that our map chose: one group a part, and in it a map
of states, one entry a key. Where a key's state is depends on the map alone, so a map is for the life of a checkpoint:
the first micro-batch writes its mark into every slot, and a query with another map fails before it touches a state.

Each slot also learns which keys its load comes from, and keeps that with the states. To change the map, stop the query,
ask `reconsider_state` whether it is worth it, and start a new checkpoint with the states of the old one: they are moved
to where the new map wants them. A new checkpoint knows nothing of the source: `savepoint.read_offsets` says how far the
old one had read. Until then a running stream waits with its map.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, IntegralType, StringType, StructField, StructType

from catchment.balance import KeyLearner, Partitioner, PartitionMap, Reconsidered
from catchment.errors import KeyTypeError, MergeError, ParameterError
from catchment.spark.partition import NULL_KEY, as_map, key_column, key_names, part_of, quoted
from catchment.spark.savepoint import committed_batch

__all__ = ["balanced_state", "read_keyed_states", "read_learnt", "reconsider_state"]

Function = Callable[[tuple[Any, ...], pd.DataFrame, bytes | None], tuple[pd.DataFrame | None, bytes | None]]

WINDOW = 1_000_000
"""A slot forgets what it learnt in its events before last of so many."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
_SLOT, _KEY, _VALUE = "catchment_slot", "catchment_key", "catchment_value_"
_MARK, _STATES, _LEARNT = "map", "states", "learnt"


def balanced_state(
    df: DataFrame,
    key: str | Iterable[str],
    function: Function,
    *,
    schema: StructType | str,
    partitioner: Partitioner | PartitionMap,
    initial: DataFrame | None = None,
) -> DataFrame:
    """What a function makes of a stream, key by key, with a state for each key; the keys in parts of equal load.

    In each micro-batch `function(key, rows, state)` is called once for each key that has rows: with the values of the
    key's columns, the rows as a pandas DataFrame, and what it returned as the state last time, or None. It returns rows
    of `schema`, or None, and the new state as bytes, or None for no state.

    **Guarantee.** A key's state is in one place: its part's, by the map. With a replayable source, states are as if
    each row had been taken in once. A query that goes on from a checkpoint with another map is refused by a
    `MergeError`.

    **What it costs.** Three calls to the JVM for each key in a micro-batch, and the rows of a part in memory: made for
    large micro-batches and functions that are worth it.

    Parameters
    ----------
    df
        A stream.
    key
        The column or columns of the key.
    function
        What is called: a key may be a null.
    schema
        The rows that come out.
    partitioner
        What `learn_partitioner` made of rows like these, for as many parts as `spark.sql.shuffle.partitions`; its keys
        not split.
    initial
        What `read_keyed_states` gives: the states to start from in a new checkpoint. `df` must then read on from what
        `savepoint.read_offsets` gives for the old one.

    Examples
    --------
    ::

        def count(key, rows, state):
            total = len(rows) + (int.from_bytes(state, "little") if state else 0)
            return pd.DataFrame({"user": [key[0]], "total": [total]}), total.to_bytes(8, "little")

        balanced_state(clicks, "user", count, schema="user string, total bigint", partitioner=partitioner)
    """
    if not df.isStreaming:
        raise ParameterError("a DataFrame that is not a stream", "give one of spark.readStream")
    spark = df.sparkSession
    names = key_names(df, key)
    parts = int(spark.conf.get(_PARTITIONS) or 0)
    chart = partitioner.map if isinstance(partitioner, Partitioner) else partitioner
    if isinstance(chart, PartitionMap) and chart.parts != parts:
        raise ParameterError(
            f"a partitioner of {chart.parts} parts, and {_PARTITIONS} is {parts}",
            f'spark.conf.set("{_PARTITIONS}", {chart.parts})',
        )
    chart = as_map(partitioner, parts)
    if chart.split:
        raise ParameterError("a partitioner that splits keys", "a state in several places needs one that does not")
    if spark.conf.get(_PROVIDER) != _ROCKSDB:
        raise ParameterError("another state store than RocksDB", f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")')
    taken = {name for name in df.columns if name.startswith("catchment_")}
    if taken:
        raise ParameterError(f"a column called {min(taken)}", "rename it")
    kinds = StructType([StructField(name, df.schema[name].dataType) for name in names])
    odd = [field for field in kinds if not isinstance(field.dataType, IntegralType | StringType | BinaryType)]
    if odd:
        raise KeyTypeError(
            f"the key column {odd[0].name} is of type {odd[0].dataType.simpleString()}",
            "choose columns of integers, strings or binary, or cast it, for instance to string",
        )
    slots = _slots(spark, chart.parts)
    rows = df.withColumns(
        {_SLOT: _slot_of(df, names, chart, slots)}
        | ({_KEY: key_column(df, names)} if len(names) > 1 else {})
        # As text, since pandas turns integers into floats where there is a null among them.
        | {_VALUE + name: _column_of(field).alias(_VALUE + name) for name, field in zip(names, kinds, strict=True)}
    )
    start = _marks(spark, slots, kinds)
    if initial is not None:
        values = [_column_of(field).alias(field.name) for field in kinds]
        states = initial.select(_slot_of(initial, names, chart, slots).alias(_SLOT), *values, "state")
        start = start.unionByName(states)
    learner = KeyLearner(1 / (64 * chart.parts), chart.buckets.size, seed=chart.seed)
    blank = partitioner.learner.empty() if isinstance(partitioner, Partitioner) else learner
    return rows.groupBy(_SLOT).transformWithStateInPandas(
        _Keeper(function, names, kinds, _mark_of(chart), blank.to_bytes()),
        outputStructType=schema,
        outputMode="Append",
        timeMode="None",
        initialState=start.groupBy(_SLOT),
    )


def _column_of(field: StructField) -> Column:
    column = quoted(field.name)
    return column.cast("string") if isinstance(field.dataType, IntegralType) else column


def _mark_of(chart: PartitionMap) -> bytes:
    return hashlib.sha256(chart.to_bytes()).digest()[:16]


def _slots(spark: SparkSession, parts: int) -> list[int]:
    """For each part a number that Spark's hash sends to the partition of that part."""
    found: dict[int, int] = {}
    start, count = 0, 64 * parts
    while len(found) < parts:
        numbers = spark.range(start, start + count, 1, 1).withColumn("slot", sql.col("id").cast("int"))
        for row in numbers.select("slot", sql.pmod(sql.hash("slot"), sql.lit(parts)).alias("part")).toLocalIterator():
            found.setdefault(row["part"], row["slot"])
        start += count
    return [found[part] for part in range(parts)]


def _slot_of(df: DataFrame, names: list[str], chart: PartitionMap, slots: list[int]) -> Column:
    numbers = sql.array(*(sql.lit(slot) for slot in slots))
    return sql.get(numbers, part_of(df, names, chart)).cast("int")


def _marks(spark: SparkSession, slots: list[int], kinds: StructType) -> DataFrame:
    """A row without a state for each slot: so every slot is visited by the first micro-batch, and marked."""
    fields = [StructField(f.name, StringType() if isinstance(f.dataType, IntegralType) else f.dataType) for f in kinds]
    schema = StructType([StructField(_SLOT, IntegerType()), *fields, StructField("state", BinaryType())])
    return spark.createDataFrame([(slot, *[None] * len(kinds), None) for slot in slots], schema)


class _Keeper(StatefulProcessor):
    """Keeps the states of one slot's keys."""

    def __init__(self, function: Function, names: list[str], kinds: StructType, mark: bytes, blank: bytes) -> None:
        self.function, self.names, self.kinds, self.mark, self.blank = function, names, kinds, mark, blank

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._mark = handle.getValueState(_MARK, "mark binary")
        self._states = handle.getMapState(_STATES, self.kinds, "state binary")
        self._learnt = handle.getValueState(_LEARNT, "older binary, newer binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        self._mark.update((self.mark,))
        for row in initialState.itertuples(index=False):
            *values, state = row[-len(self.names) - 1 :]
            if state is not None:
                self._states.updateValue(self._name(values), (bytes(state),))

    def _name(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """A key as Spark's state takes it."""
        return tuple(
            None
            if value is None or value != value
            else int(value)
            if isinstance(field.dataType, IntegralType)
            else value
            for value, field in zip(values, self.kinds, strict=True)
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        mark = self._mark.get() if self._mark.exists() else None
        if mark is None or bytes(mark[0]) != self.mark:
            raise MergeError(
                "the checkpoint keeps its states by another map than this query's",
                "go on with that map, or start a new checkpoint with initial=read_keyed_states(…) of this one",
            )
        frame = pd.concat(list(rows), ignore_index=True)
        columns = [_VALUE + name for name in self.names]
        groups = {
            self._name(values if isinstance(values, tuple) else (values,)): places
            for values, places in frame.groupby(columns, sort=False, dropna=False).indices.items()
        }
        self._learn(frame, groups)
        given = frame.drop(columns=[_SLOT, _KEY, *columns], errors="ignore")
        for name, places in groups.items():
            kept = self._states.getValue(name) if self._states.containsKey(name) else None
            out, state = self.function(name, given.iloc[places], None if kept is None else bytes(kept[0]))
            if state is not None:
                self._states.updateValue(name, (state,))
            elif kept is not None:
                self._states.removeKey(name)
            if out is not None and len(out):
                yield out

    def _learn(self, frame: pd.DataFrame, groups: dict[tuple[Any, ...], NDArray[np.int64]]) -> None:
        older, newer = self._learnt.get() if self._learnt.exists() else (self.blank, self.blank)  # type: ignore[misc]
        learner = KeyLearner.from_bytes(bytes(newer))
        if len(self.names) > 1:
            learner.update(frame[_KEY].to_numpy())
        else:
            learner.update([NULL_KEY] * len(groups.get((None,), ())))
            named = [(name[0], places.size) for name, places in groups.items() if name[0] is not None]
            kind = np.int64 if isinstance(self.kinds[0].dataType, IntegralType) else object
            keys, counts = np.array([key for key, _ in named], dtype=kind), [count for _, count in named]
            learner.update(np.repeat(keys, counts))
        if learner.events >= WINDOW:
            older, learner = learner.to_bytes(), learner.empty()
        self._learnt.update((bytes(older), learner.to_bytes()))

    def close(self) -> None:
        return


def read_keyed_states(spark: SparkSession, checkpoint: str | Path) -> DataFrame:
    """The states in the checkpoint of a `balanced_state` that is not running: the columns of the key, and `state`."""
    rows = _stored(spark, checkpoint, _STATES)
    return rows.select("user_map_key.*", sql.col("user_map_value.state").alias("state"))


def read_learnt(spark: SparkSession, checkpoint: str | Path) -> KeyLearner:
    """What all slots have learnt of late, merged."""
    rows = _stored(spark, checkpoint, _LEARNT).select("value.older", "value.newer").collect()
    return KeyLearner.merge(KeyLearner.from_bytes(bytes(blob)) for row in rows for blob in row)


def _stored(spark: SparkSession, checkpoint: str | Path, variable: str) -> DataFrame:
    committed_batch(spark, checkpoint)
    return spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", variable).load()


def reconsider_state(
    spark: SparkSession,
    checkpoint: str | Path,
    partitioner: Partitioner,
    *,
    horizon: float,
    key_cost: float,
    event_cost: float = 1.0,
) -> Reconsidered:
    """Whether another map is worth moving the states of a stopped query, by what it has learnt; and if so, which.

    The partitioner takes it up. Then start a query with it, a new checkpoint, and `initial=read_keyed_states(…)` of the
    old one; its source must read on from where the old one stopped, which `savepoint.read_offsets` tells.
    `horizon`, `key_cost` and `event_cost` are those of `catchment.balance.reconsider`.
    """
    partitioner.absorb([read_learnt(spark, checkpoint)])
    return partitioner.adapt(horizon=horizon, key_cost=key_cost, event_cost=event_cost)
