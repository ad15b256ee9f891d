"""An expensive Python function over the rows of a DataFrame or a stream, dealt to tasks by what rows cost.

A stage is as long as its slowest task, and equal counts of rows are not equal work. Here the driver looks at the cost
keys of a micro-batch (a hash a row), deals the rows so that the tasks' estimated costs are even, and lets each task
measure what its rows really took. What was measured comes back in one extra row a task, is merged and kept for the next
batch: OSG (thesis, section 7.2) where every batch begins with idle tasks, see `balance.scheduler.batches`.

Which task a row goes to changes nothing but time: each row has one, and the result holds the same rows.

- **Exactly once.** The results of a stream go to `into` in `foreachBatch`, with Spark's promise: once for each batch
  number, again with the same rows and number if the driver failed before the batch was committed. What is learnt
  follows the same rule (`learnt_folder`): a batch that runs again counts once. The function itself may be called again
  for a row whose task failed, as anywhere in Spark; the costs of such a task count when it succeeds.
- **Once a batch.** The results of a batch are kept until `into` returns: one with two actions calls no function twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from catchment.balance.scheduler.batches import CostModel, Deal, deal
from catchment.errors import ParameterError
from catchment.sketch.checks import check_choice, check_whole
from catchment.sketch.keys import KeyBatch
from catchment.sketch.value_estimator import ValueEstimator
from catchment.spark.balanced_report import BatchReport
from catchment.spark.balanced_tasks import COSTS, COSTS_TYPE, HASH, ROW, TASK, Dealer, Function, Runner
from catchment.spark.learnt_folder import LearntFolder
from catchment.spark.row_identity import RowPlaces, content_hash

__all__ = ["BalancedMap", "balanced_map"]

DEALS = ("costs", "counts")
REPORTS_KEPT = 100

Write = Callable[[DataFrame, int], None]


def balanced_map(
    df: DataFrame,
    function: Function,
    cost_key: str | Iterable[str],
    *,
    schema: str | StructType,
    into: Write | None = None,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> DataFrame | DataStreamWriter:
    """Apply an expensive function to every row, with tasks that end together.

    Of a DataFrame it gives the DataFrame of results, computed and cached until the session ends; `BalancedMap` can
    `release` it. Of a stream it gives the writer of its query, to be started: each micro-batch's results go to
    `into(results, number)`.

    Parameters
    ----------
    df
        The rows.
    function
        Called with a row as a dictionary; gives one back, or a list of them, or None for no row.
    cost_key
        The column, or columns, that a row's cost depends on: what is measured of a row is expected of rows like it.
    schema
        Of what the function gives, as Spark takes it.
    into, checkpoint
        For a stream: where results go, and the checkpoint of its query. What is learnt is kept in `learnt` below it.
    options
        `tasks`, `learnt`, `deal`, `on_report` and the sizes of the model, as in `BalancedMap`.

    Examples
    --------
    ::

        def enrich(row):
            return {"id": row["id"], "answer": model.ask(row["text"])}

        def write(results, number):  # a batch that comes again replaces itself
            results.write.mode("overwrite").parquet(f"answers/batch={number}")

        query = balanced_map(
            spark.readStream.table("requests"), enrich, "kind", schema="id long, answer string", into=write,
            checkpoint="checkpoints/enrich", tasks=16, on_report=print,
        ).start()
    """
    if not df.isStreaming:
        if into is not None or checkpoint is not None:
            raise ParameterError("into= or checkpoint= for a DataFrame that is no stream", "leave both out")
        return BalancedMap(function, cost_key, schema, **options).run(df)
    if into is None or checkpoint is None:
        raise ParameterError("a stream without into= or checkpoint=", "say where results go, and where to go on from")
    options.setdefault("learnt", f"{checkpoint}/learnt")
    return BalancedMap(function, cost_key, schema, **options).stream(df, into, checkpoint=checkpoint)


class BalancedMap:
    """The same as an object: it knows what it has learnt and reports what it did.

    Parameters
    ----------
    function, cost_key, schema
        As in `balanced_map`.
    tasks
        Into how many tasks a batch is dealt; by default as many as Spark runs at once.
    learnt
        A folder in which what was learnt is kept for the next run, on any file system that Spark can reach.
    deal
        "costs", or "counts" for equal counts of rows, which costs nothing and is for comparing.
    on_report
        Called with the `BatchReport` of each batch.
    epsilon, delta, seed, pane, panes
        Of the `CostModel`: its size, and how many rows are remembered.
    """

    def __init__(
        self,
        function: Function,
        cost_key: str | Iterable[str],
        schema: str | StructType,
        *,
        tasks: int | None = None,
        learnt: str | Path | None = None,
        deal: str = "costs",
        on_report: Callable[[BatchReport], None] | None = None,
        epsilon: float = 0.005,
        delta: float = 0.1,
        seed: int = 0,
        pane: int = 4096,
        panes: int = 4,
    ) -> None:
        self.function = function
        self.cost_key = (cost_key,) if isinstance(cost_key, str) else tuple(cost_key)
        if not self.cost_key:
            raise ParameterError("no cost_key", "name the column, or columns, that a row's cost depends on")
        self.tasks = None if tasks is None else check_whole("tasks", tasks, 1, 2**20)
        self.deal = check_choice("deal", deal, DEALS)
        self.schema = schema
        self.on_report = on_report
        self.reports: deque[BatchReport] = deque(maxlen=REPORTS_KEPT)
        self.model = CostModel(epsilon, delta, seed=seed, pane=pane, panes=panes)
        self._empty = self.model.to_bytes()
        self._learnt = learnt
        self._number: int | None = None
        self._before = self.model  # what was known before batch `_number`
        self._notes: list[str] = []
        self._cached: list[DataFrame] = []

    # -- the two doors --------------------------------------------------------------------------------------------

    def run(self, df: DataFrame) -> DataFrame:
        """The results for a DataFrame, computed now and cached; what was measured is learnt, and kept in `learnt`."""
        if df.isStreaming:
            raise ParameterError("a stream", "use stream(), or balanced_map with into= and checkpoint=")
        number = self._next_number(df)
        self._recall(df, number)
        kept, results, measured, report = self._batch(df, number)
        self._cached.append(kept)
        self._learn(df, number, measured, report)
        return results

    def release(self) -> None:
        """Let go of the results that `run` has cached; used after that, they are computed again."""
        while self._cached:
            self._cached.pop().unpersist()

    def stream(self, df: DataFrame, into: Write, *, checkpoint: str | Path | None = None) -> DataStreamWriter:
        """The writer of a query that hands each micro-batch's results to `into`."""
        if not df.isStreaming:
            raise ParameterError("a DataFrame that is not a stream", "use run(), or balanced_map without into=")
        self._check(df)
        writer = df.writeStream.foreachBatch(self.into(into))
        return writer if checkpoint is None else writer.option("checkpointLocation", str(checkpoint))

    def into(self, write: Write) -> Write:
        """For `foreachBatch`: run the batch, write its results, and only then keep what was learnt."""

        def each(df: DataFrame, number: int) -> None:
            self._recall(df, number)
            kept, results, measured, report = self._batch(df, number)
            try:
                write(results, number)
                self._learn(df, number, measured, report)
            finally:
                kept.unpersist()

        return each

    # -- one batch ------------------------------------------------------------------------------------------------

    def _batch(self, df: DataFrame, number: int) -> tuple[DataFrame, DataFrame, list[dict[str, Any]], dict[str, Any]]:
        """What is cached, the results, what the tasks measured, and the first half of a report."""
        out, columns = self._check(df)
        tasks = self.tasks or df.sparkSession.sparkContext.defaultParallelism
        start = time.perf_counter()
        keyed = df.withColumn(HASH, _hash(df, self.cost_key))
        dealt, even = None, np.zeros(0)
        if self.deal == "counts" or not self.model.rows:
            apart = keyed.repartition(tasks)
        else:
            keyed = keyed.withColumn(ROW, content_hash(df)).persist()
            places, dealt, even = self._deal(keyed, tasks)
            placed = StructType([*keyed.schema.fields, StructField(TASK, IntegerType())])
            apart = keyed.mapInArrow(Dealer(places, dealt.tasks), placed).repartitionById(tasks, TASK)
        dealing = time.perf_counter() - start
        arrow = to_arrow_schema(out, timezone="UTC")
        runner = Runner(self.function, columns, arrow, self.model.blank().to_bytes())
        start = time.perf_counter()
        kept = apart.mapInArrow(runner, out).persist()
        try:
            measured = kept.where(sql.col(COSTS).isNotNull()).select(f"{COSTS}.*").toArrow().to_pylist()
        except BaseException:
            kept.unpersist()
            raise
        finally:
            if dealt is not None:
                keyed.unpersist()
        running = time.perf_counter() - start
        loads = np.zeros(tasks)
        for each in measured:
            loads[each["task"]] = each["micros"]
        report = {
            "number": number,
            "rows": sum(each["rows"] for each in measured),
            "tasks": tasks,
            "estimated": _seconds(dealt.loads) if dealt is not None else (),
            "equal_counts": _seconds(even),
            "measured": _seconds(loads),
            "dealing": dealing,
            "running": running,
        }
        return kept, kept.where(sql.col(COSTS).isNull()).drop(COSTS), measured, report

    def _deal(self, keyed: DataFrame, tasks: int) -> tuple[RowPlaces, Deal, NDArray[np.float64]]:
        """Where each row is, its task, and what tasks are expected to take: so, and in equal counts."""
        seen = keyed.select(sql.spark_partition_id().alias("partition"), ROW, HASH).toArrow().sort_by(ROW)
        hashes = np.ascontiguousarray(seen.column(HASH).to_numpy())
        estimates = self.model.estimate(KeyBatch.of_hashes(hashes.view(np.uint64)))
        dealt = deal(estimates, tasks)
        even = np.bincount(np.arange(estimates.size) % tasks, weights=estimates, minlength=tasks).astype(np.float64)
        return RowPlaces(seen.column("partition").to_numpy(), seen.column(ROW).to_numpy()), dealt, even

    def _check(self, df: DataFrame) -> tuple[StructType, list[str]]:
        """The schema of what tasks give, and the columns that the function sees."""
        missing = [name for name in self.cost_key if name not in df.columns]
        if missing:
            raise ParameterError(f"cost_key={missing[0]!r}", f"there are {', '.join(df.columns)}")
        schema = StructType.fromDDL(self.schema) if isinstance(self.schema, str) else self.schema
        if not isinstance(schema, StructType):
            raise ParameterError(f"schema={self.schema!r}", 'name columns and types, such as "id long, answer string"')
        taken = sorted({HASH, ROW, TASK, COSTS} & {*df.columns, *schema.names})
        if taken:
            raise ParameterError(f"a column {taken[0]}", "rename it: balanced_map needs this name for itself")
        fields = [StructField(field.name, field.dataType, True, field.metadata) for field in schema.fields]
        return StructType([*fields, StructField(COSTS, COSTS_TYPE)]), list(df.columns)

    # -- what is learnt -------------------------------------------------------------------------------------------

    def _next_number(self, df: DataFrame) -> int:
        if self._number is not None:
            return self._number + 1
        numbers = [] if self._learnt is None else LearntFolder(df.sparkSession, self._learnt).numbers()
        return numbers[-1] + 1 if numbers else 0

    def _recall(self, df: DataFrame, number: int) -> None:
        """Know what was known before this batch: by heart where it follows the last one, otherwise from the folder."""
        self._notes = []
        if self._number is not None and self._number + 1 == number:
            return
        if self._learnt is None:
            if number == self._number:
                self.model = self._before
            return
        folder = LearntFolder(df.sparkSession, self._learnt)
        folder.begin_anew(number)
        found, self._notes = folder.newest(CostModel.from_bytes, before=number)
        wanted = CostModel.from_bytes(self._empty)
        if found is not None and found.blank().parameters != wanted.blank().parameters:
            self._notes.append("what was learnt with another epsilon, delta or seed is left out")
            found = None
        if found is not None:
            found.pane, found.panes = wanted.pane, wanted.panes
        self.model = found or wanted

    def _learn(self, df: DataFrame, number: int, measured: list[dict[str, Any]], half: dict[str, Any]) -> None:
        start = time.perf_counter()
        parts = [ValueEstimator.from_bytes(each["part"]) for each in measured]
        model = CostModel.from_bytes(self.model.to_bytes())  # if it cannot be written, nothing was learnt
        if parts:
            model.learn(ValueEstimator.merge(parts))
        if self._learnt is not None:
            LearntFolder(df.sparkSession, self._learnt).write(number, model.to_bytes())
        self._before, self.model, self._number = self.model, model, number
        longest = max((each["overhead"] for each in measured), default=0) / 1e6
        report = BatchReport(
            **half,
            known_rows=self.model.rows,
            mean_cost=self.model.mean / 1e6,
            learning=time.perf_counter() - start + longest,
            notes=tuple(self._notes),
        )
        self.reports.append(report)
        if self.on_report is not None:
            self.on_report(report)

    def report(self) -> str:
        """The newest batch, for people."""
        return str(self.reports[-1]) if self.reports else "no batch yet"


def _seconds(micros: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(value) / 1e6 for value in micros)


def _hash(df: DataFrame, columns: tuple[str, ...]) -> Any:
    """One hash for the key: integers as 64 bits, text and binary as they are, anything else as text."""
    found = []
    for name in columns:
        kind = df.schema[name].dataType
        column = sql.col(f"`{name.replace('`', '``')}`")
        if isinstance(kind, ByteType | ShortType | IntegerType | LongType):
            column = column.cast("bigint")
        elif not isinstance(kind, StringType | BinaryType):
            column = column.cast("string")
        found.append(column)
    return sql.xxhash64(*found)
