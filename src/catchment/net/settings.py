"""Settings of a site and of a coordinator, TOML, read and checked: what is wrong is named with its line and its cure.

A site:

    [site]
    name = "berlin"
    coordinator = "example.org:7433"
    state = "state"                     # a folder of its own, where it keeps what must outlive a crash

    [tls]                               # or development = true under [site], on loopback addresses only
    authority = "authority.pem"
    certificate = "berlin.pem"
    key = "berlin.key"

    [source]
    format = "csv"                      # csv, json (lines) or wc98
    path = "events.csv"                 # or connect = "host:port", or stdin = true
    key = "url"
    time = "at"
    idle = "5 seconds"                  # silent for so long, its time goes on by the clock on the wall, so far behind

A coordinator:

    [coordinator]
    listen = "0.0.0.0:7433"
    sites = ["berlin", "paris"]
    state = "state"
    lease = "30 seconds"                # a site that is silent for longer is named as missing

    [tls]                               # as above

Both may have [queue] with `frames` and `bytes`, the most that waits for or from one peer, and `grace`, how long a stop
waits for frames to leave. Paths are relative to the file's folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catchment.errors import CatchmentError, IdentityError
from catchment.monitor.wire import LARGEST_FRAME
from catchment.net.address import Address
from catchment.net.identity import Certificates, check_site_name, name_in_pem
from catchment.net.mailbox import Limits
from catchment.net.source.base import Source
from catchment.net.source.decoders import INTEGER, ISO, TEXT, TICKS, Csv, Decoder, Fields, JsonLines, WebLog
from catchment.net.source.feeds import Feed, FileFeed, SocketFeed, StreamFeed
from catchment.net.source.reader import IdleClock, Reader
from catchment.window.settings_file import open_settings
from catchment.window.settings_tables import Table

__all__ = ["CoordinatorSettings", "SiteSettings", "SourceSettings", "read_coordinator", "read_site"]

_TABLES = ("tls", "queue")
_FORMATS = ("csv", "json", "wc98")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where a site's events come from: one of `path`, `connect` and neither, which is the standard input."""

    format: str
    fields: Fields
    path: Path | None = None
    connect: Address | None = None
    follow: bool = False
    columns: tuple[str, ...] = ()
    separator: str = ","
    batch: int = 50_000
    idle: int | None = None
    """Microseconds of silence after which time goes on by the clock on the wall; None: never."""
    stream: int = 0
    """Which of two streams its events are, for inner products: 0 is the first."""

    def build(self) -> Source:
        """The source, not yet started; errors name what is missing."""
        idle = None if self.idle is None else IdleClock(self.idle, self.fields.tick)
        return Reader(self._feed(), self._decoder(), batch=self.batch, idle=idle)

    @property
    def may_fall_silent(self) -> bool:
        """Whether more may come though nothing is there."""
        return self.follow or self.path is None

    def _feed(self) -> Feed:
        if self.path is not None:
            return FileFeed(self.path, follow=self.follow)
        return StreamFeed() if self.connect is None else SocketFeed(self.connect)

    def _decoder(self) -> Decoder:
        if self.format == "csv":
            return Csv(self.fields, columns=self.columns, separator=self.separator)
        if self.format == "json":
            return JsonLines(self.fields)
        return WebLog(self.fields.key, tick=self.fields.tick)


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """A site, as its file describes it. `more` has the tables that whoever asked for it reads himself."""

    name: str
    coordinator: Address
    state: Path
    certificates: Certificates | None
    source: SourceSettings
    limits: Limits
    grace: float
    more: dict[str, list[Table]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """A coordinator, as its file describes it; `lease` in milliseconds."""

    listen: Address
    sites: tuple[str, ...]
    state: Path
    lease: int
    certificates: Certificates | None
    limits: Limits
    grace: float
    more: dict[str, list[Table]] = field(default_factory=dict, compare=False, repr=False)


def read_site(file: Path, *, also: tuple[str, ...] = ()) -> SiteSettings:
    """The site of a file; `also` are names of further arrays of tables, which are handed on as they are in `more`.

    Raises
    ------
    SettingsError
        with the file, the line, the value and the cure.
    NameNotFoundError
        There is no such file.
    """
    whole = open_settings(file, what="a site", cure="write one: docs/monitoring.md shows how")
    whole.only("site", "source", *_TABLES, *also)
    table = whole.table("site", needed=True)
    name = _checked(table, "name", check_site_name)
    coordinator = _checked(table, "coordinator", Address.parse, cure='write coordinator = "host:7433"')
    state = file.parent / table.text("state", cure='write state = "state", a folder of its own')
    certificates = _certificates(whole, table, coordinator, "coordinator", file.parent)
    table.finish()
    if certificates is not None:
        _check_certificate(whole.table("tls"), certificates, name)
    limits, grace = _queue(whole.table("queue"))
    source = _source(whole.table("source", needed=True), file.parent)
    more = {other: whole.tables(other) for other in also}
    return SiteSettings(name, coordinator, state, certificates, source, limits, grace, more)


def read_coordinator(file: Path, *, also: tuple[str, ...] = (), starts: bool = True) -> CoordinatorSettings:
    """The coordinator of a file; otherwise as `read_site`.

    Certificates are checked if it `starts`: whoever only asks for its claims needs none.
    """
    whole = open_settings(file, what="a coordinator", cure="write one: docs/monitoring.md shows how")
    whole.only("coordinator", *_TABLES, *also)
    table = whole.table("coordinator", needed=True)
    listen = _checked(table, "listen", Address.parse, cure='write listen = "127.0.0.1:7433"')
    sites = table.texts("sites", cure='write sites = ["berlin", "paris"], the names in their certificates')
    for site in sites:
        table.places.checked((*table.path, "sites"), lambda site=site: check_site_name(site))  # type: ignore[misc]
    if not sites or len(set(sites)) < len(sites):
        raise table.error("sites", f"sites = {list(sites)}", "name at least one site, and each once")
    state = file.parent / table.text("state", cure='write state = "state", a folder of its own')
    lease = table.duration("lease", "30 seconds", least=1_000_000) // 1000
    certificates = _certificates(whole, table, listen, "listen", file.parent)
    table.finish()
    if certificates is not None and starts:
        whole.places.checked(("tls",), lambda: certificates.check(server=True))
    limits, grace = _queue(whole.table("queue"))
    more = {other: whole.tables(other) for other in also}
    return CoordinatorSettings(listen, sites, state, lease, certificates, limits, grace, more)


def _checked(table: Table, name: str, check: Callable[[str], Any], *, cure: str = "") -> Any:
    value = table.text(name, cure=cure)
    return table.places.checked((*table.path, name), lambda: check(value))


def _certificates(whole: Table, table: Table, address: Address, key: str, folder: Path) -> Certificates | None:
    """Those of [tls]; None in development mode, which must be asked for and keeps to this machine."""
    development = table.truth("development", False)
    if development == whole.has("tls"):
        problem = "development = true and [tls]" if development else "no [tls]"
        cure = "name certificates under [tls], or write development = true to go without on this machine; not both"
        raise table.error("development", problem, cure)
    if development:
        table.places.checked((*table.path, key), address.check_loopback)
        return None
    tls = whole.table("tls")
    found = Certificates(*(folder / tls.text(name) for name in ("authority", "certificate", "key")))
    tls.finish()
    return found


def _check_certificate(tls: Table, certificates: Certificates, name: str) -> None:
    def check() -> None:
        certificates.check(server=False)
        named = name_in_pem(certificates.certificate)
        if named != name:
            raise IdentityError(
                f"the certificate is that of {named!r}, not of {name!r}", "name the certificate of this site"
            )

    try:
        check()
    except CatchmentError as problem:
        raise tls.error("certificate", problem.problem, problem.cure) from problem


def _queue(table: Table) -> tuple[Limits, float]:
    frames = table.whole("frames", Limits().frames, low=1, high=1_000_000)
    size = table.whole("bytes", Limits().bytes, low=1, high=64 * LARGEST_FRAME)
    grace = table.duration("grace", "5 seconds") / 1_000_000
    table.finish()
    return Limits(frames, size), grace


def _source(table: Table, folder: Path) -> SourceSettings:
    chosen = table.choice("format", _FORMATS)
    path, connect = table.text("path", None), table.text("connect", None)
    stdin = table.truth("stdin", False)
    if sum((path is not None, connect is not None, stdin)) != 1:
        cure = 'write one of path = "events.csv", connect = "host:9000" and stdin = true'
        raise table.error("format", "no place or more than one place that events come from", cure)
    follow = path is not None and table.truth("follow", False)
    fields, columns, separator = _fields(table, chosen)
    if chosen == "csv" and connect is not None and not columns:
        raise table.error("connect", "a socket without the names of its columns", 'write columns = ["url", "at"]')
    batch = table.whole("batch", 50_000, low=1, high=10_000_000)
    if chosen == "wc98" and table.has("idle"):
        raise table.error("idle", "idle for a log of 1998", "leave it out: its windows would be empty by today's clock")
    idle = _idle(table, fields, silent=follow or path is None)
    stream = table.whole("stream", 0, low=0, high=1)
    table.finish()
    address = (
        None if connect is None else table.places.checked((*table.path, "connect"), lambda: Address.parse(connect))
    )
    where = None if path is None else folder / path
    settings = SourceSettings(chosen, fields, where, address, follow, columns, separator, batch, idle, stream)
    table.places.checked(table.path, settings.build)
    return settings


def _idle(table: Table, fields: Fields, *, silent: bool) -> int | None:
    idle: int | None = table.duration("idle", None, least=fields.tick)
    if idle is not None and fields.time is None:
        raise table.error("idle", "idle without a time", 'name the field: time = "at", ticks since 1970 or ISO times')
    if idle is not None and not silent:
        raise table.error("idle", "idle for a file that is read once", "write follow = true, or leave idle out")
    return idle


def _fields(table: Table, chosen: str) -> tuple[Fields, tuple[str, ...], str]:
    key = table.text("key", cure='write key = "url", the field that is counted')
    tick = table.duration("tick", "1 second", least=1)
    if chosen == "wc98":
        return Fields(key, tick=tick), (), ","
    fields = Fields(
        key,
        table.text("time", None),
        table.choice("key_type", (TEXT, INTEGER), TEXT),
        table.choice("time_format", (TICKS, ISO), TICKS),
        tick,
    )
    if chosen == "json":
        return fields, (), ","
    columns = table.texts("columns", cure='write columns = ["url", "at"], the names of all columns, in order')
    return fields, columns, table.text("separator", ",")
