"""The door stops cleanly, whatever it was doing."""

from __future__ import annotations

import asyncio
import gc
import ssl
import warnings
from collections import Counter

import pytest

from catchment.monitor.machine import COORDINATOR
from catchment.net.address import Address
from catchment.net.certificates import make_certificates
from catchment.net.doorman import Doorman
from catchment.net.identity import Certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificates]:
    return make_certificates(tmp_path_factory.mktemp("pki"), ["127.0.0.1"], ["a"])


async def stopped_after(turns: int, made: dict[str, Certificates]) -> None:
    """A caller is joined to the server behind the door and leaves; the door stops `turns` of the loop later."""
    joined: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def behind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        joined.put_nowait(writer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(behind, "127.0.0.1", 0)
    door = Doorman(Address("127.0.0.1", 0), made[COORDINATOR], Counter())
    door.start(server.sockets[0].getsockname()[1])
    shown = ssl.create_default_context(cafile=made["a"].authority)
    shown.load_cert_chain(made["a"].certificate, made["a"].key)
    _, caller = await asyncio.open_connection("127.0.0.1", door.port, ssl=shown)
    inner = await joined.get()
    inner.transport.abort()
    for _ in range(turns):
        await asyncio.sleep(0)
    await door.stop()
    caller.transport.abort()
    server.close()
    await server.wait_closed()


def test_a_stop_while_a_caller_leaves_closes_every_connection(made: dict[str, Certificates]) -> None:
    async def play() -> None:
        for turns in range(30):
            await stopped_after(turns, made)
            gc.collect()

    lost: list[str] = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error", ResourceWarning)
        patch.setattr("sys.unraisablehook", lambda problem: lost.append(str(problem.exc_value)))
        asyncio.run(play())
    assert not lost
