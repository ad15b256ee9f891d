"""What a protocol machine is: events in, actions out; no clock, no randomness, no socket inside.

A driver (`testing.network` with a virtual clock, `net` with a real one) owns a machine and calls `handle`. It carries
the actions out in the order of the list, and this is the one promise that machines build on: **a `Send` that comes
after a `Persist` leaves only when the blob is durable**. A driver may crash between any two actions. It then builds the
machine anew from the blobs that were durable, the newest of each name.

Time is an integer of milliseconds that never runs backwards within one life of a machine; machines compare only times
that their own driver gave them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["COORDINATOR", "NEVER", "Action", "Machine", "Persist", "Purpose", "Received", "Send", "Stopping", "Tick"]

COORDINATOR = "coordinator"
"""The name under which sites address the coordinator; no site may have it."""
NEVER = 1 << 60
"""A time that does not come."""


class Purpose:
    """Why bytes were sent, for the books."""

    DATA = "data"
    CONTROL = "control"
    RESEND = "resend"


@dataclass(frozen=True, slots=True)
class Send:
    """Give these bytes to a peer. They may be lost, doubled, late or out of order."""

    to: str
    frame: bytes
    purpose: str = Purpose.CONTROL


@dataclass(frozen=True, slots=True)
class Persist:
    """Keep this blob under this name, in place of the one before."""

    name: str
    blob: bytes


Action = Send | Persist


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes from a peer; who it is comes from the connection, never from the bytes."""

    sender: str
    frame: bytes


@dataclass(frozen=True, slots=True)
class Tick:
    """The time that `due` named has come; a machine must not mind a tick too many."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The driver of a site is told to stop, and carries out what comes back before it does; or its source has ended.

    Either way nothing may come for long: what is not durable should be.
    """


class Machine(Protocol):
    """A site, a coordinator or a peer."""

    @property
    def due(self) -> int | None:
        """When it wants a tick if nothing else happens; None: never."""
        ...

    def handle(self, event: Any, now: int) -> list[Action]:
        """Take an event in, of the kinds above or of the machine's own, and say what to do about it."""
        ...
