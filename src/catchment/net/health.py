"""Health: whether a server is up, in the shape of gRPC's standard health check, so that any probe can ask."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.monitor.wire import TEXT, UINT, Message, wire

__all__ = ["HEALTH_METHODS", "NOT_SERVING", "SERVING", "HealthReply", "HealthRequest"]

SERVING, NOT_SERVING = 1, 2

HEALTH_METHODS = (("catchment.v1.Catchment", "Health"), ("grpc.health.v1.Health", "Check"))
"""The same answer under our name and under the standard's."""


@dataclass(frozen=True, slots=True)
class HealthRequest(Message):
    """Asks whether the server is up."""

    service: str = wire(
        1, TEXT, "Which service is meant: catchment.v1.Catchment, or empty for all; others are not found."
    )


@dataclass(frozen=True, slots=True)
class HealthReply(Message):
    """Says whether the server is up."""

    status: int = wire(1, UINT, "1: up. 2: stopping, or not up yet.")
