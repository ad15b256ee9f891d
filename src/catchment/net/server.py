"""The coordinator's end: sites open streams, each is let in by its identity, a newer one takes the older's place."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from typing import Any

import grpc

from catchment.errors import BytesError, UnreachableError
from catchment.monitor.wire import LARGEST_FRAME
from catchment.net.address import Address
from catchment.net.doorman import Doorman
from catchment.net.health import HEALTH_METHODS, NOT_SERVING, SERVING, HealthReply, HealthRequest
from catchment.net.identity import SITE_METADATA, Certificates
from catchment.net.link import ACCEPTED, CONNECT, SERVICE, Keepalive, server_options
from catchment.net.mailbox import Inbox, Limits, Mailbox

__all__ = ["Server"]

_LOG = logging.getLogger(__name__)


class Server:
    """The network of a coordinator; a `Link`.

    - `listen`: where; port 0 chooses one, and `port` says which.
    - `sites`: who may connect.
    - `certificates`: those of the coordinator; None is development mode, on a loopback address only.
    """

    def __init__(
        self,
        listen: Address,
        sites: Collection[str],
        certificates: Certificates | None = None,
        *,
        limits: Limits | None = None,
        keepalive: Keepalive | None = None,
    ) -> None:
        if certificates is None:
            listen.check_loopback()
        self.counts: Counter[str] = Counter()
        limits = limits or Limits()
        self.inbox = Inbox(limits)
        self.serving = False
        self._listen = listen
        self._outboxes = {name: Mailbox(limits) for name in sites}
        self._streams: dict[str, _Stream] = {}
        self._doorman = Doorman(listen, certificates, self.counts) if certificates else None
        self._keepalive = keepalive or Keepalive()
        self._server: Any = None
        self.port = listen.port

    @property
    def connected(self) -> list[str]:
        """The sites whose streams are open."""
        return sorted(self._streams)

    async def start(self) -> None:
        self._server = grpc.aio.server(options=server_options(self._keepalive))
        self._server.add_generic_rpc_handlers(self._handlers())
        inner = Address("127.0.0.1", 0) if self._doorman else self._listen
        try:
            self.port = self._server.add_insecure_port(str(inner))
        except RuntimeError:  # gRPC does not say why
            raise UnreachableError(
                f"cannot listen on {inner}: another process does, or this one may not, or it is not of this machine",
                "choose another address, or stop who has it",
            ) from None
        await self._server.start()
        if self._doorman:
            self._doorman.start(self.port)
            self.port = self._doorman.port
        self.serving = True

    def send(self, to: str, frame: bytes) -> None:
        outbox = self._outboxes.get(to)
        if outbox is None:
            self.counts["unknown_peer"] += 1
            _LOG.error("a frame for %r, who is none of the sites", to)
        elif len(frame) > LARGEST_FRAME:
            self.counts["oversize"] += 1
            _LOG.error("a frame of %d bytes for %s: %d are the most", len(frame), to, LARGEST_FRAME)
        else:
            self.counts["dropped_out"] += outbox.put(frame)

    async def stop(self, grace: float) -> None:
        self.serving = False
        for outbox in self._outboxes.values():
            outbox.close()
        streams = list(self._streams.values())
        if streams:
            await asyncio.wait([stream.gone for stream in streams], timeout=grace)
        for stream in streams:
            stream.end(grpc.StatusCode.UNAVAILABLE, "the coordinator stops")
        if self._server is not None:
            await self._server.stop(1.0)
        if self._doorman:
            await self._doorman.stop()

    # -- calls ------------------------------------------------------------------------------------------------

    def _handlers(self) -> tuple[Any, ...]:
        # No serializers: gRPC hands over the bytes as they are.
        handlers: dict[str, dict[str, Any]] = {SERVICE: {CONNECT: grpc.stream_stream_rpc_method_handler(self._connect)}}
        for service, method in HEALTH_METHODS:
            handlers.setdefault(service, {})[method] = grpc.unary_unary_rpc_method_handler(self._health)
        return tuple(grpc.method_handlers_generic_handler(service, methods) for service, methods in handlers.items())

    async def _health(self, request: bytes, context: Any) -> bytes:
        try:
            service = HealthRequest.from_bytes(request).service
        except BytesError as problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
        if service not in ("", SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {service!r}: ask for {SERVICE}, or for none")
        return HealthReply(status=SERVING if self.serving else NOT_SERVING).to_bytes()

    async def _connect(self, _: Any, context: Any) -> None:
        name = await self._admit(context)
        stream = _Stream(self._outboxes[name])
        older = self._streams.get(name)
        self._streams[name] = stream
        self.counts["connected"] += 1
        if older is not None:
            self.counts["replaced"] += 1
            _LOG.info("%s has connected again: its older stream is closed", name)
            older.end(grpc.StatusCode.ABORTED, "a newer connection has taken the place of this one")
        _LOG.info("%s is connected", name)
        try:
            await context.send_initial_metadata(((ACCEPTED, "1"),))
            await self._talk(name, stream, context)
        finally:
            stream.gone.set_result(None)
            if self._streams.get(name) is stream:
                del self._streams[name]
                _LOG.info("%s is disconnected", name)
        if stream.ended.done():
            await context.abort(*stream.ended.result())

    async def _talk(self, name: str, stream: _Stream, context: Any) -> None:
        work: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._read(name, context)),
            asyncio.ensure_future(_write(stream.outbox, context)),
        ]
        try:
            await asyncio.wait([*work, stream.ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _read(self, name: str, context: Any) -> None:
        while (frame := await context.read()) is not grpc.aio.EOF:
            self.counts["dropped_in"] += self.inbox.put(name, frame)

    async def _admit(self, context: Any) -> str:
        """The site behind a call; a call of anyone else ends here."""
        peer = context.peer()
        if self._doorman is None:
            said = dict(context.invocation_metadata() or ()).get(SITE_METADATA)
            name = said if isinstance(said, str) else None
        elif not self._doorman.knows(peer):
            name = None
        else:
            name = self._doorman.name_of(peer)
        if name is not None and name in self._outboxes:
            return name
        self.counts["refused"] += 1
        who = "it names no site" if name is None else f"{name!r} is none of the sites"
        _LOG.warning("refused %s: %s", peer, who)
        code = grpc.StatusCode.UNAUTHENTICATED if name is None else grpc.StatusCode.PERMISSION_DENIED
        await context.abort(code, f"{who}: add it to `sites` of the coordinator, or use another certificate")
        raise AssertionError("abort raises")


class _Stream:
    """One open stream of a site."""

    def __init__(self, outbox: Mailbox) -> None:
        self.outbox = outbox
        self.ended: asyncio.Future[tuple[Any, str]] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, code: Any, why: str) -> None:
        if not self.ended.done():
            self.ended.set_result((code, why))


async def _write(outbox: Mailbox, context: Any) -> None:
    while (frame := await outbox.next()) is not None:
        await context.write(frame)
