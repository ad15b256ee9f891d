"""What `catchment detect` does: heavy destinations over many sites in a sliding window, out of recorded flows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from catchment.app.report import Progress, Report, shown
from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.monitor import Arrived, Coordinator, Site
from catchment.monitor.heavy_hitters import Alarm, Detector, HeavyHitters
from catchment.testing.lockstep import Lockstep

__all__ = ["Detection", "detect_in", "read_flows", "run_detect", "to_json", "to_report"]

I64 = NDArray[np.int64]

_FLOW_BYTES = 8
_LEAST_PHI = 1e-06
_LEASE = 60_000
"""Milliseconds of recorded time; sites say at least every third of it how far they are."""

_STAMP = "StartTime is like 2011/08/16 10:01:46.972101"


@dataclass(frozen=True, slots=True)
class Detection:
    """What `detect_in` found, and what it cost."""

    alarms: tuple[Alarm, ...]
    events: int
    sites: tuple[str, ...]
    bytes: int
    messages: int
    rounds: int

    @property
    def over_forwarding(self) -> float:
        """Its bytes, over those of every target as it is hashed."""
        return self.bytes / (_FLOW_BYTES * self.events)


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Events in the order of their time: a target, a second and a site each."""

    targets: pa.Array
    at: I64
    sites: I64
    names: tuple[str, ...]


def read_flows(path: Path, *, key: str = "DstAddr", site: str | None = None, sites: int = 20, seed: int = 0) -> Flows:
    """Flows out of a CSV in the columns of CTU-13, plain or gzipped; rows without a target are left out.

    Sites are the values of the column `site`, or so many that are drawn at random for each flow.
    """
    if not path.is_file():
        raise NameNotFoundError(f"no file {path}", "give a NetFlow CSV with StartTime and DstAddr")
    wanted = ["StartTime", key, *([site] if site else [])]
    try:
        with pa.input_stream(str(path), compression="gzip" if _gzipped(path) else None) as stream:
            options = pacsv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=True
            )
            table = pacsv.read_csv(stream, convert_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as problem:
        raise InputError(f"{path}: {problem}", f"give a NetFlow CSV with {', '.join(wanted)}") from None
    table = table.filter(pc.is_valid(table[key]))
    if not table.num_rows:
        raise InputError(f"{path} has no flows with a {key}", "give another column by --key")
    at = _seconds(path, table["StartTime"])
    if site:
        labels = table[site].combine_chunks().fill_null("").dictionary_encode()
        names, chosen = tuple(labels.dictionary.to_pylist()), labels.indices.to_numpy()
    else:
        names = tuple(f"site {number:02}" for number in range(sites))
        chosen = np.random.default_rng([seed, sites]).integers(0, sites, table.num_rows)
    order = np.argsort(at, kind="stable")
    targets = table[key].combine_chunks().take(pa.array(order))
    return Flows(targets, at[order], chosen[order].astype(np.int64), names)


def _gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _seconds(path: Path, stamps: pa.ChunkedArray) -> I64:
    if stamps.null_count:
        raise InputError(f"{path}: a flow without a StartTime", _STAMP)
    try:
        text = pc.replace_substring(pc.utf8_trim_whitespace(stamps), "/", "-")
        times = pc.cast(text, pa.timestamp("us")).to_numpy()
    except pa.ArrowInvalid as problem:
        raise InputError(f"{path}: {problem}", _STAMP) from None
    return np.asarray(times.astype("datetime64[s]").astype(np.int64))


def detect_in(
    flows: Flows,
    watch: HeavyHitters,
    *,
    confidence: float = 0.0,
    step: int | None = None,
    progress: Progress = lambda *_: None,
) -> Detection:
    """Run the machines over flows in time order, `step` seconds at a time, with a perfect network between them.

    A step is a pane unless given: shorter ones notice sooner, within the pane, and take longer.
    """
    step = step or watch.pane
    coordinator = Coordinator((watch,), flows.names, lease=_LEASE)
    sites = {name: Site(name, (watch,), heartbeat=_LEASE // 3) for name in flows.names}
    network = Lockstep(coordinator, sites)
    detector = Detector(watch, len(flows.names), confidence=confidence)
    seconds = (flows.at - flows.at[0]) // step
    ends = [*(np.flatnonzero(np.diff(seconds)) + 1), flows.at.size]
    begin = 0
    for end in ends:
        until = int(flows.at[end - 1])
        for number, name in enumerate(flows.names):
            chosen = begin + np.flatnonzero(flows.sites[begin:end] == number)
            keys = flows.targets.take(pa.array(chosen)) if chosen.size else []
            network.give(name, Arrived(keys, times=flows.at[chosen], time=until))
        elapsed = (until - int(flows.at[begin])) + step if begin else step
        network.pass_time(min(1000 * elapsed, _LEASE))
        claim = coordinator.heavy_hitters(watch.number)
        assert claim is not None  # every site speaks when it begins
        detector.observe(claim)
        begin = int(end)
        progress("replaying flows", begin / flows.at.size)
    books = [coordinator.traffic, *(site.traffic for site in sites.values())]
    moved, messages = sum(book.bytes() for book in books), sum(book.messages() for book in books)
    return Detection(detector.alarms, flows.at.size, flows.names, moved, messages, coordinator.rounds(watch.number))


def run_detect(
    file: Path,
    *,
    phi: float,
    window: int,
    panes: int,
    sites: int,
    site: str | None,
    key: str,
    confidence: float,
    seed: int,
    progress: Progress = lambda *_: None,
) -> Detection:
    """Read the flows and run the protocol over them."""
    if not _LEAST_PHI <= phi < 1:
        raise ParameterError(f"--phi {phi:g}", f"give a share from {_LEAST_PHI} to below 1, such as 0.1")
    if window % panes:
        raise ParameterError(f"--window {window} in {panes} panes", "give a window that is a multiple of --panes")
    if not 0 <= confidence < 1:
        raise ParameterError(f"--confidence {confidence}", "give a number from 0 to below 1")
    flows = read_flows(file, key=key, site=site, sites=sites, seed=seed)
    watch = HeavyHitters(phi=phi, window=window, panes=panes, seed=seed)
    return detect_in(flows, watch, confidence=confidence, progress=progress)


def to_json(found: Detection, *, phi: float, window: int) -> dict[str, Any]:
    """Everything, with times as text in UTC."""
    alarms = []
    for alarm in found.alarms:
        times = {name: _clock(getattr(alarm, name)) for name in ("detected", "started", "ended")}
        alarms.append(alarm.to_dict() | times | {"target": _text(alarm.target)})
    return {
        "phi": phi, "window": window, "events": found.events, "sites": list(found.sites), "bytes": found.bytes,
        "over_forwarding": found.over_forwarding, "messages": found.messages, "rounds": found.rounds, "alarms": alarms,
    }  # fmt: skip


def to_report(found: Detection, *, phi: float, window: int) -> Report:
    columns = ("target", "started", "detected", "ended", "share", "count", "sites", "confidence")
    rows = [
        (
            _text(alarm.target), _clock(alarm.started), _clock(alarm.detected), _clock(alarm.ended) or "-",
            alarm.share, f"{shown(alarm.count[0])} to {shown(alarm.count[1])}", _sites(alarm, len(found.sites)),
            f"{math.floor(alarm.confidence * 1e4) / 1e4:g}",
        )
        for alarm in found.alarms
    ]  # fmt: skip
    notes = [
        f"{shown(found.events)} flows at {len(found.sites)} sites; {shown(found.bytes)} bytes in "
        f"{shown(found.messages)} messages and {found.rounds} rounds: {found.over_forwarding:.2g} of what forwarding "
        f"every flow would take, at {_FLOW_BYTES} bytes each.",
        "The largest share of each in a window, and its count there; times are UTC, starts to the length of a pane.",
    ]
    if found.over_forwarding > 1:
        notes.append(
            "With so few flows at a site for this phi nearly every target is a candidate: forwarding is cheaper. "
            "Choose a larger phi or window, or fewer sites."
        )
    return Report(f"Targets with {phi:g} of all flows in {window} s", columns, rows, {}, notes)


def _sites(alarm: Alarm, of: int) -> str:
    names = sorted(alarm.sites, key=lambda site: -alarm.sites[site])
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"all {of}" if len(names) == of else ", ".join(names[:4]) + more


def _clock(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _text(key: Any) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key)
