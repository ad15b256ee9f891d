"""Start a site or a coordinator: settings and a machine in, an exit code out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from typing import Any, Protocol

from catchment.errors import CatchmentError
from catchment.monitor.machine import Machine
from catchment.net.client import Client
from catchment.net.disk import Disk
from catchment.net.driver import MARKS, Driver
from catchment.net.server import Server
from catchment.net.settings import CoordinatorSettings, SiteSettings
from catchment.net.source.base import Batch, Source

__all__ = ["SiteMachine", "coordinator_driver", "run_coordinator", "run_site", "site_driver"]

_LOG = logging.getLogger(__name__)

Blobs = dict[str, bytes]


class SiteMachine(Machine, Protocol):
    """A machine that takes events, and knows how many it has taken."""

    @property
    def position(self) -> int: ...


def run_site(
    settings: SiteSettings,
    machine_factory: Callable[[Blobs], SiteMachine],
    source: Source | None = None,
    *,
    as_event: Callable[[Batch], Any] = lambda batch: batch,
    done: Callable[[SiteMachine, Driver], bool] = lambda *_: False,
) -> int:
    """Run a site until it is told to stop (SIGINT, SIGTERM), `done` is true or something fails.

    - `machine_factory`: makes the machine from the blobs that were durable; where its `position` is, the source begins.
    - `source`: instead of the one in the settings.
    - `as_event`: what the machine is handed for a batch.
    - `done`: asked after each round of events.

    Gives 0, or 1 if something failed, which is then in the log.
    """

    async def run() -> None:
        with Disk(settings.state) as disk:
            await _run(site_driver(settings, disk, machine_factory, source, as_event=as_event, done=done))

    return _exit_code(run)


def run_coordinator(
    settings: CoordinatorSettings,
    machine_factory: Callable[[Blobs], Machine],
    *,
    done: Callable[[Machine, Driver], bool] = lambda *_: False,
    look: float | None = None,
    started: Callable[[], None] = lambda: None,
) -> int:
    """Run a coordinator; otherwise as `run_site`.

    - `look`: `done` is asked after so many seconds as well.
    - `started`: called when it listens.
    """

    async def run() -> None:
        with Disk(settings.state) as disk:
            await _run(coordinator_driver(settings, disk, machine_factory, done=done, look=look, started=started))

    return _exit_code(run)


def site_driver(
    settings: SiteSettings,
    disk: Disk,
    machine_factory: Callable[[Blobs], SiteMachine],
    source: Source | None = None,
    *,
    as_event: Callable[[Batch], Any] = lambda batch: batch,
    done: Callable[[SiteMachine, Driver], bool] = lambda *_: False,
) -> Driver:
    """The driver of a site, for an event loop that is there already."""
    blobs = disk.read()
    marks = blobs.pop(MARKS, b"")
    machine = machine_factory(blobs)
    source = settings.source.build() if source is None else source
    source.start(machine.position, marks)
    if not source.replayable:
        _LOG.warning("this source cannot be read again: what is not yet durable when the site crashes is lost")
    link = Client(settings.name, settings.coordinator, settings.certificates, limits=settings.limits)
    driver = Driver(
        machine, link, disk, source=source, as_event=as_event, grace=settings.grace, done=lambda: done(machine, driver)
    )
    return driver


def coordinator_driver(
    settings: CoordinatorSettings,
    disk: Disk,
    machine_factory: Callable[[Blobs], Machine],
    *,
    done: Callable[[Machine, Driver], bool] = lambda *_: False,
    look: float | None = None,
    started: Callable[[], None] = lambda: None,
) -> Driver:
    """The driver of a coordinator, for an event loop that is there already."""
    machine = machine_factory(disk.read())
    link = Server(settings.listen, settings.sites, settings.certificates, limits=settings.limits)
    driver = Driver(
        machine, link, disk, grace=settings.grace, done=lambda: done(machine, driver), look=look, started=started
    )
    return driver


async def _run(driver: Driver) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):  # not in the main thread
            loop.add_signal_handler(number, driver.stop)
    await driver.run()


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        asyncio.run(run())
    except CatchmentError as problem:
        _LOG.error("%s", problem)
        return 1
    except Exception:
        _LOG.exception("stopped by an error")
        return 1
    return 0
