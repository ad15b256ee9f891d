"""Timed traces for experiments: three formats, known by their content, and seeded streams that are shaped like them."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import InputError, NameNotFoundError
from catchment.kernel.wc98 import LOGGED, RECORD

I64 = NDArray[np.int64]

WC98, CAIDA = "wc98", "caida"

KNOWN = (
    "give a WC98 sample (CSV with timestamp and objectID, sorted or not), a NetFlow (CSV with StartTime and SrcAddr), "
    "or raw WC98 records of 20 bytes; the CSVs and the records may be gzipped"
)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Events in the order of their time, each with a key, and a server where the trace tells it."""

    name: str
    like: str
    """The data set of the ECM papers whose numbers stand beside ours."""
    tick: str
    keys: I64
    at: I64
    servers: I64 | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.keys.size

    @property
    def window(self) -> int:
        """A quarter of the time that the trace covers, as in the 2015 paper: 23 of 92 days."""
        return max(1, int(self.at[-1] - self.at[0] + 1) // 4)

    def first(self, events: int) -> Trace:
        """The first so many events."""
        part = slice(events)
        servers = None if self.servers is None else self.servers[part]
        return replace(self, keys=self.keys[part], at=self.at[part], servers=servers)

    def sites(self, count: int, *, seed: int = 0, at_random: bool = False) -> tuple[I64, str]:
        """A site for each event, and how it was chosen: from the servers where there are enough, or at random."""
        if self.servers is not None and not at_random:
            names, ranks = np.unique(self.servers, return_inverse=True)
            if names.size >= count:
                return ranks % count, f"{self.name}: its {names.size} servers are dealt out to {count} sites."
        drawn = np.random.default_rng([seed, count]).integers(0, count, len(self))
        return drawn, f"{self.name}: the site of each event is drawn at random; it is no part of the trace."


# -- files ----------------------------------------------------------------------------------------------------


def load(path: Path) -> Trace:
    """The trace in that file; its content says which format it is."""
    if not path.is_file():
        raise NameNotFoundError(f"no file {path}", KNOWN)
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as problem:
            raise InputError(f"{path} is a damaged gzip file ({problem})", "fetch it again") from None
    names = content[: content.find(b"\n") + 1].decode("ascii", errors="replace").strip().split(",")
    if {"timestamp", "objectID"} <= set(names):
        trace = _web_sample(path, content)
    elif {"StartTime", "SrcAddr"} <= set(names):
        trace = _netflow(path, content)
    else:
        trace = _web_records(path, content)
    order = np.argsort(trace.at, kind="stable")
    servers = None if trace.servers is None else trace.servers[order]
    return replace(trace, keys=trace.keys[order], at=trace.at[order], servers=servers)


def _web_sample(path: Path, content: bytes) -> Trace:
    rows, notes = _events(path, content, "objectID", "timestamp")
    try:
        keys, at = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    except (ValueError, OverflowError) as problem:
        raise InputError(f"{path}: {problem}", "timestamp and objectID are whole numbers: repair the file") from None
    return Trace(f"WC98 sample {path.name}", WC98, "second", keys, at, notes=notes)


def _netflow(path: Path, content: bytes) -> Trace:
    rows, notes = _events(path, content, "SrcAddr", "StartTime")
    numbers: dict[str, int] = {}
    keys = np.array([numbers.setdefault(address, len(numbers)) for address, _ in rows], dtype=np.int64)
    try:
        stamps = np.array([start.replace("/", "-") for _, start in rows], dtype="datetime64[us]")
    except ValueError as problem:
        raise InputError(f"{path}: {problem}", "StartTime is like 2011/08/16 10:01:46.972101") from None
    if np.isnat(stamps).any():
        raise InputError(f"{path}: an event without a time", "StartTime is like 2011/08/16 10:01:46.972101")
    return Trace(f"NetFlow {path.name}", CAIDA, "microsecond", keys, stamps.astype(np.int64), notes=notes)


def _events(path: Path, content: bytes, key: str, time: str) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """The key and the time of every event that has a key, and a note if there were others."""
    every = list(_columns(path, content, key, time))
    kept = [row for row in every if row[0]]
    if not kept:
        raise InputError(f"{path} has a header and no events", KNOWN)
    left_out = len(every) - len(kept)
    return kept, (f"{path.name}: {left_out} events without {key} are left out.",) if left_out else ()


def _columns(path: Path, content: bytes, first: str, second: str) -> Iterator[tuple[str, str]]:
    """Two columns of a CSV, a row at a time."""
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace", newline=""))
    header = next(lines)
    one, two = header.index(first), header.index(second)
    for row in lines:
        if row and len(row) <= max(one, two):
            raise InputError(
                f"{path}: line {lines.line_num} has {len(row)} fields, not {len(header)}", "fetch the file again"
            )
        if row:
            yield row[one], row[two]


def _web_records(path: Path, content: bytes) -> Trace:
    if not content or len(content) % RECORD.itemsize:
        raise InputError(f"{path} is no trace that is known here", KNOWN)
    records = np.frombuffer(content, dtype=RECORD)
    at = records["at"].astype(np.int64)
    if at.min() < LOGGED[0] or at.max() > LOGGED[1]:
        raise InputError(f"{path} is no trace that is known here", KNOWN)
    servers = records["server"].astype(np.int64)
    return Trace(f"WC98 records {path.name}", WC98, "second", records["object"].astype(np.int64), at, servers)


# -- streams that are shaped like them ------------------------------------------------------------------------


def web_like(events: int, *, seed: int = 0) -> Trace:
    """A day of requests: zipf(1.1) over 30,000 objects, seconds as ticks, five times as busy at four as at night.

    The log's own head is flatter: the most wanted object of a day has a few hundredths of the requests, not a seventh.
    """
    rng = np.random.default_rng([seed, 1998])
    seconds = np.arange(86_400)
    rate = 1 + (2 / 3) * np.cos((seconds / 86_400 - 16 / 24) * 2 * np.pi)
    at = np.sort(_drawn(rate, events, rng)) + 893_973_600
    return Trace("like WC98 (seeded)", WC98, "second", _zipf(1.1, 30_000, events, rng), at)


def flow_like(events: int, *, seed: int = 0) -> Trace:
    """Two hours of flows: zipf(1.2) over 70,000 addresses in trains of one address, microseconds as ticks."""
    rng = np.random.default_rng([seed, 2011])
    trains = rng.geometric(0.4, events)
    keys = np.repeat(_zipf(1.2, 70_000, events, rng), trains)[:events]
    at = np.sort(rng.integers(0, 7_200_000_000, events))
    return Trace("like NetFlow (seeded)", CAIDA, "microsecond", keys, at)


def _zipf(skew: float, universe: int, events: int, rng: np.random.Generator) -> I64:
    return _drawn(np.arange(1, universe + 1) ** -skew, events, rng)


def _drawn(odds: NDArray[np.floating[Any]], events: int, rng: np.random.Generator) -> I64:
    return np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(events))


def chosen(data: Path | None, events: int, *, quick: bool) -> list[Trace]:
    """The trace that the user gave, its beginning if it must be quick; without one, both seeded streams."""
    if data is None:
        return [web_like(events), flow_like(events)]
    trace = load(data)
    return [trace.first(events) if quick else trace]


def described(trace: Trace) -> str:
    """What a report says of a trace."""
    return (
        " ".join(trace.notes)
        + " " * bool(trace.notes)
        + (
            f"{trace.name}: {len(trace):,} events, {np.unique(trace.keys).size:,} keys, "
            f"a window of {trace.window:,} {trace.tick}s; the paper's column is for its {trace.like}."
        )
    )
