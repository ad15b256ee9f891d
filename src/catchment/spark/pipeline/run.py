"""Runs a pipeline: source, dead letters, sketches, snapshots, until it is over or someone says stop.

**One query for both outputs.** The good rows go through `sketch_stream`, the bad ones do not, and a micro-batch gets
the union of the sketches and the dead letters. Two queries would each have their own checkpoint and clock: after a
crash one may be ahead of the other, and a row close to the limit of `ahead` could be in both or in neither. In one
query both streams are of the same offsets and the same moment. The price is that Spark reads the source once for each;
the pass for dead letters is a filter on the JVM, and `dead_letters = false` saves it. Spark's own count of input rows
is then double, so each stream counts its rows itself.

**Stopping.** A running micro-batch ends and is committed; the next one is refused before it reads anything. What is
not committed is done by the next run from the checkpoint, and snapshots replace themselves, so also a kill −9
loses and repeats nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegralType

from catchment.errors import CatchmentError, PipelineError
from catchment.spark.kafka import to_kafka_sketches
from catchment.spark.logs import ProgramLog, see_log
from catchment.spark.pipeline.folder import OutputFolder
from catchment.spark.pipeline.progress import BAD, GOOD, Metrics, MetricsListener
from catchment.spark.pipeline.sources import needed_settings, open_source
from catchment.spark.pipeline.spec import AS_FAST_AS_POSSIBLE, AVAILABLE_NOW, Pipeline
from catchment.spark.savepoint import read_savepoint
from catchment.spark.session import session
from catchment.spark.source.dead_letters import write_dead_letters
from catchment.spark.stream import sketch_stream
from catchment.window.durations import microseconds

__all__ = ["Run", "pipeline_session"]

_DEAD_COLUMNS = ("reason", "record", "seen")
_POLL_SECONDS = 0.1
_PRODUCER_BYTES = 2**25  # what a producer of Kafka's may hold by default
_STOPPED = "stopped as asked: the next run does this micro-batch"
_OURS = re.compile(r"catchment\.errors\.\w+: (.+)")
_TASK = re.compile(r"most recent failure: Lost task .*?\): (.+)")


def pipeline_session(pipeline: Pipeline, *, master: str | None = None, log: Path | None = None) -> SparkSession:
    """The session that a pipeline asks for.

    The JVM gets a process group of its own, so that Ctrl-C on the terminal reaches this process alone and the running
    micro-batch can end; it ends itself when this process does. What it and its workers print goes to `log`, a file, or
    without one to where this process prints.
    """
    config = needed_settings(pipeline) | pipeline.spark.config
    return session(master or pipeline.spark.master, f"catchment {pipeline.name}", config, log=ProgramLog(log))


class Run:
    """One run of a pipeline.

    Parameters
    ----------
    pipeline, spark
        What to run, and on what.
    once
        End when everything that is there now is read, whatever the file's trigger says.
    tell
        Called with the metrics of each micro-batch.
    savepoint
        The states to start from, for a new checkpoint; the pipeline is then what `resumed` gives.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        once: bool = False,
        tell: Callable[[Metrics], None] = lambda _: None,
        savepoint: Path | None = None,
    ) -> None:
        self.pipeline, self.spark, self.tell, self.savepoint = pipeline, spark, tell, savepoint
        self.trigger = AVAILABLE_NOW if once else pipeline.spark.trigger
        self._stopping = threading.Event()
        self._now = threading.Event()
        self._written: dict[int, tuple[int, int]] = {}

    def stop(self) -> None:
        """Ask the run to end after its running micro-batch; asked again, at once. Safe in a signal handler."""
        (self._now if self._stopping.is_set() else self._stopping).set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self, seconds: float | None = None) -> None:
        """Run until the source ends, `stop` is called, or so many seconds have passed.

        Raises `PipelineError` for what only the source can show (a column that is not there), and when a micro-batch
        fails, with the reason.
        """
        if self.trigger == AVAILABLE_NOW and self.pipeline.source.format == "generator":
            self._check_end()
        good, dead = open_source(self.spark, self.pipeline)
        stream = self._stream(good, dead)
        self.folder = OutputFolder(Path(self.pipeline.output.folder), keep=self.pipeline.output.keep)
        self.folder.begin(self._about(good), self.pipeline.checkpoint)
        listener = MetricsListener(self.folder.metrics, lambda batch: self._written.pop(batch, (0, 0)), self.tell)
        self.spark.streams.addListener(listener)
        try:
            writer = stream.writeStream.foreachBatch(self._take).outputMode("append")
            writer = writer.option("checkpointLocation", self.pipeline.checkpoint).queryName(self.pipeline.name)
            query = writer.trigger(**self._trigger()).start()
            try:
                self._wait(query, seconds)
            finally:
                query.stop()
            for progress in query.recentProgress:
                listener.take(progress)
        finally:
            self.spark.streams.removeListener(listener)

    def _wait(self, query: Any, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        while query.isActive:
            if end is not None and time.monotonic() >= end:
                self._stopping.set()
            if self._now.is_set() or (self._stopping.is_set() and not query.status["isTriggerActive"]):
                return
            self._stopping.wait(_POLL_SECONDS) if not self._stopping.is_set() else time.sleep(_POLL_SECONDS)
        problem = query.exception()
        if problem is not None and _STOPPED not in str(problem):
            raise _failure(self.pipeline, str(problem)) from problem

    def _check_end(self) -> None:
        if "events" not in self.pipeline.source.options:
            raise self.pipeline.places.error(
                ("source", "options"),
                "a generator without end cannot be read once",
                "add events = 1000000 under [source.options]",
            )

    def _trigger(self) -> dict[str, Any]:
        if self.trigger == AVAILABLE_NOW:
            return {"availableNow": True}
        length = 0 if self.trigger == AS_FAST_AS_POSSIBLE else microseconds("trigger", self.trigger)
        return {"processingTime": f"{length // 1000} milliseconds"}

    def _stream(self, good: DataFrame, dead: DataFrame) -> DataFrame:
        """Sketches, and dead letters where they are wanted, in one stream."""
        pipeline = self.pipeline
        count = f.count(f.lit(1)).alias("n")
        tick = f"{pipeline.window.tick} microseconds"
        try:
            sketches = sketch_stream(
                good.observe(GOOD, count),
                using={each.name: each.of() for each in pipeline.sketches},
                time=pipeline.columns.time,
                by=pipeline.columns.by,
                tick=tick,
                lateness=pipeline.window.lateness // pipeline.window.tick,
                every=pipeline.output.every // pipeline.window.tick,
                output=pipeline.output.mode,
                initial=None if self.savepoint is None else read_savepoint(self.spark, self.savepoint),
            )
        except CatchmentError as problem:
            raise PipelineError(f"{pipeline.places.file}: {problem.problem}", problem.cure) from problem
        if not pipeline.output.dead_letters:
            return sketches
        return sketches.unionByName(dead.observe(BAD, count), allowMissingColumns=True)

    def _about(self, good: DataFrame) -> dict[str, Any]:
        """What readers need to know. `kind` is what a sketch is known by; `sketch` is for people, and never read."""
        pipeline = self.pipeline
        tick = pipeline.window.tick
        kinds = {field.name: field.dataType for field in good.schema.fields}
        return {
            "version": 1,
            "name": pipeline.name,
            "tick": tick,
            "window": pipeline.window.ticks,
            "lateness": pipeline.window.lateness // tick,
            "every": pipeline.output.every // tick,
            "mode": pipeline.output.mode,
            "sites": list(pipeline.columns.by),
            "sketches": [
                {
                    "name": each.name,
                    "kind": each.kind,
                    "key": each.key,
                    "weights": each.weights,
                    "integers": each.key is not None and isinstance(kinds[each.key], IntegralType),
                    "sketch": repr(each.using),
                }
                for each in pipeline.sketches
            ],
        }

    def _take(self, rows: DataFrame, batch: int) -> None:
        """Write one micro-batch; the same files again where it is repeated."""
        if self._stopping.is_set():
            raise RuntimeError(_STOPPED)
        output = self.pipeline.output
        columns = [*self.pipeline.columns.by, "name", "at", "sketch", "events", "late"]
        if not output.dead_letters:
            self._write(batch, rows.select(*columns).toArrow())
            return
        rows = rows.persist()  # two readers: without it the second would run the stateful operator again
        try:
            self._write(batch, rows.where("reason IS NULL").select(*columns).toArrow())
            bad = rows.where("reason IS NOT NULL").select(*_DEAD_COLUMNS)
            if not bad.isEmpty() or (self.folder.dead_letters / f"batch={batch}").exists():
                write_dead_letters(bad, str(self.folder.dead_letters), batch)
        finally:
            rows.unpersist()

    def _write(self, batch: int, table: pa.Table) -> None:
        order = [(name, "ascending") for name in (*self.pipeline.columns.by, "name", "at")]
        table = table.sort_by(order)
        self.folder.write(batch, table)
        sites = table.select(list(self.pipeline.columns.by)).group_by(list(self.pipeline.columns.by)).aggregate([])
        self._written[batch] = sites.num_rows if self.pipeline.columns.by else int(table.num_rows > 0), table.num_rows
        if self.pipeline.output.kafka_servers is not None and table.num_rows:
            self._send(table)

    def _send(self, table: pa.Table) -> None:
        """The sketches to Kafka, keyed by site and name: at least once, since Kafka's writer has no batches."""
        labels = [pc.cast(table[name], pa.string()) for name in (*self.pipeline.columns.by, "name")]
        keyed = pa.table({"site": pc.binary_join_element_wise(*labels, "/"), "sketch": table["sketch"]})
        records = to_kafka_sketches(self.spark.createDataFrame(keyed))
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", self.pipeline.output.kafka_servers)
        # A producer refuses more than a megabyte unless told otherwise; what is too large is for the topic to say.
        room = max(_PRODUCER_BYTES, 2 * int(pc.max(pc.binary_length(table["sketch"])).as_py()))
        writer = writer.option("kafka.max.request.size", room).option("kafka.buffer.memory", room)
        writer.option("topic", self.pipeline.output.kafka_topic).save()


def _failure(pipeline: Pipeline, said: str) -> PipelineError:
    """What made a micro-batch fail: an error of ours, otherwise that of a task, otherwise Spark's first line."""
    known = _OURS.search(said) or _TASK.search(said)
    reason = known[1] if known else said.strip().splitlines()[0]
    return PipelineError(
        f"{pipeline.places.file}: a micro-batch failed ({reason})",
        f"mend what it says; the next run goes on with that micro-batch{see_log()}",
    )
