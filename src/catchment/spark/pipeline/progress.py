"""How a pipeline gets on: what Spark says after each micro-batch, as one small record, in a file and for a terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

__all__ = ["BAD", "GOOD", "Metrics", "MetricsListener"]

GOOD, BAD = "good", "bad"
"""The names of the counts that the pipeline's two streams carry with them."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """One micro-batch, and the run so far.

    `watermark` is the moment, as text, that the batch knew no earlier event would be waited for; `seconds` is how long
    the batch took, `state_bytes` what the state store holds in memory for all sites.
    """

    batch: int
    at: str
    events: int
    dead_letters: int
    seconds: float
    events_a_second: float
    watermark: str | None
    states: int
    state_bytes: int
    sites: int
    snapshots: int
    all_events: int
    all_dead_letters: int


class MetricsListener(StreamingQueryListener):
    """Spark calls it after each micro-batch; every batch is told once, whatever Spark repeats.

    Parameters
    ----------
    file
        Gets a line of JSON for each batch.
    counts
        Tells how many sites and snapshots a batch wrote, and forgets it.
    tell
        Called with the metrics of each batch, in Spark's thread.
    """

    def __init__(self, file: Path, counts: Callable[[int], tuple[int, int]], tell: Callable[[Metrics], None]) -> None:
        self._file, self._counts, self._tell = file, counts, tell
        self._told = -1
        self._events = self._dead = self._snapshots = 0
        self._lock = threading.Lock()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        return

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        return

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        return

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.take(event.progress)

    def take(self, progress: Any) -> None:
        """Tell of a batch that has not been told of; an idle trigger repeats the last."""
        with self._lock:
            if progress.batchId <= self._told or "addBatch" not in progress.durationMs:
                return
            self._told = progress.batchId
            metrics = self._measured(progress)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(metrics)) + "\n")
        self._tell(metrics)

    def _measured(self, progress: Any) -> Metrics:
        events, dead = (_observed(progress, name) for name in (GOOD, BAD))
        sites, snapshots = self._counts(progress.batchId)
        self._events += events
        self._dead += dead
        self._snapshots += snapshots
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        states = progress.stateOperators
        return Metrics(
            batch=progress.batchId,
            at=progress.timestamp,
            events=events,
            dead_letters=dead,
            seconds=seconds,
            events_a_second=round((events + dead) / seconds, 1) if seconds else 0.0,
            watermark=progress.eventTime.get("watermark"),
            states=sum(state.numRowsTotal for state in states),
            state_bytes=sum(state.memoryUsedBytes for state in states),
            sites=sites,
            snapshots=self._snapshots,
            all_events=self._events,
            all_dead_letters=self._dead,
        )


def _observed(progress: Any, name: str) -> int:
    row = progress.observedMetrics.get(name)
    return 0 if row is None else int(row["n"])
