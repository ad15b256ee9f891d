"""The door stops cleanly, whatever it was doing."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import warnings
from collections import Counter
from typing import Any

import pytest

from catchment.monitor.machine import COORDINATOR
from catchment.net.address import Address
from catchment.net.certificates import make_certificates
from catchment.net.doorman import Doorman
from catchment.net.identity import Certificates
from tests.net.loop import until


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificates]:
    return make_certificates(tmp_path_factory.mktemp("pki"), ["127.0.0.1"], ["a"])


def shown(made: dict[str, Certificates]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=made["a"].authority)
    context.load_cert_chain(made["a"].certificate, made["a"].key)
    return context


async def turns_of_the_loop(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def left(turns: int, door: Doorman, joined: asyncio.Queue[asyncio.StreamWriter], context: ssl.SSLContext) -> None:
    """A caller is joined to the server behind the door and leaves; the door stops `turns` of the loop later."""
    _, caller = await asyncio.open_connection("127.0.0.1", door.port, ssl=context)
    inner = await joined.get()
    inner.transport.abort()
    await turns_of_the_loop(turns)
    await door.stop()
    caller.transport.abort()


async def came(turns: int, door: Doorman, _: asyncio.Queue[asyncio.StreamWriter], context: ssl.SSLContext) -> None:
    """A caller begins to come; the door stops `turns` of the loop later, before, in or after the handshake."""
    calling = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", door.port, ssl=context))
    await turns_of_the_loop(turns)
    await door.stop()
    await asyncio.wait([calling])
    if calling.exception() is None:
        calling.result()[1].transport.abort()


async def was_silent(turns: int, door: Doorman, _: asyncio.Queue[asyncio.StreamWriter], __: ssl.SSLContext) -> None:
    """A caller connects and says nothing."""
    with socket.create_connection(("127.0.0.1", door.port)):
        await turns_of_the_loop(turns)
        await door.stop()


@pytest.mark.parametrize("caller", [left, came, was_silent])
def test_a_stop_closes_every_connection_whatever_a_caller_does(caller: Any, made: dict[str, Certificates]) -> None:
    async def play(turns: int) -> None:
        joined: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

        async def behind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            joined.put_nowait(writer)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(behind, "127.0.0.1", 0)
        door = Doorman(Address("127.0.0.1", 0), made[COORDINATOR], Counter())
        door.start(server.sockets[0].getsockname()[1])
        await caller(turns, door, joined, shown(made))
        server.close()
        await server.wait_closed()

    lost: list[str] = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error", ResourceWarning)
        gc.collect()
        gc.freeze()  # what the tests before have left is not looked through each time
        patch.setattr("sys.unraisablehook", lambda problem: lost.append(str(problem.exc_value)))
        for turns in range(30):
            asyncio.run(play(turns))
            gc.collect()
        gc.unfreeze()
    assert not lost


def test_callers_beyond_the_limit_wait_and_then_come_in(
    made: dict[str, Certificates], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.net.doorman._WAITING", 2)

    async def play() -> None:
        joined: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_server(lambda _, writer: joined.put_nowait(writer), "127.0.0.1", 0)
        counts: Counter[str] = Counter()
        door = Doorman(Address("127.0.0.1", 0), made[COORDINATOR], counts)
        door.start(server.sockets[0].getsockname()[1])
        silent = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(2)]
        await until(lambda: door._entering == 2)
        calling = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", door.port, ssl=shown(made)))
        await asyncio.sleep(0.2)
        assert not calling.done()
        for one in silent:
            one.close()
        _, caller = await calling
        inner = await joined.get()
        assert counts["refused"] == 2
        for writer in (inner, caller):
            writer.transport.abort()
        await door.stop()
        server.close()
        await server.wait_closed()

    asyncio.run(play())
