"""BPART's build phase: heavy keys and buckets to parts, the heaviest first, each to the part with the least.

This is the greedy multiprocessor scheduling of Graham (1969): never more than 4/3 - 1/(3k) of the least possible, and
with many small buckets to fill in, far nearer: no part is above the mean by more than its last job weighs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from catchment.balance.key_learner import KeyLearner
from catchment.balance.partition_map import MOST_PARTS, PartitionMap, fitting
from catchment.errors import ParameterError
from catchment.kernel.partition import assign_greedily
from catchment.sketch.checks import check_whole

__all__ = ["PAIRS", "build_map", "full_knowledge", "greedy", "hash_map"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

PAIRS = "pairs"


def build_map(learner: KeyLearner, parts: int, *, split: float | str | None = None) -> PartitionMap:
    """The map that balances what the learner saw.

    Parameters
    ----------
    learner
        What was learnt; an empty one gives plain hashing.
    parts
        How many parts there are.
    split
        For operators whose state merges. A number: a key is cut into equal pieces of at most this share of a part's
        mean load, each of which may go to a part of its own; 0.5 serves well. `"pairs"`: every heavy key in two
        halves, as DKG-PKG has it. None, the default: no key is cut, and its state stays in one place.

    Examples
    --------
    >>> learner = KeyLearner(theta=0.1, buckets=64)
    >>> learner.update(["hot"] * 600 + [f"rare {n}" for n in range(400)])
    >>> build_map(learner, 4)
    PartitionMap(4 parts, 1 heavy keys, 64 buckets, imbalance 140.0 %)
    >>> build_map(learner, 4, split=0.5)
    PartitionMap(4 parts, 1 heavy keys, 64 buckets, imbalance 0.4 %)
    """
    parts = check_whole("parts", parts, 1, MOST_PARTS)
    heavy = learner.heavy_keys().hashes
    heavy = heavy[: fitting(heavy, learner.seed)]
    weights, rest = learner.loads_of(heavy)
    pieces = _pieces(weights, learner.total, parts, split)
    jobs = np.concatenate([_cut(weights, pieces), rest])
    assigned, loads = greedy(jobs, parts)
    cut = int(pieces.sum())
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(pieces)])
    return PartitionMap(parts, learner.seed, heavy, starts, assigned[:cut], assigned[cut:], loads)


def _pieces(weights: I64, total: int, parts: int, split: float | str | None) -> I64:
    """How many pieces each heavy key is cut into."""
    if split is None:
        return np.ones(weights.size, dtype=np.int64)
    if split == PAIRS:
        return np.full(weights.size, min(2, parts), dtype=np.int64)
    if isinstance(split, bool) or not isinstance(split, int | float) or not 0.01 <= split <= 1:
        raise ParameterError(f"split={split!r}", "give a number from 0.01 to 1, such as 0.5, or 'pairs', or None")
    needed = np.ceil(weights * (parts / (max(total, 1) * split)) - 1e-9).astype(np.int64)
    pieces: I64 = np.clip(needed, 1, math.ceil(parts / split))
    return pieces


def _cut(weights: I64, pieces: I64) -> I64:
    """The weights of all pieces; what does not divide goes to the first ones."""
    share, over = np.repeat(weights // pieces, pieces), np.repeat(weights % pieces, pieces)
    place = np.arange(share.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cut: I64 = share + (place < over)
    return cut


def greedy(weights: I64, parts: int) -> tuple[I32, I64]:
    """The part of each job, and what each part has then.

    Jobs that weigh nothing, as buckets that no key fell into while it was learnt, are dealt out in turn, from the part
    with the least on: who knows what will fall into them.

    >>> assigned, loads = greedy(np.array([7, 5, 4, 4]), 2)
    >>> assigned.tolist(), loads.tolist()
    ([0, 1, 1, 0], [11, 9])
    """
    order = np.argsort(-weights, kind="stable")
    busy = int(np.count_nonzero(weights))
    loads, placed = np.zeros(parts, dtype=np.int64), np.empty(weights.size, dtype=np.int32)
    assign_greedily(weights[order[:busy]], loads, placed[:busy])
    placed[busy:] = np.argsort(loads, kind="stable")[np.arange(weights.size - busy) % parts]
    assigned = np.empty(weights.size, dtype=np.int32)
    assigned[order] = placed
    return assigned, loads


def full_knowledge(weights: I64, parts: int) -> I64:
    """The loads of the parts when every key's weight is known and every key placed by itself: the bar to reach."""
    return greedy(np.ascontiguousarray(weights, dtype=np.int64), check_whole("parts", parts, 1, MOST_PARTS))[1]


def hash_map(parts: int, *, seed: int = 0) -> PartitionMap:
    """Plain hashing as a map: nothing is learnt, and a bucket is a part."""
    parts = check_whole("parts", parts, 1, MOST_PARTS)
    none = np.zeros(0, dtype=np.int64)
    return PartitionMap(
        parts, check_whole("seed", seed, 0, 2**63 - 1), none.astype(np.uint64), np.zeros(1, dtype=np.int64),
        none.astype(np.int32), np.arange(parts, dtype=np.int32), np.zeros(parts, dtype=np.int64),
    )  # fmt: skip
