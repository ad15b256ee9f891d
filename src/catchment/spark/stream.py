"""Sketches of a stream: one state for each group, exactly once, the same however Spark cuts the stream into batches.

Rows become exact events where they are read, in Arrow batches, so that only kilobytes are shuffled; then
`transformWithState` puts them into the state of their group. The state is one BINARY, the bytes of a `StreamState`:
Spark stores and restores it, and never looks inside, so it survives upgrades of both.

Spark's watermark serves only to end the silence of a group: its last snapshot is given when the watermark passes it.
What is late is decided by each group's own newest event, and is not dropped. Since Spark drops rows behind the
watermark from stateful operators, rows that carry events have no event time, and others, without events, carry it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from catchment.errors import MergeError, ParameterError, TimeError
from catchment.sketch.base import Sketch
from catchment.spark.plan import Plan, SketchOf, plain
from catchment.spark.tasks import Gathering, big_batches
from catchment.window.durations import as_ticks, microseconds
from catchment.window.gather import kind_of
from catchment.window.stream_state import Snapshot, StreamState

__all__ = ["OUTPUTS", "STATE", "sketch_stream"]

OUTPUTS = ("snapshots", "updates")

STATE = "state"
"""The name of the state variable, and of the one column in it."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_EPOCH = datetime(1970, 1, 1)
_TAKEN = ("at", "clock", "events", "late", "part", "sketch", STATE)
"""Names in the result, in what tasks send, and in savepoints."""


def sketch_stream(
    df: DataFrame,
    *,
    using: Sketch | Mapping[str, Sketch | SketchOf],
    time: str,
    keys: str | None = None,
    by: str | Iterable[str] = (),
    weights: str | None = None,
    values: str | None = None,
    attributes: str | None = None,
    tick: str = "1 second",
    lateness: str | int = "10 seconds",
    every: str | int = "1 minute",
    output: str = "snapshots",
    initial: DataFrame | None = None,
) -> DataFrame:
    """A streaming DataFrame of sketches, from a streaming DataFrame of events.

    The result has the columns of `by`, `name` where several sketches are made, `at`, the tick up to which the sketch
    knows the stream, as a timestamp, `sketch`, and `events` and `late`, how many came and how many of these late.

    - `output="snapshots"`: a row for each group and stretch of `every` in which it had events, once the stretch is over
      in that group, or the watermark has passed it. Its sketch has the events up to `at` and no others.
    - `output="updates"`: after each micro-batch, a row for each group that it touched, with all events so far.

    **Guarantee.** State, updates and snapshots are those of the same events in one go, byte for byte, whatever the
    micro-batches, for events that are at most `lateness` behind the newest of their group. Later ones are counted in
    `late` and are in the sketch, whose bounds widen where its class says so. With a replayable source each event is
    counted once, also after a crash.

    Parameters are those of `sketch`, and:

    Parameters
    ----------
    df
        The events: a streaming DataFrame.
    using, keys, time, by, weights, values, attributes, tick
        As in `sketch`. Times are required.
    lateness
        How far behind an event may be and still be put in order: a duration, or a number of ticks. What may still be
        put in order waits, exactly: for an ECM-sketch at most its cells for each tick; for sketches that name keys,
        each key once a tick.
    every
        The length of time between snapshots.
    output
        "snapshots" or "updates".
    initial
        What `read_savepoint` gives: the states to start from in a new checkpoint.

    Raises
    ------
    ParameterError
        also when the session's state store cannot serve; `catchment.spark.session()` sets it right.
    """
    if not df.isStreaming:
        raise ParameterError("a DataFrame that is not a stream", "give one of spark.readStream, or use sketch")
    if output not in OUTPUTS:
        raise ParameterError(f"output={output!r}", f"choose one of {', '.join(OUTPUTS)}")
    if time is None:
        raise TimeError("a stream without times", "give time=, a column of timestamps or of integers")
    provider = df.sparkSession.conf.get(_PROVIDER) or ""
    if provider != _ROCKSDB:
        raise ParameterError(
            f"the state store {provider.split('.')[-1]}", f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
        )
    plan, rows = Plan.of(
        df, using, keys=keys, time=time, by=by, weights=weights, values=values, attributes=attributes, tick=tick,
        taken=_TAKEN,
    )  # fmt: skip
    odd = [field.name for field in plan.by if field.name != plain(field.name)]
    if odd:
        raise ParameterError(f"by={odd[0]!r} in a stream", "rename the column: no dots, backticks and percent signs")
    if "EventTimeWatermark" in _described(df):
        raise ParameterError(
            "a stream with a watermark", "leave withWatermark out: lateness= says how late events may be"
        )
    timed = output == "snapshots"
    waiting = lateness if isinstance(lateness, int) else -(-microseconds("lateness", lateness) // plan.tick)
    stretch = as_ticks("every", every, plan.tick) if timed else 0
    if timed and stretch < 1:
        raise ParameterError(f"every={every!r}", f"give at least one tick of {tick}")
    parts = rows.mapInArrow(_StreamGather(plan, stretch), _parts_schema(plan))
    if timed:
        parts = parts.withWatermark("clock", f"{waiting * plan.tick} microseconds")
    groups = [field.name for field in _grouping(plan, plan.groups)]
    start = None if initial is None else initial.groupBy(*groups)
    return (
        parts.groupBy(*groups)
        .transformWithState(
            _Keeper(plan, waiting, stretch),
            outputStructType=_result_schema(plan),
            outputMode="Append",
            timeMode="EventTime" if timed else "None",
            initialState=start,
        )
        .drop(*([] if plan.by or plan.named else ["nothing"]))
    )


def _described(df: DataFrame) -> str:
    """The logical plan as text; nothing where Spark Connect keeps it to itself."""
    plan: Any = getattr(df, "_jdf", None)
    return "" if plan is None else str(plan.queryExecution().logical().toString())


def _grouping(plan: Plan, by: Iterable[StructField]) -> list[StructField]:
    """What the state is kept by; a stream without groups has one of a name that nobody sees."""
    keys = [*by, *([StructField("name", StringType(), False)] if plan.named else [])]
    return keys or [StructField("nothing", StringType(), False)]


def _parts_schema(plan: Plan) -> StructType:
    return StructType(
        [*_grouping(plan, plan.groups), StructField("clock", TimestampType()), StructField("part", BinaryType())]
    )


def _result_schema(plan: Plan) -> StructType:
    counts = [StructField("events", LongType(), False), StructField("late", LongType(), False)]
    at, blob = StructField("at", TimestampType(), False), StructField("sketch", BinaryType(), False)
    return StructType([*_grouping(plan, plan.by), at, blob, *counts])


def state_schema() -> StructType:
    """The schema of the state: one column, which no release will change. What changes is inside, and says so."""
    return StructType([StructField(STATE, BinaryType())])


class _StreamGather:
    """Batches of rows in, parts out, and one row that carries the newest time."""

    def __init__(self, plan: Plan, every: int) -> None:
        self.plan, self.every = plan, every

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathering = Gathering(self.plan, every=self.every)
        schema = to_arrow_schema(_parts_schema(self.plan), timezone="UTC")
        newest: tuple[int, list[Any]] | None = None

        def rows() -> Iterator[Any]:
            for table in big_batches(batches):
                yield from gathering.add(table)
            yield from gathering.flush()

        held: list[list[Any]] = []
        size = 0
        for group, measure, events in rows():
            key = [*gathering.groups.values[group], *([measure.name] if self.plan.named else [])] or [""]
            blob = events.to_bytes()
            held.append([*key, None, blob])
            size += len(blob)
            if newest is None or events.newest > newest[0]:
                newest = events.newest, key
            if len(held) >= 1000 or size > 32 << 20:
                yield _batch(held, schema)
                held, size = [], 0
        if newest is not None:
            moment(newest[0] + self.every, self.plan.tick)  # said here, before any state has it
            held.append([*newest[1], newest[0] * self.plan.tick, None])
            yield _batch(held, schema)


def moment(tick: int, length: int) -> datetime:
    """When a tick of so many microseconds begins.

    >>> moment(60, 1_000_000)
    datetime.datetime(1970, 1, 1, 0, 1)
    """
    try:
        return _EPOCH + timedelta(microseconds=tick * length)
    except OverflowError:
        raise TimeError(
            f"tick {tick} of {length} µs is not between the years 1 and 9999",
            "give tick= the unit in which the integers of the time column count, or leave such rows out",
        ) from None


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Keeper(StatefulProcessor):
    """Keeps the state of one group: reads it, feeds it, writes it back, once a micro-batch."""

    def __init__(self, plan: Plan, lateness: int, every: int) -> None:
        self.plan, self.lateness, self.every = plan, lateness, every

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._value = handle.getValueState(STATE, state_schema())
        self._blanks = {measure.name: measure.blank for measure in self.plan.measures}

    def _load(self, key: tuple[Any, ...]) -> StreamState:
        blank = self._blanks[key[-1]] if self.plan.named else next(iter(self._blanks.values()))
        using = Sketch.from_bytes(blank)
        if not self._value.exists():
            return StreamState(using, lateness=self.lateness, every=self.every)
        state = StreamState.from_bytes(bytes(self._value.get()[0]))  # type: ignore[index]
        if state.using.to_bytes() != blank:
            raise MergeError(
                f"the checkpoint keeps {state.using!r}, and the query asks for {using!r}",
                "go on with the sketch that it began with, or start a new checkpoint",
            )
        state.lateness = self.lateness  # may change between runs; the length of stretches may not: it cuts parts
        if state.every != self.every:
            raise MergeError(
                f"the checkpoint was begun with every={state.every} ticks, and the query asks for {self.every}",
                "go on as it began, or start a new checkpoint",
            )
        return state

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        state = self._load(key)
        kind = kind_of(state.using).events
        parts = [kind.from_bytes(state.using, bytes(row.part)) for row in rows if row.part is not None]
        if not parts:
            return
        snapshots = state.take(parts)
        self._value.update((state.to_bytes(),))
        if self.every:
            self._wake(state, {end for part in parts for end in part.ends(self.every)})
        else:
            snapshots = [Snapshot(state.newest, state.current())]
        yield from (self._row(key, state, snapshot) for snapshot in snapshots)

    def _wake(self, state: StreamState, ends: Iterable[int]) -> None:
        """Ask to be called when the watermark passes these stretches, where they wait, should nothing more come.

        A stretch has passed when its last tick is over, and that in whole milliseconds, rounded up: no tick is cut.
        """
        for end in set(state.ends).intersection(ends):
            self._handle.registerTimer(-(-(end + 1) * self.plan.tick // 1000))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        state = self._load(key)
        snapshot = state.unfinished(expiredTimerInfo.getExpiryTimeInMs() * 1000 // self.plan.tick)
        if snapshot is not None:
            yield self._row(key, state, snapshot)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        state = StreamState.from_bytes(bytes(initialState.state))
        self._value.update((state.to_bytes(),))
        if self.every:
            self._wake(state, state.ends)

    def close(self) -> None:
        return

    def _row(self, key: tuple[Any, ...], state: StreamState, snapshot: Snapshot) -> Row:
        at = moment(snapshot.at, self.plan.tick)
        fields = [*(field.name for field in _grouping(self.plan, self.plan.by)), "at", "sketch", "events", "late"]
        return Row(*fields)(*key, at, snapshot.sketch.to_bytes(), state.events, state.late)
