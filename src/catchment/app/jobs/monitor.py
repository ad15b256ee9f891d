"""Runs a coordinator or a site from its file of settings."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from catchment.app.jobs.claims import CLAIMS, Teller
from catchment.app.watch_tables import AnyWatch, read_watches
from catchment.errors import IdentityError, ParameterError
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.quantities import InnerProduct
from catchment.monitor.set_aside import set_aside
from catchment.monitor.site import Arrived, Leave, Site
from catchment.net.driver import Driver
from catchment.net.run import run_coordinator, run_site
from catchment.net.settings import CoordinatorSettings, read_coordinator, read_site
from catchment.net.source.base import Batch, Source

__all__ = ["as_event", "check_stream", "start_coordinator", "start_site"]

_LOG = logging.getLogger(__name__)

SUPERSEDED = 78
"""The exit code of a site whose name another process has: EX_CONFIG of sysexits.h, for supervisors to tell it apart."""


def start_coordinator(file: Path, *, every: float, heartbeat: float) -> int:
    """Run until it is told to stop; the exit code. `heartbeat` is that of sites which are not told of another."""
    settings = read_coordinator(file, also=("watch",))
    watches = read_watches(settings.more["watch"])
    _log()
    if settings.lease < 2000 * heartbeat:
        _LOG.warning(
            "a lease of %g seconds, where sites report every %g seconds if nothing happens: they will be missing in "
            "between. Start them with a --heartbeat of a third of the lease, or give a longer one",
            settings.lease / 1000, heartbeat,
        )  # fmt: skip
    teller = Teller(watches, len(settings.sites), settings.state / CLAIMS, every)
    refusals = _Refusals()
    told: list[Coordinator] = []

    def build(blobs: dict[str, bytes]) -> Coordinator:
        _say_what_is_set_aside(watches, settings, blobs)
        life = time.time_ns() // 1000  # a disk may be older than the last life
        told.append(Coordinator(tuple(watches.values()), settings.sites, blobs=blobs, life=life, lease=settings.lease))
        return told[0]

    def look(machine: Any, _: Driver) -> bool:
        teller.look(machine)
        refusals.look(machine)
        return False

    def greet() -> None:
        print(f"listening on {settings.listen} for {', '.join(settings.sites)}", flush=True)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a key that the terminal cannot show must not end it all
    code = run_coordinator(settings, build, done=look, look=every, started=greet)
    if code == 0:
        teller.tell(told[0])  # what was heard last
    return code


def start_site(file: Path, *, once: bool, heartbeat: float, keep: int, keep_every: float) -> int:
    """Run until it is told to stop, or until the source has ended; the exit code."""
    settings = read_site(file, also=("watch",))
    watches = tuple(read_watches(settings.more["watch"], source=settings.source).values())
    timed = any(watch.window is not None for watch in watches)
    _log()
    source = settings.source
    if timed and source.may_fall_silent and source.idle is None and source.format != "wc98":
        _LOG.warning('while this source is silent its windows stand still: write idle = "5 seconds" under [source]')

    running: list[Site] = []

    def build(blobs: dict[str, bytes]) -> Site:
        # In microseconds: of two processes that begin under one name, at a boot say, one must be the later.
        life = time.time_ns() // 1000
        try:
            site = Site(
                settings.name, watches, blobs=blobs, life=life, heartbeat=int(heartbeat * 1000), keep=keep,
                keep_every=int(keep_every * 1000),
            )  # fmt: skip
        except ParameterError as problem:
            raise ParameterError(f"{problem.problem} in {settings.state}", problem.cure) from problem
        running.append(site)
        return site

    oddities = _Oddities()

    def done(machine: Any, _: Driver) -> bool:
        oddities.look(machine)
        return bool(machine.gone or machine.superseded)

    event = partial(as_event, timed=timed, stream=check_stream(source.stream, watches))
    events: Source = source.build()
    if once:
        events = _Ending(events)
    code = run_site(settings, build, events, as_event=event, done=done)
    if code == 0 and running[0].superseded:
        _LOG.error("%s", _superseded(settings.name))
        return SUPERSEDED
    return code


def _say_what_is_set_aside(
    watches: dict[str, AnyWatch], settings: CoordinatorSettings, blobs: dict[str, bytes]
) -> None:
    names = {watch.number: name for name, watch in watches.items()}
    for number, sites in set_aside(watches.values(), settings.sites, blobs).items():
        _LOG.warning(
            "the watch %r has changed: what %s holds for it of %s is not used. Sites that run tell it anew; for one "
            "that has left, start it again or bring the watch back as it was",
            names[number], settings.state, ", ".join(sites),
        )  # fmt: skip


def _superseded(name: str) -> IdentityError:
    return IdentityError(
        f"another process speaks as site {name!r}, and began later than this one",
        "give each site its own name; start this one again when the other has stopped. If there is no other, the state "
        "of this site was lost and its clock is behind that of an earlier start: give it another name",
    )


def check_stream(stream: int, watches: Iterable[AnyWatch]) -> int:
    """Which stream a site's events are of; the second is for watches of two streams only."""
    if stream and not all(isinstance(watch, InnerProduct) for watch in watches):
        raise ParameterError(
            f"stream = {stream} under [source] with a watch of one stream",
            "watch nothing but inner products where some sites have the second stream",
        )
    return stream


def as_event(batch: Batch, *, timed: bool, stream: int) -> Arrived | Leave:
    """What a batch of the source is to the site; times are for windows."""
    if batch.time is not None:
        return Arrived(time=batch.time) if timed else Arrived()
    return Arrived(batch.keys, times=batch.times if timed else None, stream=stream) if len(batch) else Leave()


class _Refusals:
    """Logs why a site's reports are refused, once for each reason."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def look(self, machine: Coordinator) -> None:
        for site, reason in machine.refusals.items():
            if self._said.get(site) != reason:
                self._said[site] = reason
                _LOG.warning(
                    "what %s reports is refused: %s. Give it the same [[watch]] tables as the coordinator, in the same "
                    "order, and the same version of catchment", site, reason,
                )  # fmt: skip


class _Ending:
    """A source that says, by an empty batch, that it has ended."""

    def __init__(self, source: Source) -> None:
        self._source, self._position, self._said = source, 0, False
        self.bad = source.bad

    @property
    def replayable(self) -> bool:
        return self._source.replayable

    def start(self, position: int, marks: bytes = b"") -> None:
        self._position = position
        self._source.start(position, marks)

    def next(self) -> Batch | None:
        batch = self._source.next()
        if batch is not None:
            self._position = batch.position
        elif not self._said:
            self._said = True
            return Batch((), None, self._position)
        return batch

    def marks(self) -> bytes:
        return self._source.marks()

    def stop(self) -> None:
        self._said = True
        self._source.stop()

    def close(self) -> None:
        self._source.close()


class _Oddities:
    """Logs times that emptied a site's windows, and events that came too late for them: the first, then by tens."""

    def __init__(self) -> None:
        self._next = {"jumps": 1, "too_late": 1}

    def look(self, site: Site) -> None:
        for name, words in (
            ("jumps", "times went ahead by more than a window, %d times so far: is one of them wrong? now it is %d"),
            ("too_late", "%d events so far were older than the window at %d, and are in none"),
        ):
            count = getattr(site, name)
            if count >= self._next[name]:
                _LOG.warning(words, count, site.time)
                self._next[name] = 10 * count


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
