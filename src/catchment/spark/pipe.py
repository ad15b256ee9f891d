"""A bounded queue between a thread that writes and one that reads; either may break it off, nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Pipe", "TooLateError"]

Item = TypeVar("Item")


class TooLateError(Exception):
    """Nothing came before the deadline."""


class Pipe(Generic[Item]):
    """At most `depth` items wait: a slow reader slows the writer.

    >>> pipe = Pipe(depth=2)
    >>> pipe.put("a"), pipe.put("b"), pipe.end()
    (True, True, None)
    >>> [pipe.take(), pipe.take(), pipe.take()]
    ['a', 'b', None]
    """

    def __init__(self, depth: int) -> None:
        self._items: deque[Item] = deque()
        self._depth = depth
        self._changed = threading.Condition()
        self._ended = False
        self._broken = False
        self._problem: BaseException | None = None

    @property
    def broken(self) -> bool:
        """Whether it was broken off."""
        return self._broken

    def put(self, item: Item) -> bool:
        """Wait for room, then put; False if nobody reads any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._broken or len(self._items) < self._depth)
            if self._broken:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def end(self, problem: BaseException | None = None) -> None:
        """No more will come; the reader gets the problem after what came before it."""
        with self._changed:
            self._ended = True
            self._problem = self._problem or problem
            self._changed.notify_all()

    def break_off(self, problem: BaseException | None = None) -> None:
        """Release both sides now: the writer's `put` gives False, the reader gets the problem and no more items."""
        with self._changed:
            self._broken = self._ended = True
            self._items.clear()
            self._problem = self._problem or problem
            self._changed.notify_all()

    def take(self, deadline: float | None = None) -> Item | None:
        """The next item, None at the end; the writer's problem is raised here, `TooLateError` at `time.monotonic()`."""
        with self._changed:
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._changed.wait_for(lambda: self._items or self._ended, patience):
                raise TooLateError
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            if self._problem is not None:
                raise self._problem
            return None
