"""Several choices for a key: partial key grouping and what came after it, for operators whose state merges.

Each source counts what it has sent itself, and sends an event to the least loaded of the key's choices. So a key's
state is in as many places as it has choices, to be merged by whoever asks. State that does not merge needs a
`PartitionMap`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.key_learner import spread_hashes
from catchment.balance.partition_map import MOST_PARTS, PartitionMap
from catchment.errors import ParameterError
from catchment.kernel.hashing import draws
from catchment.kernel.partition import route_choices, route_map
from catchment.sketch.checks import check_fraction, check_whole
from catchment.sketch.keys import as_keys, hash_keys
from catchment.sketch.space_saving import SpaceSaving

__all__ = ["DChoices", "PairedPieces", "TwoChoices", "needed_choices"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]

REFRESH = 1000
"""D-Choices looks anew at what is heavy after so many events."""


class TwoChoices:
    """PKG, partial key grouping: two hashed choices for every key, the less loaded one gets the event.

    Nothing is learnt. The imbalance stays small as long as no key has more than two parts' share: 2/parts.

    >>> router = TwoChoices(4)
    >>> sent = router.route(["hot"] * 10)
    >>> sorted(np.bincount(sent, minlength=4).tolist())
    [0, 0, 5, 5]

    References
    ----------
    M. A. U. Nasir, G. De Francisci Morales, D. García-Soriano, N. Kourtellis, M. Serafini: The power of both choices:
    practical load balancing for distributed stream processing engines, ICDE 2015.
    """

    def __init__(self, parts: int, *, seed: int = 0) -> None:
        self.parts = check_whole("parts", parts, 1, MOST_PARTS)
        self.loads = np.zeros(self.parts, dtype=np.int64)
        self._draws = draws(check_whole("seed", seed, 0, 2**63 - 1), max(2, self.parts))

    def route(self, keys: Any) -> I32:
        """The part of each event, in order."""
        hashes, _ = hash_keys(keys)
        return self._send(hashes, np.full(hashes.size, 2, dtype=np.int64))

    def _send(self, hashes: U64, degrees: I64) -> I32:
        out = np.empty(hashes.size, dtype=np.int32)
        route_choices(hashes, self._draws, degrees, self.loads, out)
        return out


class DChoices(TwoChoices):
    """D-Choices: heavy keys have as many choices as they need, all others two.

    The source keeps a Space Saving of what it sends. Keys with at least `theta` of it are the head; d is the fewest
    choices with which the head is expected to leave no part above the mean by more than `epsilon`. Where all parts are
    needed, any may be chosen (W-Choices). What is heavy is looked at anew every 1,000 events, counted from the first,
    so the parts do not depend on how the stream is cut into batches.

    Parameters
    ----------
    parts
        How many there are.
    theta
        The share from which a key is heavy: 1/(5 parts) by default.
    epsilon
        How far above the mean, as a share of all events, a part is expected to be at most.

    References
    ----------
    M. A. U. Nasir, G. De Francisci Morales, N. Kourtellis, M. Serafini: When two choices are not enough: balancing at
    scale in distributed stream processing, ICDE 2016.
    """

    def __init__(self, parts: int, *, theta: float | None = None, epsilon: float = 1e-4, seed: int = 0) -> None:
        super().__init__(parts, seed=seed)
        self.theta = check_fraction("theta", 1 / (5 * self.parts) if theta is None else theta)
        self.epsilon = check_fraction("epsilon", epsilon)
        self._seen = SpaceSaving(epsilon=self.theta / 2)
        self._events = 0
        self._head = np.zeros(0, dtype=np.uint64)
        self.choices = 2
        """How many choices a heavy key has now."""

    def route(self, keys: Any) -> I32:
        batch = as_keys(keys)
        sent = [np.zeros(0, dtype=np.int32)]
        at = 0
        while at < len(batch):
            stop = min(len(batch), at + REFRESH - self._events % REFRESH)
            block = batch.part(at, stop)
            self._seen.update(block)
            self._events += stop - at
            hashes = block.hashes()
            degrees = np.where(np.isin(hashes, self._head), self.choices, 2)
            sent.append(self._send(hashes, degrees))
            if self._events % REFRESH == 0:
                self._look()
            at = stop
        return np.concatenate(sent)

    def _look(self) -> None:
        heavy = self._seen.heavy_hitters(self.theta)
        shares = np.asarray(heavy.answers.value, dtype=np.float64) / self._events
        self._head = np.unique(np.concatenate([hash_keys([key])[0] for key in heavy.keys] or [self._head[:0]]))
        self.choices = needed_choices(shares, self.parts, self.epsilon)


def needed_choices(shares: F64, parts: int, epsilon: float) -> int:
    """The fewest choices for the head, whose shares are given, the largest first; `parts` means any part at all.

    For each prefix of h keys of the head, what is expected to fall on the b_h parts that their choices reach, which is
    all of the h keys, and of the other head keys and of the tail what happens to have all its choices there, must be no
    more than those parts' fair share and epsilon each.

    >>> needed_choices(np.array([0.5, 0.1]), 10, 0.0001), needed_choices(np.array([0.1]), 2, 0.0001)
    (10, 2)
    """
    if not shares.size or parts <= 2:
        return 2
    head, tail = float(shares.sum()), max(0.0, 1 - float(shares.sum()))
    before = np.cumsum(shares)
    sizes = np.arange(1, shares.size + 1)
    for degree in range(max(2, int(np.ceil(shares[0] * parts))), parts):
        reached = parts - parts * ((parts - 1) / parts) ** (sizes * degree)
        share = reached / parts
        expected = before + share**degree * (head - before) + share**2 * tail
        if np.all(expected <= share + epsilon * reached):
            return degree
    return parts


class PairedPieces:
    """DKG-PKG: a heavy key goes to the less loaded of the parts that its pieces were given, any other to its bucket's.

    The map is one built with `split`: `"pairs"` is the thesis's, and other splits work alike.
    """

    def __init__(self, chart: PartitionMap) -> None:
        if not isinstance(chart, PartitionMap):
            raise ParameterError(f"a map of type {type(chart).__name__}", "give what build_map(…, split='pairs') made")
        self.map = chart
        self.loads = np.zeros(chart.parts, dtype=np.int64)

    def route(self, keys: Any) -> I32:
        """The part of each event, in order."""
        hashes, _ = hash_keys(keys)
        out = np.empty(hashes.size, dtype=np.int32)
        route_map(
            hashes, spread_hashes(hashes, self.map.seed), self.map.slots, self.map.heavy, self.map.starts,
            self.map.choices, self.map.buckets, self.loads, out,
        )  # fmt: skip
        return out
