"""The data source `catchment_events`: a seeded stream of events, for trials, demonstrations and load.

    register_sources(spark)
    batch = spark.read.format("catchment_events").options(seed=7, keys=1000, skew=1.1, events=10_000_000).load()
    stream = spark.readStream.format("catchment_events").options(seed=7, keys=1000, rate=50_000).load()

Event n is a function of the recipe (`recipe.py` lists its options) and of n alone. Hence the offset of the stream is
the number of events, a replay from a checkpoint gives the same rows, and so does a batch over the same range, whatever
the number of partitions. Beside the recipe's options there are

- `events`: how many there are. A batch needs it; a stream without it never ends.
- `first`: the number of the first event, 0 unless said otherwise; events run from `first` to `first + events`.
- `partitions`: tasks a batch or micro-batch; as many as the machine that plans has cores, unless said otherwise.
- `rate` (streams): events a second of wall time. The clock starts with the query: what would have come while a query
  was stopped is not made up for.
- `per_batch` (streams): at most this many events a micro-batch. Without `rate` every micro-batch is this large, one
  after the other as fast as Spark goes; one million unless said otherwise.

With the trigger `availableNow` all `events` count as there, `rate` plays no part, and the query ends after the last;
without `events` it is refused. Spark hands no column pruning to Python sources, so all columns are always made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from catchment.errors import ParameterError
from catchment.spark.source.options import Options
from catchment.spark.source.recipe import EVENTS_LIMIT, Recipe

__all__ = ["EventSource"]

BATCH_ROWS = 65_536
"""Rows of an Arrow batch: its four columns stay in the cache between the kernel that fills them and the socket."""

PER_BATCH = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The recipe, which part of it is asked for, and how fast it comes."""

    recipe: Recipe
    first: int
    events: int | None
    partitions: int
    rate: float | None
    per_batch: int | None

    @classmethod
    def from_options(cls, given: Any) -> Plan:
        options = Options(given)
        plan = cls(
            recipe=Recipe.from_options(options),
            first=options.whole("first", 0, low=0, high=EVENTS_LIMIT),
            events=options.whole("events", None, low=0, high=EVENTS_LIMIT),
            partitions=options.whole("partitions", os.cpu_count() or 1, low=1, high=100_000),
            rate=options.number("rate", 0.0, low=1e-3, high=1e12) if options.has("rate") else None,
            per_batch=options.whole("per_batch", None, low=1, high=EVENTS_LIMIT),
        )
        options.refuse_others(EventSource.name())
        return plan

    @property
    def last(self) -> int:
        """Where the stream ends: the number after its last event."""
        return EVENTS_LIMIT if self.events is None else self.first + self.events

    def split(self, start: int, end: int) -> list[EventRange]:
        """The range in nearly equal parts, none empty."""
        count = min(self.partitions, end - start)
        cuts = [start + (end - start) * part // count for part in range(count + 1)] if count > 0 else []
        return [EventRange(*pair) for pair in pairwise(cuts)]

    def read(self, part: EventRange) -> Iterator[pa.RecordBatch]:
        for first in range(part.start, part.end, BATCH_ROWS):
            yield self.recipe.batch(first, min(BATCH_ROWS, part.end - first))


@dataclass(frozen=True)
class EventRange(InputPartition):
    """The events that one task makes."""

    start: int
    end: int


class EventSource(DataSource):
    """`spark.read.format("catchment_events")` and `spark.readStream.format("catchment_events")`."""

    @classmethod
    def name(cls) -> str:
        return "catchment_events"

    def schema(self) -> str:
        return Plan.from_options(self.options).recipe.ddl

    def reader(self, schema: StructType) -> EventReader:
        plan = self._plan(schema)
        if plan.events is None:
            raise ParameterError("a batch without events", "say how many events there are: events=1000000")
        for name, value in (("rate", plan.rate), ("per_batch", plan.per_batch)):
            if value is not None:
                raise ParameterError(f"{name}={value:g} for a batch", f"leave {name} out, or use spark.readStream")
        return EventReader(plan)

    def streamReader(self, schema: StructType) -> EventStreamReader:  # noqa: N802 - Spark's name
        return EventStreamReader(self._plan(schema))

    def _plan(self, schema: StructType) -> Plan:
        plan = Plan.from_options(self.options)
        wanted = ", ".join(f"{field.name} {field.dataType.simpleString().upper()}" for field in schema.fields)
        if wanted != plan.recipe.ddl:
            raise ParameterError(f"the schema {wanted}", f"leave the schema out; it is {plan.recipe.ddl}")
        return plan


class EventReader(DataSourceReader):
    """A batch over events `first` to `first + events`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def partitions(self) -> list[EventRange]:
        # Spark takes no partitions for one unknown partition, so an empty range says that it is empty.
        return self.plan.split(self.plan.first, self.plan.last) or [EventRange(self.plan.first, self.plan.first)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.plan.read(cast(EventRange, partition))


@dataclass
class EventStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream whose offset is the number of events: `{"events": n}`."""

    plan: Plan
    _everything_is_there: bool = False
    _since: tuple[int, float] | None = None
    """The offset at which this run of the query began, and when."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"events": self.plan.first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.plan.rate is not None and self.plan.per_batch is None:
            return ReadAllAvailable()
        return ReadMaxRows(self.plan.per_batch or PER_BATCH)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        begin = start["events"]
        end = min(self._there(begin), self.plan.last)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        elif end == EVENTS_LIMIT:  # Spark wants everything of a stream that has no end
            end = begin + (self.plan.per_batch or PER_BATCH)
        return {"events": max(begin, end)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        if self.plan.events is None:
            raise ParameterError(
                "the trigger availableNow for a stream without end", "say how many events there are: events=1000000"
            )
        self._everything_is_there = True

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[EventRange]:
        return self.plan.split(start["events"], end["events"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.plan.read(cast(EventRange, partition))

    def _there(self, begin: int) -> int:
        """The number after the newest event that has come."""
        if self.plan.rate is None or self._everything_is_there:
            return EVENTS_LIMIT
        if self._since is None:
            self._since = begin, time.monotonic()
        return self._since[0] + int((time.monotonic() - self._since[1]) * self.plan.rate)
