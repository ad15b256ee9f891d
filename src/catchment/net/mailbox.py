"""Queues that cannot grow: what does not fit pushes out the oldest frame of the same peer.

That is the right one to lose. What machines say is cumulative, so a newer frame of a peer makes an older one needless,
and whatever is lost is said again; while a queue that makes its sender wait would let one slow site stop a coordinator.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from catchment.monitor.wire import LARGEST_FRAME

__all__ = ["Inbox", "Limits", "Mailbox"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that waits for or from one peer; the newest frame is kept even where it alone is more."""

    frames: int = 256
    bytes: int = LARGEST_FRAME


class Mailbox:
    """Frames for one peer, first in, first out.

    >>> box = Mailbox(Limits(frames=2))
    >>> box.put(b"a"), box.put(b"b"), box.put(b"c"), box.take(), len(box)
    (0, 0, 1, b'b', 1)
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._frames: deque[bytes] = deque()
        self.size = 0
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: bytes) -> int:
        """Add a frame; says how many older ones had to go."""
        self._frames.append(frame)
        self.size += len(frame)
        dropped = 0
        while len(self._frames) > 1 and (len(self._frames) > self._limits.frames or self.size > self._limits.bytes):
            self.size -= len(self._frames.popleft())
            dropped += 1
        self._wake.set()
        return dropped

    def take(self) -> bytes | None:
        """The oldest frame, or None."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self.size -= len(frame)
        return frame

    async def next(self) -> bytes | None:
        """The oldest frame, as soon as there is one; None when the box is closed and empty."""
        while (frame := self.take()) is None and not self._closed:
            self._wake.clear()
            await self._wake.wait()
        return frame

    def close(self) -> None:
        """Whoever takes the last frame is to leave."""
        self._closed = True
        self._wake.set()


class Inbox:
    """Frames from all peers, each with limits of its own; peers take turns, so that none can keep the others out."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._boxes: dict[str, Mailbox] = {}
        self._turns: deque[str] = deque()
        self.wake: Callable[[], None] = lambda: None
        """Called for each frame that comes in."""

    def __len__(self) -> int:
        return sum(map(len, self._boxes.values()))

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return sum(box.size for box in self._boxes.values())

    def put(self, sender: str, frame: bytes) -> int:
        """Add a frame; says how many older ones of that sender had to go."""
        box = self._boxes.get(sender)
        if box is None:
            box = self._boxes[sender] = Mailbox(self._limits)
        if not len(box):
            self._turns.append(sender)
        dropped = box.put(frame)
        self.wake()
        return dropped

    def take(self) -> tuple[str, bytes] | None:
        """The next sender's oldest frame, or None."""
        if not self._turns:
            return None
        sender = self._turns.popleft()
        box = self._boxes[sender]
        frame = box.take()
        assert frame is not None
        if len(box):
            self._turns.append(sender)
        return sender, frame
