"""What the ECM experiments share: questions with their true answers, the errors of a sketch, a tree of merges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import MergeError
from catchment.window.ecm import ECMSketch
from experiments.traces import I64, Trace

NAMES = {"eh": "ECM-EH", "wave": "ECM-DW", "randomized": "ECM-RW", "panes": "ECM-panes"}
"""Our counters, by the names that the papers give to sketches made of them."""

POINT, JOIN = "point", "join"
PURPOSES = {
    "eh": (POINT, JOIN),
    "wave": (POINT, JOIN),
    "randomized": (POINT,),  # as in the papers: no guarantee for self-joins, so it is not asked for them
    "panes": (POINT, JOIN),
}


@dataclass(frozen=True, slots=True)
class Range:
    """The last so many ticks: every key in it, how often, and how many events."""

    last: int
    keys: I64
    counts: I64
    total: int


def ranges_of(trace: Trace) -> list[Range]:
    """Ranges of 10^i ticks, as in section 7.1, and the whole window."""
    window, found = trace.window, []
    newest = int(trace.at[-1])
    lengths = [10**power for power in range(19) if 10**power < window]
    for last in (*lengths, window):
        inside = trace.keys[np.searchsorted(trace.at, newest - last, side="right") :]
        keys, counts = np.unique(inside, return_counts=True)
        found.append(Range(last, keys, counts.astype(np.int64), inside.size))
    return found


@dataclass(frozen=True, slots=True)
class Observed:
    """The errors of one sketch over all questions, relative to the events in the range, or to their square."""

    mean: float
    """Over all questions."""
    mean_of_ranges: float
    """Over the ranges, each by its own mean: the papers do not say which of the two they print."""
    largest: float
    asked: int
    outside: int
    """Answers whose interval misses the truth: delta of them may."""
    beyond: int
    """Answers further from the truth than epsilon says: delta of them may."""
    broken: int
    """Bounds that must never fail and did: truths above `high`, totals outside their interval."""
    total_off: float
    """The total's error, with its sign, in the range where it is largest.

    No collision touches a total, so this is the error of the counters in time. Point queries and self-joins hide it:
    collisions make them too high, and counters that have lost something by merging bring them nearer to the truth.
    """


def observed(sketch: ECMSketch, ranges: list[Range], purpose: str) -> Observed:
    """Ask a point query for each key of each range, or a self-join for each range."""
    errors: list[NDArray[np.float64]] = []
    outside = beyond = broken = 0
    total_off = 0.0
    always = sketch.counter != "randomized"
    for part in ranges:
        if purpose == POINT:
            truth: Any = part.counts
            answer = sketch.estimate(part.keys, last=part.last)
            scale = float(part.total)
        else:
            truth = np.array([np.dot(part.counts, part.counts)])
            answer = sketch.self_join(last=part.last)
            scale = float(part.total) ** 2
        missed = np.atleast_1d(np.abs(answer.value - truth) / scale)
        errors.append(missed)
        outside += int(np.sum(~np.atleast_1d(answer.holds(truth))))
        # An estimate is rounded to a whole event.
        beyond += int(np.sum(missed > answer.epsilon + 1 / scale))
        total = sketch.total(last=part.last)
        off = float(total.value - part.total) / part.total
        total_off = off if abs(off) > abs(total_off) else total_off
        if always:
            broken += int(np.sum(truth > answer.high)) + (not total.holds(part.total))
    every = np.concatenate(errors)
    by_range = float(np.mean([part.mean() for part in errors]))
    return Observed(float(every.mean()), by_range, float(every.max()), every.size, outside, beyond, broken, total_off)


# -- sites ----------------------------------------------------------------------------------------------------


def leaves(trace: Trace, sites: I64, count: int, prototype: ECMSketch) -> list[ECMSketch]:
    """A sketch of the events of each site."""
    order = np.argsort(sites, kind="stable")
    edges = np.searchsorted(sites[order], np.arange(count + 1))
    parts = []
    for start, stop in pairwise(edges):
        part = prototype.copy()
        part.update(trace.keys[order[start:stop]], at=trace.at[order[start:stop]])
        parts.append(part)
    return parts


@dataclass(frozen=True, slots=True)
class Merged:
    """The root of a tree of merges, and what its edges carried."""

    root: ECMSketch
    moved: int
    claims: bool
    """Whether the root vouches for its error; otherwise only its values mean anything."""


def merged(parts: list[ECMSketch], *, fan_in: int = 2) -> Merged:
    """Send the sketches up a balanced tree, as bytes, and merge them on each level.

    A sketch refuses a merge after which it could be off by as much as it counts. The papers merge on regardless, and so
    does this, with the inherited error struck out: the values are the same, and the bounds are no longer looked at.
    """
    moved, claims = 0, True
    while len(parts) > 1:
        sent = [part.to_bytes() for part in parts]
        moved += sum(map(len, sent))
        received = [ECMSketch.from_bytes(blob) for blob in sent]
        groups = [received[at : at + fan_in] for at in range(0, len(received), fan_in)]
        try:
            parts = [ECMSketch.merge(group) for group in groups]
        except MergeError:
            claims = False
            for part in received:
                part._slack = 0.0
            parts = [ECMSketch.merge(group) for group in groups]
    return Merged(parts[0], moved, claims)
