"""A site's end: it dials the coordinator, keeps one stream open, and dials again when that is lost."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import grpc

from catchment.errors import BytesError, UnreachableError
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.wire import LARGEST_FRAME
from catchment.net.address import Address
from catchment.net.health import HEALTH_METHODS, SERVING, HealthReply, HealthRequest
from catchment.net.identity import SITE_METADATA, Certificates, check_site_name
from catchment.net.link import ACCEPTED, CONNECT, SERVICE, Keepalive, client_options
from catchment.net.mailbox import Inbox, Limits, Mailbox

__all__ = ["Backoff", "Client", "check_health", "is_healthy"]

_LOG = logging.getLogger(__name__)
_CONNECT = f"/{SERVICE}/{CONNECT}"
_HEALTH = "/" + "/".join(HEALTH_METHODS[0])
_HUNG_UP = ("Socket closed", "reset by peer", "Broken pipe")
"""How gRPC tells that the other end has ended a TLS handshake, which is all that this end gets to know."""
_OTHER_AUTHORITY = ("signature failure", "unable to get local issuer", "self signed certificate", "self-signed")
"""How gRPC tells that a certificate was signed by somebody else."""
_RENEW = "remove it and its key for `catchment certificates` to make new"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait before dialling again: twice as many each time, and a random half of it, so that the sites of a
    coordinator that comes back do not all call at once. A connection that held for `steady` seconds begins anew.
    """

    first: float = 0.1
    most: float = 15.0
    steady: float = 5.0

    def delay(self, failures: int) -> float:
        return min(self.first * 2.0 ** min(failures, 30), self.most) * random.uniform(0.5, 1.0)


class Client:
    """The network of a site; a `Link` with one peer, the coordinator.

    - `name`: what the site calls itself in development mode; with certificates its certificate counts, not this.
    - `certificates`: those of the site; None is development mode, to a loopback address only.
    - `deadline`: seconds for an attempt to connect.
    """

    def __init__(
        self,
        name: str,
        coordinator: Address,
        certificates: Certificates | None = None,
        *,
        limits: Limits | None = None,
        keepalive: Keepalive | None = None,
        backoff: Backoff | None = None,
        deadline: float = 10.0,
    ) -> None:
        if certificates is None:
            coordinator.check_loopback()
        self.name = check_site_name(name)
        self.counts: Counter[str] = Counter()
        limits = limits or Limits()
        self.inbox = Inbox(limits)
        self.connected = self._stopping = False
        self._outbox = Mailbox(limits)
        self._coordinator, self._certificates = coordinator, certificates
        self._keepalive, self._backoff = keepalive or Keepalive(), backoff or Backoff()
        self._deadline = deadline
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, to: str, frame: bytes) -> None:
        if to != COORDINATOR:
            self.counts["unknown_peer"] += 1
            _LOG.error("a frame for %r: a site sends to the coordinator only", to)
        elif len(frame) > LARGEST_FRAME:
            self.counts["oversize"] += 1
            _LOG.error("a frame of %d bytes: %d are the most", len(frame), LARGEST_FRAME)
        else:
            self.counts["dropped_out"] += self._outbox.put(frame)

    async def stop(self, grace: float) -> None:
        self._stopping = True
        self._outbox.close()
        if self._task is None:
            return
        if self.connected:
            await asyncio.wait([self._task], timeout=grace)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- connections ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            since = time.monotonic()
            was = self.counts["connected"]
            try:
                await self._talk()
                why = "the coordinator has closed the stream"
            except _RefusedError as problem:
                self.counts["refused"] += 1
                why = f"refused: {problem}"
            except (grpc.aio.AioRpcError, OSError) as problem:  # among the latter those of identity and of time
                why = _said(problem)
            except Exception as problem:  # whatever gRPC may come up with, the site dials again
                _LOG.exception("the connection failed")
                why = f"{type(problem).__name__}: {problem}"
            if self._stopping:
                return
            held = self.counts["connected"] > was
            self.counts["lost" if held else "unreachable"] += 1
            failures = 0 if held and time.monotonic() - since >= self._backoff.steady else failures + 1
            delay = self._backoff.delay(failures - 1 if failures else 0)
            if not held:
                why = _explained(why, self._coordinator, self._certificates)
            _LOG.warning("%s to %s: %s; next attempt in %.1f s", self.name, self._coordinator, why, delay)
            await asyncio.sleep(delay)

    async def _talk(self) -> None:
        """Open a stream and move frames until it ends."""
        async with _channel(self._coordinator, self._certificates, self._keepalive) as channel:
            metadata = () if self._certificates else ((SITE_METADATA, self.name),)
            call = channel.stream_stream(_CONNECT)(metadata=metadata)
            try:
                await self._accepted(call)
                self.counts["connected"] += 1
                self.connected = True
                _LOG.info("%s is connected to %s", self.name, self._coordinator)
                await self._move(call)
            finally:
                self.connected = False
                call.cancel()

    async def _accepted(self, call: Any) -> None:
        # In a task of its own: a call that was cancelled over there raises CancelledError, as if this site stopped.
        first = asyncio.ensure_future(call.initial_metadata())
        await asyncio.wait([first], timeout=self._deadline)
        if not first.done():
            first.cancel()
            raise TimeoutError
        if first.cancelled() or first.exception() or ACCEPTED not in dict(first.result() or ()):
            await _raise_end(call)

    async def _move(self, call: Any) -> None:
        work = [asyncio.ensure_future(self._read(call)), asyncio.ensure_future(_write(self._outbox, call))]
        try:
            await asyncio.wait(work[:1])  # it ends when the call does, for whatever reason
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        await _raise_end(call)

    async def _read(self, call: Any) -> None:
        while (frame := await call.read()) is not grpc.aio.EOF:
            self.counts["dropped_in"] += self.inbox.put(COORDINATOR, frame)


class _RefusedError(Exception):
    """The coordinator does not want this site."""


async def _write(outbox: Mailbox, call: Any) -> None:
    while (frame := await outbox.next()) is not None:
        await call.write(frame)
    await call.done_writing()


async def _raise_end(call: Any) -> None:
    """Say how a call ended that ended otherwise than well."""
    code = await call.code()
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        raise _RefusedError(await call.details())
    if code is not grpc.StatusCode.OK:
        raise ConnectionError(f"{code.name.lower()}: {await call.details()}")
    raise ConnectionError("the coordinator has closed the stream")


def _said(problem: BaseException) -> str:
    if isinstance(problem, grpc.aio.AioRpcError):
        return f"{problem.code().name.lower()}: {problem.details()}"
    return str(problem) or "no answer in time"


def _explained(why: str, address: Address, certificates: Certificates | None) -> str:
    """What gRPC says of a connection that did not come about, in words that name what to mend."""
    if certificates is not None:
        if "Hostname Verification Check failed" in why:
            return (
                f"the coordinator's certificate is not for {address.host}: dial it as its certificate calls it, or "
                f"remove that and its key for `catchment certificates --host {address.host}` to make new"
            )
        if "handshake failed" in why and "certificate has expired" in why:
            return f"the coordinator's certificate has expired: {_RENEW}"
        if "handshake failed" in why and any(words in why for words in _OTHER_AUTHORITY):
            return f"the coordinator's certificate is of another authority than {certificates.authority}"
    if any(words in why for words in _HUNG_UP):
        if certificates is not None and certificates.expired:
            return f"{certificates.certificate} has expired: {_RENEW}"
        return f"{why} (if the coordinator refuses this site, its log says why)"
    return why


def _channel(address: Address, certificates: Certificates | None, keepalive: Keepalive) -> Any:
    options = client_options(keepalive)
    if certificates is None:
        return grpc.aio.insecure_channel(str(address), options=options)
    return grpc.aio.secure_channel(str(address), grpc.ssl_channel_credentials(*certificates.read()), options=options)


# -- health ---------------------------------------------------------------------------------------------------


async def check_health(address: Address, certificates: Certificates | None = None, *, deadline: float = 5.0) -> bool:
    """Whether the coordinator there is up; `UnreachableError` if it does not answer in time."""
    if certificates is None:
        address.check_loopback()
    async with _channel(address, certificates, Keepalive()) as channel:
        try:
            reply = await channel.unary_unary(_HEALTH)(HealthRequest().to_bytes(), timeout=deadline)
            return HealthReply.from_bytes(reply).status == SERVING
        except grpc.aio.AioRpcError as problem:
            raise UnreachableError(f"{address} ({_said(problem)})", "see that the coordinator runs there") from None
        except BytesError as problem:
            raise UnreachableError(f"{address} is something else ({problem.problem})", "check the address") from None


def is_healthy(address: Address, certificates: Certificates | None = None, *, deadline: float = 5.0) -> bool:
    """`check_health` for those without an event loop: False also where nobody answers."""
    try:
        return asyncio.run(check_health(address, certificates, deadline=deadline))
    except UnreachableError:
        return False
