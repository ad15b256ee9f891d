"""Runs a coordinator or a site from its file of settings."""

from __future__ import annotations

import io
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from catchment.answer import plain
from catchment.app.watch_tables import read_watches
from catchment.errors import NameNotFoundError, ParameterError
from catchment.monitor.coordinator import Claim, Coordinator
from catchment.monitor.items import Items, ItemsClaim
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.watch import InnerProduct, Watch
from catchment.net.driver import Driver
from catchment.net.run import run_coordinator, run_site
from catchment.net.settings import read_coordinator, read_site
from catchment.net.source.base import Batch, Source

__all__ = ["claim_line", "read_claims", "start_coordinator", "start_site"]

_LOG = logging.getLogger(__name__)

CLAIMS = "claims.json"
_ITEMS_SHOWN = 5
_ITEMS_KEPT = 10_000
"""The heaviest items of a set, in claims.json; how many more there are is said beside them."""


def start_coordinator(file: Path, *, every: float) -> int:
    """Run until it is told to stop; the exit code."""
    settings = read_coordinator(file, also=("watch",))
    watches = read_watches(settings.more["watch"])
    _log()
    teller = _Teller(watches, settings.state / CLAIMS, every)

    def build(blobs: dict[str, bytes]) -> Coordinator:
        life = int(time.time())  # a disk may be older than the last life
        return Coordinator(tuple(watches.values()), settings.sites, blobs=blobs, life=life, lease=settings.lease)

    def look(machine: Any, _: Driver) -> bool:
        teller.look(machine)
        return False

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a key that the terminal cannot show must not end it all
    print(f"listening on {settings.listen} for {', '.join(settings.sites)}", flush=True)
    return run_coordinator(settings, build, done=look)


def start_site(file: Path, *, once: bool, heartbeat: float, keep: int) -> int:
    """Run until it is told to stop, or until the source has ended; the exit code."""
    settings = read_site(file, also=("watch",))
    watches = tuple(read_watches(settings.more["watch"]).values())
    timed = any(watch.window is not None for watch in watches)
    _log()
    if timed and settings.source.may_fall_silent and settings.source.idle is None:
        _LOG.warning('while this source is silent its windows stand still: write idle = "5 seconds" under [source]')

    def build(blobs: dict[str, bytes]) -> Site:
        life = int(time.time())
        return Site(settings.name, watches, blobs=blobs, life=life, heartbeat=int(heartbeat * 1000), keep=keep)

    oddities = _Oddities()

    def done(machine: Any, _: Driver) -> bool:
        oddities.look(machine)
        return bool(machine.gone)

    event = partial(as_event, timed=timed, stream=check_stream(settings.source.stream, watches))
    source: Source = settings.source.build()
    if once:
        source = _Ending(source)
    return run_site(settings, build, source, as_event=event, done=done)


def check_stream(stream: int, watches: Iterable[Watch | Items]) -> int:
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


def read_claims(file: Path) -> str:
    """What the coordinator of this file claims, as JSON."""
    found = read_coordinator(file, also=("watch",)).state / CLAIMS
    if not found.exists():
        raise NameNotFoundError(f"no claims at {found}", "start catchment coordinator with this file first")
    return found.read_text()


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


class _Teller:
    """Prints claims that have changed, and keeps them in a file for others."""

    def __init__(self, watches: dict[str, Watch | Items], file: Path, every: float) -> None:
        self._watches, self._file, self._every = watches, file, every
        self._next = 0.0
        self._told: dict[str, Any] = {}

    def look(self, machine: Coordinator, clock: Callable[[], float] = time.monotonic) -> None:
        if clock() < self._next:
            return
        self._next = clock() + self._every
        now = {
            name: _shown(machine.items(watch.number) if isinstance(watch, Items) else machine.claim(watch.number))
            for name, watch in self._watches.items()
        }
        if now == self._told:
            return
        for name, claim in now.items():
            if claim != self._told.get(name):
                print(claim_line(name, claim), flush=True)
        self._told = now
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(now, indent=2, allow_nan=False))
        beside.replace(self._file)


def _shown(claim: Claim | ItemsClaim | None) -> dict[str, Any] | None:
    if claim is None:
        return None
    if isinstance(claim, ItemsClaim):
        whole = claim.to_dict()
        kept, left_out = whole["items"][:_ITEMS_KEPT], max(len(whole["items"]) - _ITEMS_KEPT, 0)
        return {**whole, "items": kept, "left_out": left_out}
    answer = claim.answer.to_dict()
    shown: dict[str, Any] = plain(
        {**answer, "cut": claim.cut, "left": claim.left, "state": claim.state, "round": claim.round}
    )
    return shown


def claim_line(name: str, claim: dict[str, Any] | None) -> str:
    if claim is None:
        return f"{name}: nothing yet"
    events = sum(position for position, _ in claim["cut"].values())
    missing = f", missing {', '.join(claim['missing'])}" if claim["missing"] else ""
    about = f"of {events:,} events at {len(claim['cut'])} sites{missing}"
    if "items" in claim:
        return f"{name}: {_item_words(claim)}, {about}"
    low, high = (f"{claim[end]:,.6g}" if claim[end] is not None else "∞" for end in ("low", "high"))
    return f"{name}: {claim['value']:,.6g} in [{low}, {high}], {about}"


def _item_words(claim: dict[str, Any]) -> str:
    """How many items, and the first of them; one that may be below the threshold has a question mark."""
    items = claim["items"]
    count = len(items) + claim.get("left_out", 0)
    first = [
        f"{_printable(item['key'])}{'' if item['certain'] else '?'} in [{item['low']:,}, {item['high']:,}]"
        for item in items[:_ITEMS_SHOWN]
    ]
    more = ["..."] if len(items) > _ITEMS_SHOWN else []
    listed = f": {', '.join(first + more)}" if items else ""
    return f"{count:,} {'item' if count == 1 else 'items'} from {claim['threshold']:,.6g} on{listed}"


def _printable(key: int | str) -> str:
    """A key as it may go to a terminal: whoever sent the traffic chose it."""
    text = str(key)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
