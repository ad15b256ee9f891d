"""A disk that keeps what was flushed, all of it, and can be set back to what it held before."""

from __future__ import annotations

import random
from collections import deque

from catchment.monitor.machine import Persist

__all__ = ["Disk"]

_STATES_KEPT = 64


class Disk:
    """The durable blobs of one node, the newest of each name, and the states before.

    >>> disk = Disk()
    >>> disk.flush(Persist("state", b"one"))
    >>> disk.flush(Persist("state", b"two"))
    >>> disk.set_back(random.Random(1)), disk.blobs
    (True, {'state': b'one'})
    """

    __slots__ = ("_states", "blobs")

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self._states: deque[dict[str, bytes]] = deque(maxlen=_STATES_KEPT)

    def flush(self, persist: Persist) -> None:
        # A new dict each time: those before are backups.
        self.blobs = {**self.blobs, persist.name: persist.blob}
        self._states.append(self.blobs)

    def set_back(self, rng: random.Random) -> bool:
        """Become one of the older states, never the empty one; False if there is none."""
        if len(self._states) < 2:
            return False
        at = rng.randrange(len(self._states) - 1)
        self.blobs = self._states[at]
        self._states = deque(list(self._states)[: at + 1], maxlen=_STATES_KEPT)
        return True
