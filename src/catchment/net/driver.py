"""Driver: runs one machine between a network, a disk and a source, with the clock of this computer.

It keeps the promise that machines build on: a `Send` after a `Persist` leaves only when the blob is durable. Blobs are
written in another thread, so that the loop goes on; whatever the machine asks for meanwhile waits behind them, in
order, and the blobs among it are made durable in one round.

A frame that the machine cannot read (`BytesError`) is counted and dropped. Any other exception of the machine ends the
driver: it knows no more what it would be promising. What was asked for before is still carried out. A source that fails
ends it too, but as a stop does: what it gave until then is good, and is made durable first. Otherwise a later life
would begin from an older state, and might read another file from its first byte in place of the one that was refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from catchment.errors import BytesError, CatchmentError
from catchment.monitor.machine import Action, Machine, Persist, Received, Send, Stopping, Tick
from catchment.net.disk import Disk
from catchment.net.link import Link
from catchment.net.source.base import Batch, Source

__all__ = ["MARKS", "Driver", "milliseconds"]

_LOG = logging.getLogger(__name__)

MARKS = "source.marks"
"""The driver's own blob, beside those of the machine: what helps its source to find a position."""

_FRAMES = 64
"""Frames in a row, before the clock and the source have their turn."""

_BEHIND = 64
"""Blobs that may wait for the disk before the driver takes nothing in; frames then push out older ones."""


def milliseconds() -> int:
    """The time that machines are given: it never runs backwards within one life."""
    return time.monotonic_ns() // 1_000_000


class Driver:
    """Runs a machine until it is told to stop, the machine fails, or `done` says so.

    - `source`: of a site, already started; its batches reach the machine as `as_event(batch)`.
    - `done`: asked after each round of events, and every `look` seconds if nothing happens; the driver stops when it
      is true.
    - `started`: called when the network is up.
    - `grace`: seconds that waiting frames have to leave at the end.

    `counts` has `frames`, `malformed`, `ticks`, `batches`, `events`, `persists` and `rounds` (of the disk).
    """

    def __init__(
        self,
        machine: Machine,
        link: Link,
        disk: Disk,
        *,
        source: Source | None = None,
        as_event: Callable[[Batch], Any] = lambda batch: batch,
        done: Callable[[], bool] = lambda: False,
        started: Callable[[], None] = lambda: None,
        clock: Callable[[], int] = milliseconds,
        grace: float = 5.0,
        look: float | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.source_ended = False
        self._machine, self._link, self._disk, self._source = machine, link, disk, source
        self._as_event, self._done, self._started = as_event, done, started
        self._clock, self._grace, self._look = clock, grace, look
        self._wake = asyncio.Event()
        self._stopping = False
        self._batch: Batch | None = None
        self._batch_taken = asyncio.Event()
        self._end_told = False
        self._waiting: deque[Action] = deque()
        self._blobs_waiting = 0
        self._persist_asked = asyncio.Event()
        self._marks = b""
        self._threads = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("disk", "source")}

    def stop(self) -> None:
        """End `run` soon, cleanly; to be called from the event loop."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Run; raise what made it fail."""
        self._link.inbox.wake = self._wake.set
        work: list[asyncio.Future[None]] = []
        try:
            await self._link.start()
            self._started()
            work.append(asyncio.ensure_future(self._make_durable()))
            if self._source is not None:
                work.append(asyncio.ensure_future(self._feed(self._source)))
            for task in work:
                task.add_done_callback(lambda _: self._wake.set())
            await self._turns(work)
            if self._source is not None:
                self._take_batch()  # one that was read ahead may be the last that there is
                self._carry_out(self._machine.handle(Stopping(), self._clock()))
                _raise_failure(work)
        except CatchmentError:
            raise  # it says itself what is wrong, and what to do
        except Exception:
            _LOG.exception("stopping, because this went wrong")
            raise
        finally:
            await self._end(work)
        _raise_failure(work[:1])  # the disk may have failed at the very last blob

    # -- turns ------------------------------------------------------------------------------------------------

    async def _turns(self, work: list[asyncio.Future[None]]) -> None:
        while not self._stopping:
            self._wake.clear()
            _raise_failure(work[:1])  # of the disk
            if work[-1].done():
                return  # the source has failed
            busy = False
            if self._blobs_waiting < _BEHIND:
                busy = self._take_tick() | self._take_frames() | self._take_batch() | self._take_end()
            if self._done():
                return
            if busy:
                await asyncio.sleep(0)
            else:
                await self._pause()

    async def _pause(self) -> None:
        due = self._machine.due
        waits = [] if due is None else [max(due - self._clock(), 1) / 1000]
        waits += [] if self._look is None else [self._look]
        try:
            await asyncio.wait_for(self._wake.wait(), min(waits, default=None))
        except TimeoutError:
            return

    def _take_tick(self) -> bool:
        due = self._machine.due
        if due is None or self._clock() < due:
            return False
        self.counts["ticks"] += 1
        self._carry_out(self._machine.handle(Tick(), self._clock()))
        return True

    def _take_frames(self) -> bool:
        for taken in range(_FRAMES):
            found = self._link.inbox.take()
            if found is None:
                return taken > 0
            self.counts["frames"] += 1
            try:
                actions = self._machine.handle(Received(*found), self._clock())
            except BytesError as problem:
                self._malformed(found[0], problem)
            else:
                self._carry_out(actions)
        return True

    def _malformed(self, sender: str, problem: BytesError) -> None:
        self.counts["malformed"] += 1
        times = self.counts["malformed"]
        if times <= 10 or times % 1000 == 0:
            _LOG.warning("a frame of %s cannot be read, number %d of such: %s", sender, times, problem)

    def _take_batch(self) -> bool:
        if self._batch is None:
            return False
        batch, self._batch = self._batch, None
        self._batch_taken.set()
        self.counts["batches"] += 1
        self.counts["events"] += len(batch)
        self._carry_out(self._machine.handle(self._as_event(batch), self._clock()))
        return True

    def _take_end(self) -> bool:
        """Tell the machine that its source has ended, once: a site may stay for days after that."""
        if self._end_told or not self.source_ended:
            return False
        self._end_told = True
        self._carry_out(self._machine.handle(Stopping(), self._clock()))
        return True

    async def _feed(self, source: Source) -> None:
        """Keep one batch ready: the next is read while the machine is at this one, and no more."""
        loop = asyncio.get_running_loop()
        while (batch := await loop.run_in_executor(self._threads["source"], source.next)) is not None:
            self._batch_taken.clear()
            self._batch = batch
            self._wake.set()
            await self._batch_taken.wait()
        self.source_ended = True
        if not self._stopping:
            _LOG.info("the source has ended after %d events", self.counts["events"])
            self._wake.set()
            await asyncio.get_running_loop().create_future()  # until the driver ends

    # -- actions ----------------------------------------------------------------------------------------------

    def _carry_out(self, actions: list[Action]) -> None:
        if self._source is not None and any(isinstance(action, Persist) for action in actions):
            marks = self._source.marks()
            if marks != self._marks:
                self._marks = marks
                self._wait_for(Persist(MARKS, marks))  # first, so that no position is durable without them
        for action in actions:
            if isinstance(action, Send) and not self._waiting:
                self._link.send(action.to, action.frame)
            else:
                self._wait_for(action)

    def _wait_for(self, action: Action) -> None:
        self._waiting.append(action)
        if isinstance(action, Persist):
            self._blobs_waiting += 1
            self.counts["persists"] += 1
        self._persist_asked.set()

    async def _make_durable(self) -> None:
        while True:
            await self._persist_asked.wait()
            await self._round()

    async def _round(self) -> None:
        """Make the blobs that wait now durable, and let go what waited for them."""
        actions = list(self._waiting)
        blobs = [action for action in actions if isinstance(action, Persist)]
        await asyncio.get_running_loop().run_in_executor(self._threads["disk"], self._disk.write, blobs)
        self.counts["rounds"] += 1
        for action in actions:
            self._waiting.popleft()  # only now: until here whatever came had to stay behind them
            if isinstance(action, Send):
                self._link.send(action.to, action.frame)
        self._blobs_waiting -= len(blobs)
        if not self._waiting:
            self._persist_asked.clear()
        self._wake.set()

    async def _end(self, work: list[asyncio.Future[None]]) -> None:
        self._stopping = True
        if self._source is not None:
            self._source.stop()
        while self._waiting and work and not work[0].done():  # the first makes durable
            await asyncio.wait(work[:1], timeout=0.01)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self._link.stop(self._grace)
        for threads in self._threads.values():
            await asyncio.get_running_loop().run_in_executor(None, threads.shutdown)
        if self._source is not None:
            self._source.close()
            self._source.bad.sum_up()


def _raise_failure(work: list[asyncio.Future[None]]) -> None:
    for task in work:
        if task.done() and not task.cancelled():
            task.result()
