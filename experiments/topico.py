"""TOPiCo, section 5: candidates sent, bytes, distance from the omniscient ranking and delay, with certificates beside.

The paper's setting: 29 sites, k = 20, a window of 15 seconds, a period of 5, every site telling every other. Peers are
the real ones, on a virtual clock, with delays of 10 to 150 ms by region. At each second four sites, one a region, are
asked for their ranking, which is compared with that of an observer who sees all streams at once; and what they certify
is checked against the counts at their cut.

Without data, stretches of a seeded day: 6 million requests over 29 sites, five times as busy at four in the afternoon
as at night, with the popularity that the log's own samples have (flat at its head). The paper prints few numbers: those
stand beside ours.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from catchment.app.report import Progress, Report
from catchment.monitor.machine import Action, Received, Send, Tick
from catchment.monitor.top_k import Arrived, ExactCounts, Peer, TopK
from experiments.traces import Trace, load

I64 = NDArray[np.int64]

K, WINDOW, PERIOD = 20, 15_000, 5_000
SITES, REGIONS = 29, 4
STEP = 500
"""Milliseconds between two batches of a site, and between two rankings of the observer."""
LONGEST_LAG = 20_000
EVENTS_A_DAY = 6_000_000
OBJECTS = 5_000
PAPER_DISTANCE, PAPER_LARGEST_D, PAPER_LARGEST_SHARE, PAPER_RATE, PAPER_DELAY = 0.24, 11, 0.8, 10_000, 5.0
COLUMNS = (
    "stream", "sites", "events a minute", "share of list nominated", "largest", "paper: largest", "mean D", "largest D",
    "paper: largest D", "entries with echoes", "bytes/s up, mean", "bytes/s up, largest site", "paper: most are below",
    "over whole lists", "distance", "paper", "median delay s", "paper: below", "certain", "false",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Some minutes of events, in milliseconds from their start, each at a site."""

    name: str
    keys: I64
    at: I64
    sites: I64
    count: int
    length: int
    note: str = ""
    loss: float = 0.0
    """The share of messages that do not arrive."""

    @property
    def rate(self) -> float:
        """Events a minute."""
        return self.keys.size / self.length * 60_000


# -- streams --------------------------------------------------------------------------------------------------


def seeded(
    hour: float, seconds: int, sites: int, *, busier: float = 1.0, skew: float | None = None, turns: int = 0
) -> Stretch:
    """A stretch of a day; the rank-th object is wanted in proportion to 1/(rank + 60)^2, as in WC98, or by a zipf.

    With `turns`, every so many seconds other objects are the favourites.
    """
    rng = np.random.default_rng([round(hour * 60), sites, round(busier)])
    curve = 1 + (2 / 3) * np.cos((hour / 24 - 16 / 24) * 2 * np.pi)
    events = rng.poisson(EVENTS_A_DAY / 86_400 * seconds * curve * busier)
    ranks = np.arange(1, OBJECTS + 1)
    odds = (ranks + 60.0) ** -2 if skew is None else ranks**-skew
    keys = np.searchsorted(np.cumsum(odds / odds.sum())[:-1], rng.random(events))
    at = np.sort(rng.integers(1, seconds * 1000 + 1, events))
    if turns:
        keys = (keys + at // (turns * 1000) * 37) % OBJECTS
    # The busiest of the log's servers has three and a half times the requests of the idlest.
    shares = 3.5 ** (np.arange(sites) / max(sites - 1, 1))
    chosen = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], rng.random(events))
    name = f"seeded, {hour:g} h" + f", x{busier:g}" * (busier != 1)
    name += (f", zipf({skew:g})" if skew is not None else "") + f", new favourites every {turns} s" * bool(turns)
    return Stretch(name, keys, at, chosen, sites, seconds * 1000)


def busiest(trace: Trace, seconds: int, sites: int) -> Stretch:
    """The busiest stretch of a trace; its ticks must be seconds, or microseconds."""
    scale = 1_000 if trace.tick == "second" else 1
    at = trace.at * scale if trace.tick == "second" else trace.at // 1_000
    ends = np.searchsorted(at, at + seconds * 1000)
    first = int(np.argmax(ends - np.arange(at.size)))
    part = slice(first, int(ends[first]))
    where, note = trace.sites(sites)
    at = at[part] - at[first]
    if scale > 1:  # requests of one second are spread over it
        starts = np.searchsorted(at, at)
        sizes = np.searchsorted(at, at, side="right") - starts
        at = at + (np.arange(at.size) - starts) * scale // sizes
    length = -(-(int(at[-1]) + 1) // 1000) * 1000
    return Stretch(trace.name, trace.keys[part], at + 1, where[part], sites, length, note)


# -- the world ------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """What was seen in one stretch."""

    shares: list[float] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    moments: list[dict[str, float]] = field(default_factory=list)
    up: list[float] = field(default_factory=list)
    certain: int = 0
    answered: int = 0
    false: int = 0


class World:
    """All peers of a stretch on one virtual clock."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.names = [f"site-{number:02}" for number in range(stretch.count)]
        self.peers = {
            name: Peer(name, self.names, k=K, counts=ExactCounts(WINDOW), period=PERIOD, save_every=10 * PERIOD)
            for name in self.names
        }
        self._rng = rng = np.random.default_rng(stretch.count)
        chosen = {name: stretch.sites == place for place, name in enumerate(self.names)}
        self.streams_of = {name: (stretch.keys[mine], stretch.at[mine]) for name, mine in chosen.items()}
        # Regions are dealt out in turn; a message takes 10 ms within one, and up to 150 between two.
        between = np.sort(rng.integers(40, 151, (REGIONS, REGIONS)), axis=0)
        self.delays = np.where(np.eye(REGIONS, dtype=np.bool_), 10, between)
        self.phases = rng.integers(0, PERIOD, stretch.count)
        self.observer = [self._true_at(moment) for moment in range(0, stretch.length + 1, STEP)]
        self.found = Measured()
        self._queue: list[tuple[int, int, str, Any]] = []
        self._number = 0

    def _put(self, at: int, what: str, about: Any) -> None:
        self._number += 1
        heapq.heappush(self._queue, (at, self._number, what, about))

    def _true_at(self, moment: int) -> I64:
        """The observer's ranking: the union of all windows at one moment."""
        first, last = np.searchsorted(self.stretch.at, [moment - WINDOW, moment], side="right")
        items, counts = np.unique(self.stretch.keys[first:last], return_counts=True)
        return items[np.lexsort((items, -counts))][:K]

    def run(self) -> Measured:
        for place, name in enumerate(self.names):
            self._put(int(self.phases[place]), "tick", name)
        for moment in range(STEP, self.stretch.length + 1, STEP):
            self._put(moment, "feed", moment)
        warm = min(WINDOW + PERIOD, self.stretch.length // 2)
        for moment in range(warm, self.stretch.length + 1, 1000):
            self._put(moment, "ask", moment)
        while self._queue and self._queue[0][0] <= self.stretch.length:
            now, _, what, about = heapq.heappop(self._queue)
            getattr(self, f"_{what}")(about, now)
        seconds = self.stretch.length / 1000
        self.found.up = [peer.traffic.bytes() / seconds for peer in self.peers.values()]
        return self.found

    def _feed(self, moment: int, now: int) -> None:
        for name, peer in self.peers.items():
            keys, at = self.streams_of[name]
            last = int(np.searchsorted(at, moment, side="right"))
            part = slice(peer.position, last)
            peer.handle(Arrived(keys[part], at[part], until=moment), now)

    def _tick(self, name: str, now: int) -> None:
        peer = self.peers[name]
        self._carry_out(name, peer.handle(Tick(), now), now)
        self._put(now + PERIOD, "tick", name)
        listed = peer.shortlist
        assert listed is not None
        there = int(np.count_nonzero(peer.counts.counted().low))
        if now > WINDOW and there:
            self.found.shares.append(listed.nominated / there)
            self.found.extra.append(max(0, listed.nominated - K))
            self.found.entries.append(len(listed))
            self.found.whole.append(there)

    def _carry_out(self, name: str, actions: list[Action], now: int) -> None:
        for action in actions:
            if isinstance(action, Send) and self._rng.random() >= self.stretch.loss:
                here, there = (self.names.index(one) % REGIONS for one in (name, action.to))
                self._put(now + int(self.delays[here, there]), "receive", (name, action.to, action.frame))

    def _receive(self, about: tuple[str, str, bytes], now: int) -> None:
        sender, to, frame = about
        self._carry_out(to, self.peers[to].handle(Received(sender, frame), now), now)

    def _ask(self, moment: int, now: int) -> None:
        for name in self.names[:REGIONS]:
            top = self.peers[name].answer(now)
            self.found.answered += len(top.certain)
            self.found.certain += sum(top.certain)
            self.found.false += self._false_in(top)
            mine = np.array(top.ranking.keys, dtype=np.int64)
            lags = range(0, min(LONGEST_LAG, moment) + 1, STEP)
            distances = [distance(mine, self.observer[(moment - lag) // STEP]) for lag in lags]
            self.found.moments.append({
                "second": moment / 1000,
                "distance": distances[0],
                "delay": lags[int(np.argmin(distances))] / 1000,
                "certain": sum(top.certain) / max(1, len(top.certain)),
            })  # fmt: skip

    def _false_in(self, top: TopK) -> int:
        """How many items are certified that are not in the true top-k at the cut."""
        inside = []
        for name, cut in top.cut.items():
            keys, at = self.streams_of[name]
            inside.append(keys[: cut.position][at[: cut.position] > cut.time - WINDOW])
        items, counts = np.unique(np.concatenate(inside), return_counts=True)
        true = set(items[np.lexsort((items, -counts))][:K].tolist())
        return sum(sure and item not in true for item, sure in zip(top.ranking.keys, top.certain, strict=True))


def distance(one: I64, other: I64) -> float:
    """Kendall's distance of two top-k lists, from 0 (the same) to 1 (nothing in common).

    Items that a list lacks are behind all that it has; a pair that one list orders and the other lacks counts half
    (Fagin, Kumar, Sivakumar: Comparing top k lists, 2003, with p = 1/2).
    """
    items = np.union1d(one, other)
    if not items.size:
        return 0.0
    signs = []
    for ranking in (one, other):
        ranks = np.full(items.size, ranking.size)
        ranks[np.searchsorted(items, ranking)] = np.arange(ranking.size)
        signs.append(np.sign(ranks[:, None] - ranks[None, :]))
    product = signs[0] * signs[1]
    opposite = np.count_nonzero(product < 0) / 2
    half = np.count_nonzero((product == 0) & (signs[0] != signs[1])) / 2
    sizes = one.size, other.size
    largest = sizes[0] * sizes[1] + sum(size * (size - 1) / 2 for size in sizes) / 2
    return float((opposite + half / 2) / max(largest, 1))


# -- the report -----------------------------------------------------------------------------------------------


def stretches(data: Path | None, *, quick: bool) -> Iterator[Stretch]:
    seconds, sites = (30, 5) if quick else (90, SITES)
    if data is not None:
        yield busiest(load(data), seconds, sites)
        return
    busy = seeded(16, seconds, sites, busier=20)
    if not quick:
        yield from (seeded(hour, seconds, sites) for hour in (4, 10, 16))
        yield busy
        yield seeded(16, seconds, sites, busier=20, skew=1.1)
    yield replace(busy, name=f"{busy.name}, a fifth lost", loss=0.2)
    yield seeded(16, seconds, sites, busier=20, turns=10)


def run(*, quick: bool, progress: Progress, data: Path | None = None) -> Report:
    rows: list[tuple[Any, ...]] = []
    points: list[dict[str, Any]] = []
    figures: dict[str, float] = {"false_certificates": 0.0}
    notes = []
    every = list(stretches(data, quick=quick))
    for place, stretch in enumerate(every):
        progress(stretch.name, place / len(every))
        found = World(stretch).run()
        rows.append(_row(stretch, found))
        notes += [stretch.note] if stretch.note else []
        figures["false_certificates"] += found.false
        figures[f"distance_{place}"] = rows[-1][COLUMNS.index("distance")]
        figures[f"certain_{place}"] = rows[-1][COLUMNS.index("certain")]
        for moment in found.moments:
            points += [
                {"stream": stretch.name, "second": moment["second"], "measure": measure, "value": moment[measure]}
                for measure in ("distance", "delay", "certain")
            ]
    return Report(
        f"TOPiCo, section 5: k = {K}, a window of {WINDOW // 1000} s, a period of {PERIOD // 1000} s",
        COLUMNS,
        rows,
        figures,
        notes=[
            *notes,
            "share of list nominated, D: what passes the candidacy test, of all items in the window; entries have",
            "the site's counts of what others nominate as well. paper: Figure 6, up to 80 % and k + D = 20 + 11.",
            "over whole lists: entries sent, of those that sending every list whole would take.",
            "bytes/s up: from one site to all others. paper: under 10 KB/s most of the time (Figure 7).",
            "distance: normalised Kendall's, from an observer of all streams at that moment; paper: 0.24 on average.",
            "delay: how far back the observer's ranking is most like the site's. paper: half the time below 5 s.",
            "certain: the share of answered items that are certified at the answer's cut, which is up to a period and",
            "a delay old at other sites; false: certified ones that were not in the top k there (never).",
            "The test (a site's count times N is at least the k-th sum) lets all pass where that sum is not above N,",
            "as it is at 29 sites with the paper's few thousand requests a minute; at twenty times that it chooses.",
        ],
        chart=_chart(points),
    )


def _row(stretch: Stretch, found: Measured) -> tuple[Any, ...]:
    return (
        stretch.name,
        stretch.count,
        round(stretch.rate),
        float(np.mean(found.shares)),
        float(np.max(found.shares)),
        PAPER_LARGEST_SHARE,
        float(np.mean(found.extra)),
        int(np.max(found.extra)),
        PAPER_LARGEST_D,
        float(np.mean(found.entries)),
        round(float(np.mean(found.up))),
        round(float(np.max(found.up))),
        PAPER_RATE,
        float(np.sum(found.entries) / np.sum(found.whole)),
        float(np.mean([moment["distance"] for moment in found.moments])),
        PAPER_DISTANCE,
        float(np.median([moment["delay"] for moment in found.moments])),
        PAPER_DELAY,
        found.certain / max(1, found.answered),
        found.false,
    )


def _chart(points: list[dict[str, Any]]) -> Any:
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line()
        .encode(
            x=alt.X("second:Q"),
            y=alt.Y("mean(value):Q", title=None),
            color=alt.Color("stream:N", title=None),
        )
        .properties(width=420, height=130)
        .facet(facet=alt.Facet("measure:N", title=None, sort=["distance", "delay", "certain"]), columns=1)
        .resolve_scale(y="independent")
        .properties(title="Rankings at four sites against an observer of all streams")
    )
