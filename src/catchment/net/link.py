"""What a driver needs of a network, and what both ends of it must agree on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

from catchment.monitor.wire import LARGEST_FRAME
from catchment.net.mailbox import Inbox

__all__ = ["ACCEPTED", "CONNECT", "SERVICE", "Keepalive", "Link", "client_options", "server_options"]

SERVICE = "catchment.v1.Catchment"
CONNECT = "Connect"
ACCEPTED = "catchment-accepted"
"""The key in the first metadata from the coordinator: from then on the stream counts as open."""

_ENVELOPE = 64
"""What gRPC puts around a frame, with room to spare."""


class Link(Protocol):
    """The network as one machine sees it.

    `counts` has, as they occur: `connected`, `replaced` (by a newer stream of the site), `lost` (connections that
    ended by themselves), `refused` (by this end, or of this end), `unreachable` (attempts), `dropped_in` and
    `dropped_out` (pushed out of a full queue), `oversize` and `unknown_peer` (frames that could never leave).
    """

    counts: Counter[str]
    inbox: Inbox

    async def start(self) -> None: ...

    def send(self, to: str, frame: bytes) -> None:
        """Queue a frame; never waits, never fails. It may be lost."""
        ...

    async def stop(self, grace: float) -> None:
        """Give what waits up to `grace` seconds to leave, then close."""
        ...


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Seconds between pings, until an unanswered one ends the connection, and the least that a server puts up with.

    gRPC's defaults do not fit together: clients do not ping, and a server takes a client that pings more often than
    every five minutes for an attacker and hangs up. So both ends take theirs from here.
    """

    every: float = 30.0
    timeout: float = 10.0
    least: float = 20.0


def client_options(keepalive: Keepalive) -> list[tuple[str, Any]]:
    return [
        *_common(keepalive),
        ("grpc.enable_retries", 0),  # a stream is not retried by gRPC: the client does it, with a backoff of its own
        ("grpc.use_local_subchannel_pool", 1),  # a new attempt must not inherit gRPC's backoff from the one before
    ]


def server_options(keepalive: Keepalive) -> list[tuple[str, Any]]:
    return [
        *_common(keepalive),
        ("grpc.http2.min_ping_interval_without_data_ms", int(keepalive.least * 1000)),
        ("grpc.so_reuseport", 0),  # a second coordinator at the address must fail, not share its sites
    ]


def _common(keepalive: Keepalive) -> list[tuple[str, Any]]:
    return [
        ("grpc.keepalive_time_ms", int(keepalive.every * 1000)),
        ("grpc.keepalive_timeout_ms", int(keepalive.timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_receive_message_length", LARGEST_FRAME + _ENVELOPE),
        ("grpc.max_send_message_length", LARGEST_FRAME + _ENVELOPE),
    ]
