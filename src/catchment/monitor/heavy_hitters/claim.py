"""Claim: what is heavy over all sites, at one cut; and how the newest reports of the sites add up to one.

**The claim.** A cut is a position for each site, and in windows the time T at which the site's window ends. At the cut
of a claim, let f be an item's count over all sites, and m the count of all events. Then

1. every item with f >= phi m is in `heavy` or in `unresolved`, always;
2. for each of these, f <= `high` always, and f >= `low` with probability at least 1 - delta;
3. `heavy` are those of which every site that is there has told its count at the cut; `unresolved` those of which some
   have not, and which may be heavy if they are as frequent there as they can be. Sites that have left or are missing
   cannot be asked: what they did not tell is in the bounds. A claim without unresolved ones and missing sites is
   *complete*.

*Proof.* (1) If f >= phi m then at some site f_i >= phi m_i, since otherwise the sum over the sites would be less. A
report lists all items with f_i >= phi m_i at its position (`history.py`, `recent.py`), so each heavy item is listed
by some site, and only items that someone lists need be looked at. (2) A site's count of an item is never too low; where
a report has none, the item is no candidate there, so f_i is below phi m_i. Summed up, these bound f from above, and
an item is left out only if that bound is below phi m. From below: the counts of sites that gave one exceed the truth
in row u by sum_i X_i(u), whose expectation is at most (m - f)/width, and the rows are independent, so Markov's bound
holds for the sum as for one Count-Min (Theorem 4.7 of the thesis); it gets delta/2. The sites' own slacks (`tally.py`)
hold together with probability 1 - delta/2, so their sum bounds the excess too; the better one is used.

It follows that a claim at the newest reports is true at any moment, whatever was lost on the way: faults make its cut
older, and never make it false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.monitor.heavy_hitters.names import Key, plain_key
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.sketch.bounds import collision_floor

__all__ = ["HeavyClaim", "HeavyHitter", "Known", "Mark", "claim_of"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a site stood: events taken, and in windows the time at which its window ended."""

    position: int
    time: int
    total: int
    """Events in its history, or in its window."""


@dataclass(frozen=True, slots=True)
class HeavyHitter:
    """An item that is, or may be, heavy over all sites."""

    key: Key
    answer: Answer
    """Its count over the sites of the cut."""
    by_site: Mapping[str, int]
    """The most that it can be at each site."""
    onsets: Mapping[str, int] = field(default_factory=dict)
    """In windows, since when each site has seen it heavy in every pane: the pane's first tick less one."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, ready for JSON."""
        low, high = int(self.answer.low), int(self.answer.high)
        return {
            "key": plain_key(self.key), "low": low, "high": high, "confidence": self.answer.confidence,
            "by_site": dict(self.by_site), "since": dict(self.onsets),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeavyClaim:
    """Every item with at least phi of the `total` events of the `cut` is in `heavy` or `unresolved`."""

    query: int
    phi: float
    cut: Mapping[str, Mark]
    total: int
    heavy: tuple[HeavyHitter, ...]
    unresolved: tuple[HeavyHitter, ...]
    missing: tuple[str, ...] = ()
    """Sites that are silent for longer than their lease, or have never spoken: the cut has their last word, or none."""
    left: tuple[str, ...] = ()
    """Sites that have said farewell: the cut has their last word."""

    @property
    def complete(self) -> bool:
        """Nothing is unresolved, and no site is missing."""
        return not self.unresolved and not self.missing

    @property
    def keys(self) -> tuple[Key, ...]:
        """All that may be heavy."""
        return tuple(found.key for found in (*self.heavy, *self.unresolved))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, ready for JSON."""
        return {
            "phi": self.phi, "total": self.total, "heavy": [found.to_dict() for found in self.heavy],
            "unresolved": [found.to_dict() for found in self.unresolved],
            "cut": {site: [mark.position, mark.time] for site, mark in self.cut.items()},
            "sites": list(self.cut), "missing": list(self.missing), "left": list(self.left),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A site's newest report, opened."""

    mark: Mark
    slack: int
    hashes: U64
    """In order, with the upper bound of the count of each."""
    counts: I64
    names: Mapping[int, Key]
    """The names of these items by hash."""
    onsets: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Bounds for all items that some site lists, in the order of their hashes."""

    hashes: U64
    counts: I64
    """For each site and item, the most that it can be there."""
    told: NDArray[np.bool_]
    high: I64


def claim_of(
    watch: HeavyHitters, known: Mapping[str, Known], missing: tuple[str, ...], left: tuple[str, ...] = ()
) -> HeavyClaim:
    """What follows from these reports, one of each site that has spoken."""
    total = sum(report.mark.total for report in known.values())
    cut = {site: report.mark for site, report in known.items()}
    if not total:
        return HeavyClaim(watch.number, watch.phi, cut, total, (), (), missing, left)
    sums = _added(watch, list(known.values()))
    may = np.flatnonzero(sums.high >= watch.share * total)
    may = may[np.argsort(-sums.high[may], kind="stable")]
    asked = [place for place, site in enumerate(known) if site not in missing and site not in left]
    sure = np.all(sums.told[asked], axis=0)
    every = {hash_: name for report in known.values() for hash_, name in report.names.items()}
    found = {int(place): _hitter(watch, known, every, sums, int(place), missing) for place in may}
    heavy = tuple(found[int(place)] for place in may if sure[place])
    unresolved = tuple(found[int(place)] for place in may if not sure[place])
    return HeavyClaim(watch.number, watch.phi, cut, total, heavy, unresolved, missing, left)


def _added(watch: HeavyHitters, reports: list[Known]) -> _Sums:
    listed = [
        report.hashes[report.counts >= watch.share * report.mark.total] for report in reports if report.mark.total
    ]
    hashes = np.unique(np.concatenate([*listed, np.zeros(0, dtype=np.uint64)]))
    told = np.zeros((len(reports), hashes.size), dtype=bool)
    counts = np.empty((len(reports), hashes.size), dtype=np.int64)
    for place, report in enumerate(reports):
        counts[place] = watch.most_unnoticed(report.mark.total)
        if report.hashes.size:
            at = np.minimum(np.searchsorted(report.hashes, hashes), report.hashes.size - 1)
            told[place] = report.hashes[at] == hashes
            counts[place, told[place]] = report.counts[at[told[place]]]
    return _Sums(hashes, counts, told, counts.sum(axis=0))


def _low(watch: HeavyHitters, reports: list[Known], counts: I64, told: NDArray[np.bool_]) -> int:
    """The least that an item can be, from the counts of the sites that told one."""
    slacks = np.array([report.slack for report in reports])
    by_slack = int(np.maximum(counts - slacks, 0)[told].sum())
    mass = sum(report.mark.total for report, has in zip(reports, told, strict=True) if has)
    by_markov = int(collision_floor(counts[told].sum(keepdims=True), mass, watch.collision_share)[0])
    return max(by_slack, by_markov, 0)


def _hitter(
    watch: HeavyHitters,
    known: Mapping[str, Known],
    names: Mapping[int, Key],
    sums: _Sums,
    place: int,
    missing: tuple[str, ...],
) -> HeavyHitter:
    hash_ = int(sums.hashes[place])
    low = _low(watch, list(known.values()), sums.counts[:, place], sums.told[:, place])
    high = int(sums.high[place])
    answer = Answer(
        high, low, high, confidence=1 - watch.delta, epsilon=watch.epsilon, window=_window(watch, known),
        sites=tuple(known), missing=missing,
    )  # fmt: skip
    by_site = dict(zip(known, sums.counts[:, place].tolist(), strict=True))
    onsets = {
        site: report.mark.time - report.onsets[hash_] * watch.pane
        for site, report in known.items()
        if report.onsets.get(hash_)
    }
    return HeavyHitter(names[hash_], answer, by_site, onsets)


def _window(watch: HeavyHitters, known: Mapping[str, Known]) -> tuple[int, int] | None:
    """The time that the windows of all sites together cover; those without events have none."""
    ends = [report.mark.time for report in known.values() if report.mark.total]
    return None if watch.window is None or not ends else (min(ends) - watch.window, max(ends))
