"""Owner: what the coordinator's part in a query may know of the coordinator."""

from __future__ import annotations

from typing import Protocol

from catchment.monitor.traffic import Traffic

__all__ = ["Owner"]


class Owner(Protocol):
    """The coordinator that a query is a part of; `epoch` is its life, `lease` and `resend` are milliseconds."""

    traffic: Traffic
    epoch: int
    lease: int
    resend: int
