"""Which items are in the true top-k for certain, and how much anything else can have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Certificate", "certify"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """The k items to answer with, which of them are certain, and the most that any other item can have."""

    places: I64
    """Where the answer's items are in the arrays that were given, in the order of the answer."""
    certain: NDArray[np.bool_]
    """Whether each is in the true top-k, whatever the counts are within their bounds."""
    left_out: int
    """No item that is not in the answer, known or unknown, has more than this."""


def certify(low: I64, high: I64, order: I64, unknown: int, k: int) -> Certificate:
    """The top k of items whose counts are known between bounds.

    The true top-k are the first k of the items with a count of at least 1, by count, and of equal counts by the order
    of items. Item y is *in front of* x if its count is larger, or equal and y comes first in that order. The answer is
    the first k by `low`, then by order, of those that are certain to be there at all (low >= 1).

    **Guarantee.** If every known count c is in [low, high], and every other item has at most `unknown`, then an item
    that is certain is in the true top-k, and no item outside the answer has more than `left_out`.

    x is *certain* iff low(x) >= 1 and fewer than k others *can be in front*: a known y if high(y) > low(x), or
    high(y) = low(x) and y comes first; unknown items, taken to be arbitrarily many and to come first, if
    unknown >= low(x).

    *Proof.* Let x be certain. Its count is at least 1. Let y be in front of x. Then high(y) >= c(y) >= c(x) >= low(x).
    If any of these is strict, high(y) > low(x). If none is, c(y) = c(x), so y comes first, and high(y) = low(x).
    Either way y is one of those that can be in front; for an unknown y, unknown >= c(y) >= low(x), and there would be
    k of them. So fewer than k items are in front of x. And conversely, if k known items can be in front, they are when
    each has its `high` and x its `low`: for known items no certificate can say more.

    A certain item is in the answer: an item that precedes it by `low` and order can be in front of it, so fewer than k
    do. `left_out` is the larger of `unknown` and of the `high` of the known items outside the answer.

    Parameters
    ----------
    low, high
        Bounds on the count of each known item.
    order
        The rank of each in the order of items, no two alike.
    unknown
        The most that an item can have that is not among them.
    k
        How many items to answer with, at most.

    Examples
    --------
    >>> low, high = np.array([9, 7, 6, 1]), np.array([9, 8, 8, 6])
    >>> found = certify(low, high, np.arange(4), unknown=5, k=2)
    >>> found.places.tolist(), found.certain.tolist(), found.left_out
    ([0, 1], [True, False], 8)
    """
    there = np.flatnonzero(low > 0)
    places = there[np.lexsort((order[there], -low[there]))][:k]
    certain = (low[places] > unknown) & (_can_be_in_front(low, high, order, places) < k)
    others = high.copy()
    others[places] = 0
    return Certificate(places, certain, max(unknown, int(others.max(initial=0))))


def _can_be_in_front(low: I64, high: I64, order: I64, places: I64) -> I64:
    """How many known items can be in front of each of these."""
    values = np.concatenate([high, low[places]])
    asked = np.arange(values.size) >= high.size
    # Where both ends of an item are alike, its own upper end sorts before its question and so is not counted.
    ranked = np.lexsort((asked, -np.concatenate([order, order[places]]), values))
    above = high.size - np.cumsum(~asked[ranked])
    counts = np.empty(values.size, dtype=np.int64)
    counts[ranked] = above
    return np.asarray(counts[high.size :] - (high[places] > low[places]))
