"""Reading a file and sending its rows, at the same time and to all clouds at once, with little waiting in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Protocol

import pyarrow as pa

from catchment.federation.cloud import Column
from catchment.federation.load.dealing import Deal
from catchment.federation.load.staging import Stage

__all__ = ["Source", "gather"]

_AHEAD = 2
"""Parts that may wait for a cloud while more of the file is read."""


class Source(Protocol):
    """A file that gives its rows block by block."""

    @property
    def position(self) -> int: ...

    def tables(self, columns: tuple[Column, ...]) -> Iterator[pa.Table]: ...


def gather(
    source: Source,
    columns: tuple[Column, ...],
    stages: Sequence[Stage | None],
    share: Callable[[int], None],
    stop: Callable[[], None],
) -> None:
    """Deal the rows of a file over stages, and make sure that all are there; None is a cloud that has its part already.

    Each cloud has a thread of its own. The first error, an interruption too, ends the reading and calls `stop`; it is
    raised when all threads have ended.
    """
    deal = Deal(len(stages))
    with ExitStack() as ends:
        crews = [_Crew(ends.enter_context(ThreadPoolExecutor(1))) for _ in stages]
        ends.push(lambda kind, *_: stop() if kind is not None else None)
        for table in source.tables(columns):
            for stage, part, crew in zip(stages, deal(table), crews, strict=True):
                if stage is not None:
                    crew.give(partial(stage.add, part))
            share(source.position)
        for stage, crew in zip(stages, crews, strict=True):
            if stage is not None:
                crew.give(stage.check)
        for crew in crews:
            crew.end()


class _Crew:
    """A thread that does one thing after the other, and the first few that wait for it."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._waiting: deque[Future[None]] = deque()

    def give(self, work: Callable[[], None]) -> None:
        while len(self._waiting) >= _AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(work))

    def end(self) -> None:
        while self._waiting:
            self._waiting.popleft().result()
