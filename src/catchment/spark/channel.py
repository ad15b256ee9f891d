"""The one channel for all traffic with a micro-cloud: every message is weighed as it crosses, and has a time limit.

Spark Connect's own client is used as it is; it is given a gRPC channel that stands before the real one. So the books
have what was sent and received, to the byte: whole messages with their five bytes of framing, plans and progress
included. Not in them are the headers of HTTP/2 and TLS, some dozens of bytes a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.connect.client import DefaultChannelBuilder

from catchment.federation.cloud import Errand
from catchment.federation.settings import CloudSettings, is_loopback

__all__ = ["Account", "ChannelOfOurs", "accounted", "arrow_chunks"]

_FRAME = 5
"""Bytes that gRPC puts before a message: a flag and the length."""

_SECONDS = {
    # A statement has the deadline of its reader, who gives up and interrupts it: these two streams stay open as long.
    "ExecutePlan": None,
    "ReattachExecute": None,
    "AnalyzePlan": 120.0,  # may list the files of a table
    "AddArtifacts": 600.0,
}
_OTHERWISE = 15.0
"""Seconds that any other call may take, those to connect included: it asks for little."""

CHUNK_ROWS = 65_536
CHUNK_BYTES = 4 << 20
"""A chunk of rows that are sent: about four megabytes before compression, so that neither side holds much at once."""


@dataclass(slots=True, eq=False)
class Account:
    """What one errand moves to and from one cloud; `rows` go with the next plan that is sent."""

    cloud: str
    errand: Errand
    rows: int = 0
    calls: list[Any] = field(default_factory=list)

    def enter(self, message: Any, *, outward: bool) -> None:
        rows = 0
        if outward and message.DESCRIPTOR.name == "ExecutePlanResponse" and message.HasField("arrow_batch"):
            rows = message.arrow_batch.row_count if not message.arrow_batch.chunk_index else 0
        elif not outward and message.DESCRIPTOR.name == "ExecutePlanRequest":
            rows, self.rows = self.rows, 0
        size = message.ByteSize() + _FRAME
        self.errand.ledger.add(self.cloud, self.errand.purpose, outward=outward, size=size, rows=rows)

    def hang_up(self) -> None:
        """End the streams that are open; whoever reads one gets an error."""
        for call in self.calls:
            call.cancel()


_current: ContextVar[Account | None] = ContextVar("account", default=None)


@contextmanager
def accounted(account: Account | None) -> Iterator[None]:
    """Whatever this thread sends in here, and what comes back, is for this account."""
    token = _current.set(account)
    try:
        yield
    finally:
        _current.reset(token)


class ChannelOfOurs(DefaultChannelBuilder):
    """Builds the channel to one cloud. TLS and token as its settings say; on this machine a token goes without TLS."""

    def __init__(self, settings: CloudSettings) -> None:
        # Spark sends a token without TLS to the host of this one name only.
        host = "localhost" if is_loopback(settings.host) and not settings.tls else settings.host
        super().__init__(f"sc://{host}:{settings.port}")
        if settings.token is not None:
            self.set(self.PARAM_TOKEN, settings.token)
        if settings.tls:
            self.set(self.PARAM_USE_SSL, "true")
        # A cloud that was restarted is found again within a second or two, not after gRPC's two minutes.
        self.setChannelOption("grpc.initial_reconnect_backoff_ms", 200)
        self.setChannelOption("grpc.max_reconnect_backoff_ms", 2_000)
        # Each cloud has a connection of its own; otherwise gRPC shares them between channels to one address.
        self.setChannelOption("grpc.use_local_subchannel_pool", 1)
        if is_loopback(settings.host):
            self.setChannelOption("grpc.enable_http_proxy", 0)

    def toChannel(self) -> Any:  # noqa: N802 (Spark's name)
        return _Weighed(super().toChannel())


class _Weighed:
    """A gRPC channel before another: calls get their time limit, messages are entered in their errand's account."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._operations: dict[str, Account] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self._channel.close()

    def unary_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        call = self._channel.unary_unary(method, **how)

        def ask(request: Any, **options: Any) -> Any:
            account = self._account(request)
            if account is not None:
                account.enter(request, outward=False)
            response = call(request, **options | {"timeout": _limit(method) or _OTHERWISE})
            if account is not None:
                account.enter(response, outward=True)
            return response

        return ask

    def unary_stream(self, method: str, **how: Any) -> Callable[..., Any]:
        call = self._channel.unary_stream(method, **how)

        def ask(request: Any, **options: Any) -> Any:
            account = self._account(request)
            answers = call(request, **options | {"timeout": _limit(method)})
            if account is None:
                return answers
            account.enter(request, outward=False)
            account.calls.append(answers)
            return _entered(answers, account, outward=True)

        return ask

    def stream_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        call = self._channel.stream_unary(method, **how)

        def ask(requests: Iterator[Any], **options: Any) -> Any:
            account = _current.get()
            sent = requests if account is None else _entered(requests, account, outward=False)
            response = call(sent, **options | {"timeout": _limit(method)})
            if account is not None:
                account.enter(response, outward=True)
            return response

        return ask

    def _account(self, request: Any) -> Account | None:
        """Of this thread; what Spark's client sends from threads of its own is known by the number of the operation."""
        account = _current.get()
        operation = getattr(request, "operation_id", "")
        if not operation:
            return account
        with self._lock:
            if account is not None:
                self._operations[operation] = account
                while len(self._operations) > 1_000:
                    del self._operations[next(iter(self._operations))]
            return account or self._operations.get(operation)


def _limit(method: str) -> float | None:
    return _SECONDS.get(method.rsplit("/", 1)[-1], _OTHERWISE)


def _entered(messages: Iterable[Any], account: Account, *, outward: bool) -> Iterator[Any]:
    for message in messages:
        account.enter(message, outward=outward)
        yield message


def arrow_chunks(rows: pa.Table) -> Iterator[bytes]:
    """Rows as Arrow streams of bounded size, one after the other, compressed with zstd, which Spark's server reads.

    Measured over 2 M rows of four columns, 70 MB: zstd makes 23 MB of it and is quicker than none, since fewer
    bytes are copied; lz4 in Java is slower by orders of magnitude, so nobody should choose it.
    """
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    # Rows of a megabyte make chunks of four rows, small ones of 65,536: the size of a chunk follows that of its rows.
    per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    step = max(1, min(CHUNK_ROWS, CHUNK_BYTES // per_row))
    for start in range(0, max(1, rows.num_rows), step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_table(rows.slice(start, step))
        yield sink.getvalue().to_pybytes()
