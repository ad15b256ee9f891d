"""Helpers for tests that run an event loop of their own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np

from catchment.net.address import Address
from catchment.net.client import Backoff, Client
from catchment.net.disk import Disk
from catchment.net.driver import Driver
from catchment.net.source import Batch
from catchment.net.source.base import BadLines

HERE = Address("127.0.0.1", 0)
QUICK = Backoff(first=0.02, most=0.2, steady=1.0)


async def until(true: Callable[[], Any], seconds: float = 180.0, what: str = "") -> None:
    """Wait until something is so."""
    end = asyncio.get_running_loop().time() + seconds
    while not true():
        assert asyncio.get_running_loop().time() < end, f"not within {seconds} s: {what or true}"
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(machine: Any, link: Any, folder: Path, **more: Any) -> AsyncIterator[Driver]:
    """A driver that runs, and is stopped at the end; what it fails with is raised."""
    with Disk(folder) as disk:
        driver = Driver(machine, link, disk, grace=2.0, **more)
        task = asyncio.ensure_future(driver.run())
        try:
            yield driver
        finally:
            driver.stop()
            await task


def client(name: str, port: int, **more: Any) -> Client:
    return Client(name, Address("127.0.0.1", port), backoff=QUICK, **more)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class Numbers:
    """A source of the integers from 0 on; a `Source`."""

    replayable = True

    def __init__(self, events: int, batch: int = 100, pause: float = 0.0) -> None:
        self.bad = BadLines()
        self._events, self._batch, self._at, self._pause = events, batch, 0, pause
        self._stopped = False

    def start(self, position: int, marks: bytes = b"") -> None:
        self._at = position

    def next(self) -> Batch | None:
        if self._stopped or self._at >= self._events:
            return None
        time.sleep(self._pause)
        keys = np.arange(self._at, min(self._at + self._batch, self._events))
        self._at += keys.size
        return Batch(keys, None, self._at)

    def marks(self) -> bytes:
        return b""

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None: ...
