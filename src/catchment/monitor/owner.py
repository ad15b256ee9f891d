"""Owner: what a part in a query may know of the coordinator, or of the site, that it is a part of."""

from __future__ import annotations

from typing import Protocol

from catchment.monitor.traffic import Traffic

__all__ = ["Owner", "SiteOwner"]


class Owner(Protocol):
    """The coordinator that a query is a part of; `epoch` is its life, `lease` and `resend` are milliseconds.

    `settling` says after how many times the usual bytes a rule is chosen anew.
    """

    traffic: Traffic
    epoch: int
    lease: int
    resend: int
    settling: float


class SiteOwner(Protocol):
    """The site that a post is a part of; `heartbeat` and `resend` are milliseconds."""

    traffic: Traffic
    incarnation: int
    position: int
    time: int
    heartbeat: int
    resend: int
    part_bytes: int
