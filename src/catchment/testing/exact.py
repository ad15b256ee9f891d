"""Exact: the truth, computed the slow and obvious way with Python's own dictionaries and sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["Exact", "ExactWindow"]


class Exact:
    """Remembers everything; one method for each truth that a sketch estimates.

    >>> truth = Exact()
    >>> truth.update(["a", "b", "a"], weights=[2, 1, 1])
    >>> truth.frequency("a"), truth.self_join(), truth.distinct(), truth.total()
    (3, 10, 2, 4)
    """

    def __init__(self) -> None:
        self._frequency: Counter[Any] = Counter()
        self._values: Counter[Any] = Counter()
        self._pairs: set[tuple[Any, Any]] = set()
        self._seen: set[Any] = set()

    def update(
        self, keys: Iterable[Any], *, weights: Iterable[int] | None = None, values: Any = None, attributes: Any = None
    ) -> None:
        """Take in events; the arguments are those of the sketches' updates."""
        keys = list(keys)
        shares = [1] * len(keys) if weights is None else list(weights)
        for place, (key, weight) in enumerate(zip(keys, shares, strict=True)):
            self._frequency[key] += weight
            self._seen.add(key)
            if values is not None:
                self._values[key] += int(values[place]) * weight
            if attributes is not None:
                self._pairs.add((key, attributes[place]))

    def keys(self) -> list[Any]:
        """The distinct keys, in order of first arrival."""
        return list(self._frequency)

    def frequency(self, key: Any) -> int:
        return self._frequency[key]

    def mean_value(self, key: Any) -> float:
        return self._values[key] / self._frequency[key]

    def total(self) -> int:
        return sum(self._frequency.values())

    def self_join(self) -> int:
        return sum(count * count for count in self._frequency.values())

    def inner_product(self, other: Exact) -> int:
        return sum(count * other._frequency[key] for key, count in self._frequency.items())

    def distinct(self) -> int:
        """Distinct pairs when there were attributes, distinct keys otherwise."""
        return len(self._pairs) if self._pairs else len(self._seen)

    def distinct_self_join(self) -> int:
        """The sum over keys of the squared number of distinct attributes."""
        return sum(count * count for count in Counter(key for key, _ in self._pairs).values())

    def top(self, k: int) -> list[tuple[Any, int]]:
        return self._frequency.most_common(k)

    def heavy_hitters(self, threshold: float) -> set[Any]:
        return {key for key, count in self._frequency.items() if count >= threshold}


class ExactWindow:
    """Remembers every event with its time; `over` gives the truth about a range.

    >>> truth = ExactWindow()
    >>> truth.update(["a", "b", "a"], at=[1, 2, 3])
    >>> truth.over(1, 3).frequency("a"), truth.over(0, 2).total()
    (1, 2)
    """

    def __init__(self) -> None:
        self._events: list[tuple[int, Any, int]] = []

    def update(self, keys: Iterable[Any], *, at: Iterable[int], weights: Iterable[int] | None = None) -> None:
        """Take in events, in any order."""
        keys = list(keys)
        shares = [1] * len(keys) if weights is None else list(weights)
        self._events += zip(at, keys, shares, strict=True)

    def over(self, start: int, end: int) -> Exact:
        """The truth about the events after start, up to and including end."""
        inside = [(key, weight) for time, key, weight in self._events if start < time <= end]
        truth = Exact()
        truth.update([key for key, _ in inside], weights=[weight for _, weight in inside])
        return truth
