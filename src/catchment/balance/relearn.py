"""Is a new map worth the move? What balance would save, against the state that would have to change places.

A key's state is where the map says. Another map moves keys, and their state with them, while the operator waits. The
thesis leaves open when that pays (chapter 9); here it is a comparison of two times, both in the unit of the caller:

    saved = horizon * event_cost * (busiest part's share now - busiest part's share then - noise)
    spent = key_cost * keys that change places

The noise is three times the standard deviation of a part's share among so many events: what is within it may be chance,
and a map that follows chance moves state for nothing.

Between staying and a whole new map lies every map in between: from the one in use, jobs are moved from the busiest part
to the least busy one, those first that mend most for each key that moves, and the step with the best balance of the two
is taken. A whole new map, its parts numbered so that most keys stay, is looked at as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from catchment.balance.key_learner import KeyLearner
from catchment.balance.partition_build import greedy
from catchment.balance.partition_map import PartitionMap, fitting
from catchment.balance.unevenness import imbalance
from catchment.errors import ParameterError

__all__ = ["Reconsidered", "reconsider"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]

_MOST_STEPS = 2000
_DEVIATIONS = 3


@dataclass(frozen=True, slots=True)
class Reconsidered:
    """What came of it: the map to use from now on, and why."""

    map: PartitionMap
    changed: bool
    before: float
    """The imbalance of the old map on what was learnt since, in percent."""
    after: float
    """That of the map to use."""
    moved_keys: int
    """Heavy keys whose part changes."""
    moved_buckets: int
    moved_states: float
    """Keys that change places in all, those in buckets by their estimated number."""
    saved: float
    """What the new map saves over the horizon, in the caller's unit; of the best one, where none was worth it."""
    spent: float
    """What moving would cost, in the same unit."""

    def __str__(self) -> str:
        what = (
            f"{self.moved_keys} heavy keys and {self.moved_buckets} buckets, about {self.moved_states:,.0f} keys, move"
        )
        if not self.changed:
            other = f"the best other saves {self.saved:,.6g} and costs {self.spent:,.6g}"
            return f"kept the map: imbalance {self.before:.1f} %; {other}"
        return (
            f"new map: imbalance {self.before:.1f} % -> {self.after:.1f} %; {what}; "
            f"saves {self.saved:,.6g} for {self.spent:,.6g}"
        )


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Heavy keys, then buckets: what each weighs, how many keys it moves, and where it is now."""

    heavy: U64
    weights: I64
    keys: F64
    now: I32

    def loads(self, assigned: I32, parts: int) -> F64:
        return np.bincount(assigned, weights=self.weights, minlength=parts).astype(np.float64)


def reconsider(
    current: PartitionMap, learner: KeyLearner, *, horizon: float, key_cost: float, event_cost: float = 1.0
) -> Reconsidered:
    """Whether another map is worth its migration, and which.

    Parameters
    ----------
    current
        The map in use; one without split keys, since a state that merges need not move.
    learner
        What was learnt of late, with the buckets and the seed of the map.
    horizon
        How many events the new map will serve, by weight.
    key_cost, event_cost
        What it costs to move a key's state, and to process an event: any one unit, such as seconds.

    Examples
    --------
    >>> from catchment.balance.partition_build import build_map
    >>> old, new = KeyLearner(theta=0.05, buckets=64), KeyLearner(theta=0.05, buckets=64)
    >>> rare = [f"rare {n}" for n in range(100)]
    >>> old.update(["a"] * 50 + ["b"] * 50 + rare)
    >>> new.update(["a"] * 90 + ["c"] * 10 + rare)
    >>> print(reconsider(build_map(old, 2), new, horizon=200, key_cost=100))
    kept the map: imbalance 50.0 %; the best other saves 0 and costs 100
    >>> print(reconsider(build_map(old, 2), new, horizon=200, key_cost=0.001))
    new map: imbalance 50.0 % -> 0.0 %; ... saves 28.7868 for ...
    """
    for name, value in (("horizon", horizon), ("key_cost", key_cost), ("event_cost", event_cost)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ParameterError(f"{name}={value!r}", "give a finite number that is not negative")
    if current.split:
        raise ParameterError("a map with split keys", "build a new one: state that merges need not move")
    if learner.buckets != current.buckets.size or learner.seed != current.seed:
        raise ParameterError(
            f"{learner!r} for a map with {current.buckets.size} buckets and seed {current.seed}",
            "learn with the buckets and the seed of the map, as learner.empty() does",
        )
    jobs = _jobs(current, learner)
    unit = horizon * event_cost / max(learner.total, 1)
    noise = _DEVIATIONS * learner.total * math.sqrt((current.parts - 1) / max(learner.events, 1)) / current.parts
    at_first = jobs.loads(jobs.now, current.parts)
    best, gain = jobs.now, 0.0
    closest, least = jobs.now, -float("inf")
    for assigned in (_mended(jobs, current.parts, unit, key_cost), _renumbered(jobs, current.parts)):
        saved = unit * float(at_first.max() - jobs.loads(assigned, current.parts).max() - noise)
        net = saved - key_cost * _moved(jobs, assigned)
        if net > gain:
            best, gain = assigned, net
        if net > least and np.any(assigned != jobs.now):
            closest, least = assigned, net
    changed = gain > 0
    shown = best if changed else closest
    moved = shown != jobs.now
    loads = jobs.loads(best, current.parts)
    return Reconsidered(
        map=_drawn(current, learner, jobs, best, loads) if changed else current,
        changed=changed,
        before=imbalance(at_first),
        after=imbalance(loads),
        moved_keys=int(np.count_nonzero(moved[: jobs.heavy.size])),
        moved_buckets=int(np.count_nonzero(moved[jobs.heavy.size :])),
        moved_states=_moved(jobs, shown),
        saved=max(0.0, unit * float(at_first.max() - jobs.loads(shown, current.parts).max() - noise)),
        spent=key_cost * _moved(jobs, shown),
    )


def _jobs(current: PartitionMap, learner: KeyLearner) -> _Jobs:
    """What can be moved by itself: the keys that are heavy now or have a place of their own, and the buckets."""
    heavy = learner.heavy_keys().hashes
    # Those that have a place come first: a new one for which there is none just stays with its bucket.
    heavy = np.concatenate([current.heavy, heavy[~np.isin(heavy, current.heavy)]])
    heavy = heavy[: max(fitting(heavy, current.seed), current.heavy.size)]
    weights, rest = learner.loads_of(heavy)
    others = max(float(learner.distinct().value) - heavy.size, 1.0) / learner.buckets
    keys = np.concatenate([np.ones(heavy.size), np.full(rest.size, others)])
    now = np.concatenate([current.place_hashes(heavy), current.buckets])
    return _Jobs(heavy, np.concatenate([weights, rest]), keys, now)


def _moved(jobs: _Jobs, assigned: I32) -> float:
    return float(jobs.keys[assigned != jobs.now].sum())


def _mended(jobs: _Jobs, parts: int, unit: float, key_cost: float) -> I32:
    """The best of the maps on the way from the one in use to one that no single move mends."""
    assigned, loads = jobs.now.copy(), jobs.loads(jobs.now, parts)
    top = float(loads.max())
    best, gain = jobs.now.copy(), -float("inf")
    for _ in range(_MOST_STEPS):
        busiest, idlest = int(loads.argmax()), int(loads.argmin())
        gap = loads[busiest] - loads[idlest]
        mends = np.where(assigned == busiest, np.minimum(jobs.weights, gap - jobs.weights), 0)
        job = int(np.argmax(mends / jobs.keys))
        if mends[job] <= 0:
            break
        assigned[job] = idlest
        loads[busiest] -= jobs.weights[job]
        loads[idlest] += jobs.weights[job]
        net = unit * (top - float(loads.max())) - key_cost * _moved(jobs, assigned)
        if net > gain:
            best, gain = assigned.copy(), net
    return best


def _renumbered(jobs: _Jobs, parts: int) -> I32:
    """A whole new map, with the numbers of its parts exchanged so that most keys stay where they are."""
    fresh, _ = greedy(jobs.weights, parts)
    shared = np.zeros((parts, parts))
    np.add.at(shared, (fresh, jobs.now), jobs.keys)
    names = np.full(parts, -1, dtype=np.int32)
    taken: set[int] = set()
    for place in np.argsort(-shared, axis=None, kind="stable").tolist():
        new, old = divmod(place, parts)
        if names[new] < 0 and old not in taken:
            names[new] = old
            taken.add(old)
    return names[fresh]


def _drawn(current: PartitionMap, learner: KeyLearner, jobs: _Jobs, assigned: I32, loads: F64) -> PartitionMap:
    """The map of that assignment; a key that is no longer heavy and is with its bucket needs no place of its own."""
    own, buckets = assigned[: jobs.heavy.size], assigned[jobs.heavy.size :]
    light = jobs.weights[: jobs.heavy.size] < learner.theta * learner.total
    kept = ~(light & (own == buckets[learner.buckets_of(jobs.heavy)]))
    return replace(
        current,
        heavy=jobs.heavy[kept],
        starts=np.arange(int(kept.sum()) + 1, dtype=np.int64),
        choices=own[kept],
        buckets=buckets,
        loads=np.rint(loads).astype(np.int64),
    )
