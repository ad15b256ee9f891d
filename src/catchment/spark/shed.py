"""Load shedding on Spark: an expensive operator, row by row, that keeps up with its stream by dropping rows.

    flow = shed(
        events, enrich, "kind", schema="id bigint, score double", arrival="at", target="2 seconds",
        into=lambda rows, batch: rows.write.mode("overwrite").parquet(f"{out}/batch={batch}"), checkpoint=place,
    )
    query = flow.start()
    print(flow.report())

**Queueing time in micro-batches.** A row waits from its arrival (a column that the source fills: Kafka's `timestamp`,
the collector's clock) to the moment when the operator is called for it: until the batch before is through, until its
own has started, and for the rows ahead of it. At the start of a batch the first two are known, and since nothing from
earlier batches is left, the estimated backlog of LAS begins there anew: what remains to be estimated is the cost of
the rows ahead. A row that would start later than the target allows is shed before the operator sees it.

**What comes back.** Each call of the operator is measured in its task; costs and starts come back as columns of the
result, so only those of successful attempts count. From them the driver learns the cost by key (`CostLearner`), how
long a batch takes to start, and how much longer a lane takes than the sum of its costs.

**Exactly once.** What was learnt is in files beside the checkpoint, one for each batch, and so is each decision
(`shed_state`): after a crash the batch is shed as it was, and counted once. Rows are known by what is in them
(`row_identity`), so that neither their order nor their partitions need to be the same again. Sinks see each batch's
number, as in any `foreachBatch`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from catchment.balance.cost_learner import CostLearner
from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shed_record import ShedRecord
from catchment.balance.shedder import ABSOLUTE, LoadShedder
from catchment.errors import ParameterError, WeightError
from catchment.kernel.shedding import deal
from catchment.sketch.checks import check_whole
from catchment.sketch.keys import KeyBatch
from catchment.spark.row_identity import RowPlaces, content_hash
from catchment.spark.shed_state import MOST_LANES, ShedDecision, ShedReport, ShedState, StateFolder
from catchment.spark.shed_tasks import LANE, MADE, METER, ORDER, ROW, Mark, Meter, Operator
from catchment.window.durations import microseconds

__all__ = ["ShedStream", "shed"]

I64 = NDArray[np.int64]
Write = Callable[[DataFrame, int], None]

_KEY, _ARRIVAL, _PARTITION = "_shed_key", "_shed_arrival", "_shed_partition"
_RECORD = ("_shed_record", "_shed_record_key", "_shed_record_weight")
_OWN = (ROW, LANE, ORDER, MADE, *METER, _KEY, _ARRIVAL, _PARTITION, *_RECORD)
_UNFINISHED = -2
_NO_TARGET = 2**50  # microseconds, 35 years
_NEWEST_SHARE = 0.5  # how much the newest batch counts in what is known of all: batches are few and change quickly


def shed(
    df: DataFrame,
    function: Operator,
    cost_key: str,
    *,
    schema: str | StructType,
    arrival: str,
    target: str | None,
    into: Write,
    checkpoint: str | Path,
    dropped: Write | None = None,
    folder: str | Path | None = None,
    tasks: int | None = None,
    constraint: str = ABSOLUTE,
    memory: int | None = 1000,
    expected_cost: str | None = None,
    on_report: Callable[[ShedReport], None] | None = None,
    record_key: str | None = None,
    record_weight: str | None = None,
    tick: str = "1 second",
    window: int = 1024,
    epsilon: float = 0.05,
    delta: float = 0.1,
    seed: int = 0,
) -> ShedStream:
    """An expensive operator over a stream, kept within a queueing time by shedding rows; `start` starts it.

    Parameters
    ----------
    df
        The events: a streaming DataFrame.
    function
        The operator: a row as a dict in, a dict with the columns of `schema` out, or a list of them, or None. It runs
        in Python workers, and may block.
    cost_key
        The column that drives the cost: strings, binary or integers. Rows without one are a kind of their own.
    schema
        The columns of the result.
    arrival
        The column with the time at which a row came: a timestamp, on a clock that the cluster shares. A row without
        one counts as just come.
    target
        The queueing time that is allowed, "2 seconds". It cannot be below what a micro-batch takes to start. None sheds
        nothing, and measures everything.
    into
        Called with the results of each batch and its number; again with the same ones if the batch is run again, so
        that it must replace, or skip, what it has of that number.
    checkpoint
        Of the query.
    dropped
        Called with the rows that were shed, as they came, and the batch's number: a side output.
    folder
        Where to keep what is learnt, on any file system that Spark can reach; `shedding` in the checkpoint, if it is
        not given.
    tasks
        How many rows are worked on at once, by default as many as the cluster runs tasks. Rows are dealt to them by
        estimated cost.
    constraint, memory
        "absolute": each row. "average": the mean over about the last `memory` rows, None for all since the start.
    expected_cost
        What a row is taken to cost until the first batch has been measured. Without it nothing of that batch is shed.
    on_report
        Called with the `ShedReport` of each batch.
    record_key
        The column by which sketches downstream count: strings, binary or integers. `record` then bounds what was
        dropped of each key; without it, any key may have had all that was dropped. As in sketches, a row without a key
        is no event, and is not in the record.
    record_weight
        The column of integers, not below 0, by which they weigh: a row counts as 1 without it. A row without a weight
        is no event.
    tick
        The unit of time of `record`, which knows what was dropped by arrival.
    window, epsilon, delta, seed
        Of the `CostLearner`.

    Raises
    ------
    ParameterError
        for columns that are not there or of another type, and for a DataFrame that is not a stream.
    """
    if not df.isStreaming:
        raise ParameterError("a DataFrame that is not a stream", "give one of spark.readStream: a batch has no queue")
    _check_column(df, "arrival", arrival, (TimestampType, TimestampNTZType))
    _check_column(df, "cost_key", cost_key, None)
    if record_key is not None:
        _check_column(df, "record_key", record_key, None)
    if record_weight is not None:
        _check_column(df, "record_weight", record_weight, (IntegralType,), "integers: scale fractions, or cast")
    taken = sorted(set(df.columns) & set(_OWN))
    if taken:
        raise ParameterError(f"a column named {taken[0]}", "rename it: names that begin with _shed_ are taken")
    if tasks is None:
        tasks = df.sparkSession.sparkContext.defaultParallelism
    files = StateFolder(df.sparkSession, f"{checkpoint}/shedding" if folder is None else folder)
    allowed = None if target is None else microseconds("target", target)
    rules: dict[str, Any] = {"constraint": constraint, "memory": memory, "ask_every": 0}
    shedder = LoadShedder(_NO_TARGET if allowed is None else allowed, epsilon=epsilon, delta=delta, seed=seed, **rules)
    if expected_cost is not None:
        shedder.assume(microseconds("expected_cost", expected_cost))
    learner = CostLearner(window=window, epsilon=epsilon, delta=delta, seed=seed)
    record = ShedRecord(epsilon=None) if record_key is None else ShedRecord()
    state = ShedState(shedder, ShedOperator(learner, memory=memory), record, record_by=(record_key, record_weight))
    output = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(output, StructType):
        raise ParameterError(f"schema={schema!r}", 'give columns, as in "id bigint, score double"')
    _rehearse(ShedState.from_bytes(state.to_bytes()))
    flow = ShedStream(df, function, output, cost_key, arrival, files, state)
    flow._into, flow._dropped, flow._on_report = into, dropped, on_report
    flow._checkpoint, flow._tick = str(checkpoint), microseconds("tick", tick)
    flow._lanes = check_whole("tasks", tasks, 1, MOST_LANES)
    return flow


def _rehearse(state: ShedState) -> None:
    """Decide and learn once: kernels are compiled now, and not while the first rows of the stream wait."""
    keys = KeyBatch.of_hashes(np.arange(2, dtype=np.uint64))
    decision = state.shedder.queued(keys, [0, 0], free=0)
    deal(state.shedder.price(keys), decision.kept, 2, np.empty(2, dtype=np.int32))
    for news in state.operator.executed(keys, [1, 1], waits=[0, 0], finished=[1, 2]):
        state.shedder.hear(news)
    state.record.add(keys, at=[1, 2])
    ShedState.from_bytes(state.to_bytes())


def _check_column(
    df: DataFrame, name: str, column: str, kinds: tuple[type[DataType], ...] | None, wanted: str = "timestamps"
) -> None:
    if column not in df.columns:
        raise ParameterError(f"{name}={column!r}", f"there are {', '.join(df.columns)}")
    kind = df.schema[column].dataType
    if kinds is not None and not isinstance(kind, kinds):
        raise ParameterError(f"{name}={column!r} is of type {kind.simpleString()}", f"give a column of {wanted}")
    if kinds is None and kind.simpleString() not in ("string", "binary", "tinyint", "smallint", "int", "bigint"):
        raise ParameterError(
            f"{name}={column!r} is of type {kind.simpleString()}", "give strings, binary or integers, or cast"
        )


class ShedStream:
    """A stream behind a shedder; made by `shed`."""

    _into: Write
    _dropped: Write | None
    _on_report: Callable[[ShedReport], None] | None
    _checkpoint: str
    _tick: int
    _lanes: int

    def __init__(
        self,
        df: DataFrame,
        function: Operator,
        output: StructType,
        cost_key: str,
        arrival: str,
        files: StateFolder,
        state: ShedState,
    ) -> None:
        self._df, self._function, self._output = df, function, output
        self._cost_key, self._arrival, self._files, self._state = cost_key, arrival, files, state
        self._fresh = state.to_bytes()
        self._first = True

    # -- running ----------------------------------------------------------------------------------------------

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start the query; `trigger` as in Spark: `processingTime="1 second"`, `availableNow=True`."""
        rows = self._df.sparkSession.range(self._lanes).repartition(self._lanes)
        rows.mapInArrow(_ready, "id bigint").count()  # workers import what they need before the first rows wait
        writer = self._df.writeStream.foreachBatch(self.process).option("checkpointLocation", self._checkpoint)
        return (writer.trigger(**trigger) if trigger else writer).start()

    def process(self, batch: DataFrame, number: int) -> None:
        """One micro-batch: what the query calls, for who has a `foreachBatch` of their own."""
        begun = time.perf_counter()
        self._resume(number)
        arrived = sql.coalesce(sql.unix_micros(_named(self._arrival).cast("timestamp")), sql.lit(-1))
        rows = batch.withColumn(ROW, content_hash(batch)).persist()
        try:
            key = sql.xxhash64(_hashed(batch, self._cost_key))
            part = sql.spark_partition_id()
            seen = rows.select(
                part.alias(_PARTITION), ROW, arrived.alias(_ARRIVAL), key.alias(_KEY), *self._recorded(batch)
            )
            table = _Rows(seen.toArrow())
            if table.weights.size and int(table.weights.min()) < 0:
                raise WeightError(
                    f"the weight {table.weights.min()} in {self._state.record_by[1]} is negative",
                    "leave such rows out before they come here: nobody can say what dropping one does to a count",
                )
            if not table.size:
                return
            decided, lanes, waits, price, again = self._decide(table, number)
            overhead = time.perf_counter() - begun
            fields = [*rows.schema.fields, StructField(LANE, IntegerType()), StructField(ORDER, LongType())]
            mark = Mark(table.places, lanes, to_arrow_schema(StructType(fields), timezone="UTC"))
            marked = rows.mapInArrow(mark, StructType(fields))
            kept = marked.where(sql.col(LANE) >= 0).repartitionById(self._lanes, sql.col(LANE))
            meter = StructType(
                [
                    *self._output.fields,
                    StructField(MADE, BooleanType()),
                    *(StructField(name, LongType()) for name in METER),
                ]
            )
            results = (
                kept.sortWithinPartitions(ORDER)
                .mapInArrow(Meter(self._function, to_arrow_schema(meter, timezone="UTC")), meter)
                .persist()
            )
            try:
                measured = results.where(sql.col(METER[0]).isNotNull()).select(*METER).toArrow()
                self._into(results.where(MADE).select(*(_named(field.name) for field in self._output)), number)
                if self._dropped is not None:
                    self._dropped(marked.where(sql.col(LANE) < 0).select(*map(_named, batch.columns)), number)
                learning = time.perf_counter()
                report = self._learn(table, lanes, waits, price, measured, decided, number, again=again)
                ended = time.perf_counter()
                seconds, spent = ended - begun, overhead + ended - learning
                self._state.report(ShedReport(**report, seconds=seconds, overhead=spent))
                self._state.batch = number
                self._files.save(self._state)
                if self._on_report is not None:
                    self._on_report(self._state.reports[-1])
            finally:
                results.unpersist()
        finally:
            rows.unpersist()

    def _recorded(self, batch: DataFrame) -> list[Column]:
        """Whether a row is an event to the sketches that the record is for, and what it is to them."""
        key, weight = self._state.record_by
        there = [_named(name).isNotNull() for name in (key, weight) if name is not None]
        found = [reduce(Column.__and__, there, sql.lit(True)).alias(_RECORD[0])] if there else []
        if key is not None:
            found.append(sql.xxhash64(_hashed(batch, key)).alias(_RECORD[1]))
        if weight is not None:
            found.append(sql.coalesce(_named(weight).cast("bigint"), sql.lit(0).cast("bigint")).alias(_RECORD[2]))
        return found

    def _resume(self, number: int) -> None:
        """Be where batch `number` finds everything that was learnt before it, and no more."""
        if self._state.batch == number - 1 >= 0:
            self._state.batch = _UNFINISHED
            return
        wanted, fresh = self._state.shedder, ShedState.from_bytes(self._fresh)
        self._files.begin(number)
        state = self._files.load(number) or fresh
        # The target may change between runs; what was learnt stays, unless it is to be learnt in another way.
        state.shedder.ask_for(wanted)
        if not state.operator.learns_like(fresh.operator):
            state.operator = fresh.operator
        if state.record_by != fresh.record_by:
            if state.dropped:
                raise ParameterError(
                    f"{_by(fresh)} where {state.dropped} rows that were dropped are on record with {_by(state)}",
                    "go on with these; or give another folder=, and keep this one with its record",
                )
            state.record, state.record_by = fresh.record, fresh.record_by
        state.batch = _UNFINISHED  # until this batch is through: if it fails, files say where to go on
        self._state = state

    # -- deciding ---------------------------------------------------------------------------------------------

    def _decide(self, table: _Rows, number: int) -> tuple[int, NDArray[np.int32], NDArray[np.float64], Any, bool]:
        """When it was decided, the lane of each row or -1, its expected wait, its price; whether it was before."""
        state = self._state
        before = self._files.decided(number, table.fingerprint)
        now = time.time_ns() // 1000 if before is None else before.decided
        arrived = np.minimum(np.where(table.arrived < 0, now, table.arrived), now)
        table.settle(arrived)
        price = state.shedder.price(table.keys)
        free = now + int(state.startup)
        lanes = np.empty(table.size, dtype=np.int32)
        decision = state.shedder.queued(
            table.keys, table.waiting, free=max(free, now), share=state.stretch / self._lanes
        )  # fmt: skip
        # What was let through is let through again; how it is dealt changes nothing but time, and tasks may be fewer.
        deal(price, decision.kept if before is None else before.lanes >= 0, self._lanes, lanes)
        if before is None:
            self._files.decide(number, ShedDecision(table.fingerprint, now, lanes))
        return now, lanes, decision.waits, price, before is not None

    def _learn(
        self,
        table: _Rows,
        lanes: NDArray[np.int32],
        waits: NDArray[np.float64],
        price: NDArray[np.float64],
        measured: pa.Table,
        decided: int,
        number: int,
        *,
        again: bool,
    ) -> dict[str, Any]:
        """Take in what the operator measured; what there is to report. `again`: it was decided in an earlier run."""
        state = self._state
        done, cost, started = (measured.column(name).to_numpy() for name in METER)
        ends = np.argsort(started + cost, kind="stable")
        done, cost, started = done[ends], cost[ends], started[ends]
        lost = lanes < 0
        waited = np.maximum(started - table.waiting[done], 0)
        if not done.size:
            state.startup *= _NEWEST_SHARE  # nothing was measured; a slow start must not shed everything for ever
        elif not self._first and not again:
            # Clocks of executors may be behind the driver's.
            state.startup = max(_smoothed(state.startup, float(started.min() - decided)), 0.0)
            state.stretch = min(max(_smoothed(state.stretch, _stretch(lanes[done], cost, started)), 0.5), 4.0)
        if done.size:
            news = state.operator.executed(
                KeyBatch.of_hashes(table.hashes[done]),
                cost,
                waits=waited,
                # Clocks of executors differ, and may be set back.
                finished=np.maximum(np.maximum.accumulate(started + cost), state.operator.finished),
            )
            for one in news:
                state.shedder.hear(one)
            state.shedder.measured(*state.operator.waits)
            self._first = False  # a first batch waits for workers to start, and tells nothing about others
        state.dropped += int(lost.sum())
        if lost.any():
            # As the rows say, though that be in the future; those that do not say may have been at any time.
            events, timed = lost & table.recorded, table.arrived >= 0
            for some, at in ((events & timed, table.arrived // self._tick), (events & ~timed, None)):
                keys = KeyBatch.of_hashes(table.record_keys[some])
                state.record.add(keys, at=None if at is None else at[some], weights=table.weights[some])
        expected = waits[~lost]
        known = bool(done.size) and not np.isnan(expected).any()
        return {
            "batch": number, "rows": table.size, "kept": int(done.size), "dropped": int(lost.sum()),
            "age": float(decided - table.waiting.max()) / 1000,
            "average_wait": float(waited.mean()) / 1000 if done.size else 0.0,
            "longest_wait": float(waited.max()) / 1000 if done.size else 0.0,
            "expected_wait": float(expected.mean()) / 1000 if known else 0.0,
            "measured_cost": float(cost.mean()) / 1000 if done.size else 0.0,
            "expected_cost": float(price[done].mean()) / 1000 if done.size else 0.0,
        }  # fmt: skip

    # -- what is known ----------------------------------------------------------------------------------------

    @property
    def record(self) -> ShedRecord:
        """What was dropped, by arrival in ticks: ask a sketch of the rows that were kept through it.

        Without `record_key` it counts rows, and serves sketches that count each as one by any column: any key may have
        had all that was dropped. With it, it serves those that count by this column, weighed by `record_weight`, and
        knows of each key how much of it was dropped at most.
        """
        return self._state.record

    @property
    def shedder(self) -> LoadShedder:
        """What decides, with the costs that it goes by."""
        return self._state.shedder

    @property
    def reports(self) -> list[ShedReport]:
        """What became of each of the last hundred batches."""
        return list(self._state.reports)

    @property
    def metrics(self) -> dict[str, float]:
        """The last batch, and the sums of all."""
        last = asdict(self._state.reports[-1]) if self._state.reports else {}
        return {
            **last,
            "dropped_total": self._state.dropped,
            "kept_total": self._state.operator.count,
            "startup_seconds": self._state.startup / 1e6,
            "stretch": self._state.stretch,
        }

    def report(self, last: int = 20) -> str:
        """The last batches as text."""
        state = self._state
        target = "none" if state.shedder.target == _NO_TARGET else f"{state.shedder.target / 1e6:g} s"
        lines = [
            f"shedding: target {target}, {self._lanes} tasks, {state.operator.count:,} rows kept, "
            f"{state.dropped:,} dropped",
            f"a batch takes {state.startup / 1e6:.2f} s to start, a task {state.stretch:.2f} times its costs",
            f"{'batch':>6} {'rows':>8} {'kept':>8} {'dropped':>8} {'age ms':>8} {'wait ms':>9} {'longest':>9} "
            f"{'expected':>9} {'cost ms':>8} {'expected':>9} {'seconds':>8}",
        ]
        lines += [
            f"{one.batch:>6} {one.rows:>8,} {one.kept:>8,} {one.dropped:>8,} {one.age:>8.0f} {one.average_wait:>9.0f} "
            f"{one.longest_wait:>9.0f} {one.expected_wait:>9.0f} {one.measured_cost:>8.2f} "
            f"{one.expected_cost:>9.2f} {one.seconds:>8.2f}"
            for one in state.reports[-last:]
        ]
        return "\n".join(lines)


class _Rows:
    """The rows of a batch as the driver needs them, oldest first, and those of one time by what is in them.

    This order, but for rows that are equal, depends on the rows alone: not on which came first, nor on partitions.
    """

    def __init__(self, table: pa.Table) -> None:
        names = (_PARTITION, ROW, _ARRIVAL, _KEY)
        partitions, rows, arrived, keys = (table.column(name).to_numpy() for name in names)
        order = np.lexsort((partitions, keys, rows, arrived))
        self.rows: I64 = rows[order]
        self.arrived: I64 = arrived[order]
        self.hashes: NDArray[np.uint64] = np.ascontiguousarray(keys[order]).view(np.uint64)
        self.waiting = self.arrived
        there, keys, weights = (
            table.column(name).to_numpy() if name in table.column_names else None for name in _RECORD
        )
        self.recorded: NDArray[np.bool_] = np.ones(rows.size, dtype=np.bool_) if there is None else there[order]
        self.record_keys = self.hashes if keys is None else np.ascontiguousarray(keys[order]).view(np.uint64)
        self.weights: I64 = np.ones(rows.size, dtype=np.int64) if weights is None else weights[order]
        self.places = RowPlaces(partitions[order], self.rows)

    @property
    def size(self) -> int:
        return int(self.rows.size)

    @property
    def keys(self) -> KeyBatch:
        return KeyBatch.of_hashes(self.hashes)

    @property
    def fingerprint(self) -> bytes:
        """Of what is in the rows, in whatever partitions and order they come: a batch that runs again has the same."""
        whole = np.concatenate([self.arrived, self.rows, self.hashes.view(np.int64)])
        return hashlib.sha256(whole.astype("<i8").tobytes()).digest()[:16]

    def settle(self, arrived: I64) -> None:
        """Take these for the arrivals: those that were missing are the time of the decision."""
        self.waiting = arrived


def _by(state: ShedState) -> str:
    return "record_key={!r}, record_weight={!r}".format(*state.record_by)


def _ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _hashed(batch: DataFrame, name: str) -> Column:
    """A key as it is hashed: integers of any width as 64 bits."""
    kind = batch.schema[name].dataType
    column = _named(name)
    return column.cast("bigint") if isinstance(kind, ByteType | ShortType | IntegerType) else column


def _named(column: str) -> Column:
    return sql.col(f"`{column.replace('`', '``')}`")


def _smoothed(before: float, newest: float) -> float:
    return before + _NEWEST_SHARE * (newest - before)


def _stretch(lanes: NDArray[np.int32], cost: I64, started: I64) -> float:
    """How long the lanes took, over the sums of their costs."""
    ratios = []
    for lane in np.unique(lanes):
        mine = lanes == lane
        span = int((started[mine] + cost[mine]).max() - started[mine].min())
        ratios.append(span / max(int(cost[mine].sum()), 1))
    return float(np.median(ratios))
