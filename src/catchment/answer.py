"""Answer: the one shape of every estimate, in the library, SQL, REST, the command line and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answer", "Ranking", "plain"]

Number = int | float
Values = Number | NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """An estimate with the interval that holds the truth.

    The truth over the events that the sketch has seen lies in `[low, high]` with probability at least
    `confidence`, for each question by itself; 1.0 means always. Bounds come from what the sketch knows (its
    size, its contents, its merge history), never from a formula that a merge made false.

    Parameters
    ----------
    value, low, high
        Numbers, or arrays of equal length when an array of keys was asked about.
    confidence
        One minus delta, the probability of failure.
    epsilon
        The error that the sketch's size promises, in the unit that its class documents.
    window
        `(start, end)` in ticks, or None for the whole history.
    sites, missing
        The sites that are in the answer, and those that should be and are not.

    Examples
    --------
    >>> answer = Answer(value=10, low=8, high=10, confidence=0.99, epsilon=0.01)
    >>> 9 in answer, 7 in answer
    (True, False)
    >>> print(answer)
    10 in [8, 10] with confidence 0.99
    """

    value: Values
    low: Values
    high: Values
    confidence: float
    epsilon: float
    window: tuple[int, int] | None = None
    sites: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def holds(self, truth: Any) -> Any:
        """Whether the truth lies in the interval: a bool, or an array of them."""
        inside = (np.asarray(self.low) <= truth) & (np.asarray(truth) <= self.high)
        return bool(inside) if np.ndim(inside) == 0 else inside

    def __contains__(self, truth: object) -> bool:
        return bool(np.all(self.holds(truth)))

    def __len__(self) -> int:
        if not isinstance(self.value, np.ndarray):
            raise TypeError("this Answer is to one question: it has no length; ask with an array of keys")
        return len(self.value)

    def __getitem__(self, index: int | slice) -> Answer:
        if not isinstance(self.value, np.ndarray):
            raise TypeError("this Answer is to one question: it has no parts; ask with an array of keys")
        value, low, high = (np.asarray(part)[index] for part in (self.value, self.low, self.high))
        if not isinstance(index, slice):
            value, low, high = value.item(), low.item(), high.item()
        return Answer(value, low, high, self.confidence, self.epsilon, self.window, self.sites, self.missing)

    def __iter__(self) -> Iterator[Answer]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer):
            return NotImplemented
        return all(_alike(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]  # array fields cannot be hashed

    def __str__(self) -> str:
        return f"{self.value} in [{self.low}, {self.high}] with confidence {self.confidence:g}"

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, ready for JSON: an end that is open, or no value at all, is None.

        >>> Answer(3, 3, float("inf"), 1.0, 0.0).to_dict()["high"] is None
        True
        """
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays and tuples as lists, and None for what is not finite.

    >>> plain({"high": np.array([1.5, np.inf])})
    {'high': [1.5, None]}
    """
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(part) for part in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _alike(one: Any, other: Any) -> bool:
    """Equal, where NaN equals NaN: no value is no value."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(one == other or (one != one and other != other))


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Keys with the answer for each, heaviest first; `note` says why there may be fewer than were asked for.

    >>> answers = Answer(np.array([5]), np.array([4]), np.array([5]), confidence=1.0, epsilon=0.1)
    >>> ranking = Ranking(("a",), answers, note="only 1 key was seen")
    >>> [(key, answer.low) for key, answer in ranking]
    [('a', 4)]
    """

    keys: tuple[Any, ...]
    answers: Answer
    note: str = ""

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[Any, Answer]]:
        return zip(self.keys, self.answers, strict=True)
