"""Where TLS ends on the coordinator's side.

gRPC does mutual TLS too, but says nothing in Python about a handshake that failed: a site with an expired certificate
would be turned away again and again, and the coordinator would have neither a line in its log nor a count. So the
handshake is made here, by Python's own TLS, and what passes goes on to the gRPC server, which listens on a loopback
port and takes connections of the doorman only: a connection's port tells which site is behind it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter

from catchment.errors import IdentityError, UnreachableError
from catchment.net.address import Address
from catchment.net.identity import Certificates, name_in_certificate

__all__ = ["Doorman"]

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 18
_HANDSHAKE = 10.0
_WAITING = 128
"""Handshakes at a time: beyond, callers wait in the queue of the operating system."""


class Doorman:
    """Listens, checks certificates, and joins whoever passes to the server behind it."""

    def __init__(self, listen: Address, certificates: Certificates, counts: Counter[str]) -> None:
        self._listen, self._counts = listen, counts
        self._context = certificates.server_context()
        self._behind = 0
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._names: dict[int, str | None] = {}
        self._entering = 0
        self.port = listen.port

    def start(self, behind: int) -> None:
        """Open the door; `behind` is the loopback port of the gRPC server."""
        self._behind = behind
        family = socket.AF_INET6 if ":" in self._listen.host else socket.AF_INET
        try:
            self._listener = socket.create_server(
                (self._listen.host, self._listen.port), family=family, backlog=_WAITING
            )
        except OSError as problem:
            raise UnreachableError(
                f"cannot listen on {self._listen} ({problem.strerror})", "choose another address, or stop who has it"
            ) from None
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._open()

    async def stop(self) -> None:
        self._shut()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def knows(self, peer: str) -> bool:
        """Whether this peer of the gRPC server came through the door."""
        return _port(peer) in self._names

    def name_of(self, peer: str) -> str | None:
        """The site behind a peer; None if its certificate is of the authority and names no site."""
        return self._names.get(_port(peer))

    def _open(self) -> None:
        if self._listener is not None and self._entering < _WAITING:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _shut(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)

    def _accept(self) -> None:
        """Let one caller in, without a wait in which a stop could lose the socket."""
        assert self._listener is not None
        try:
            caller, address = self._listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:  # too many open files, or a caller who left: neither may close the door
            _LOG.warning("a connection could not be accepted: %s", problem)
            self._shut()
            asyncio.get_running_loop().call_later(0.1, self._open)
            return
        caller.setblocking(False)
        self._entering += 1
        if self._entering >= _WAITING:
            self._shut()
        task = asyncio.get_running_loop().create_task(self._enter(caller, f"{address[0]}:{address[1]}"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: caller.close())  # a stop may cancel it before it begins

    async def _enter(self, caller: socket.socket, address: str) -> None:
        entered: list[asyncio.StreamWriter] = []
        try:
            if (reader := await self._greet(caller, address, entered)) is not None:
                await self._join(reader, entered[0], address)
        finally:
            for writer in entered:  # also that of a handshake which was through when a stop cancelled the wait for it
                writer.transport.abort()

    async def _greet(
        self, caller: socket.socket, address: str, entered: list[asyncio.StreamWriter]
    ) -> asyncio.StreamReader | None:
        """The TLS handshake: once it is through, the connection is in `entered`; None if it failed."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader, lambda _, writer: entered.append(writer))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, caller, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE
            )
        except (ssl.SSLError, OSError) as problem:
            self._counts["refused"] += 1
            _LOG.warning("refused %s: %s", address, _said(problem))
            return None
        finally:
            self._entering -= 1
            if self._entering == _WAITING - 1:
                self._open()
        return reader

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        try:
            name = name_in_certificate(certificate)
        except IdentityError as problem:  # it may still ask for the server's health
            name = None
            _LOG.info("%s: %s", address, problem)
        inner = socket.socket()
        inner.setblocking(False)
        inner.bind(("127.0.0.1", 0))
        port = inner.getsockname()[1]
        self._names[port] = name
        try:
            await asyncio.get_running_loop().sock_connect(inner, ("127.0.0.1", self._behind))
            there, back = await asyncio.open_connection(sock=inner)
            ways = [asyncio.ensure_future(_copy(reader, back)), asyncio.ensure_future(_copy(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                back.transport.abort()  # before the wait: a stop may cancel that
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError as problem:
            _LOG.warning("%s was not joined to the server: %s", address, problem)
        finally:
            inner.close()
            del self._names[port]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


def _port(peer: str) -> int:
    """The port in gRPC's name of a peer, "ipv4:127.0.0.1:50123"."""
    host, _, port = peer.rpartition(":")
    return int(port) if host == "ipv4:127.0.0.1" and port.isdigit() else -1


def _said(problem: Exception) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({problem.verify_message})"
    if isinstance(problem, ssl.SSLError):
        return f"the TLS handshake failed ({(problem.reason or str(problem)).lower().replace('_', ' ')})"
    return f"it left during the TLS handshake ({str(problem) or type(problem).__name__})"
