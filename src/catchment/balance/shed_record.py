"""ShedRecord: what was dropped, when and of which keys, so that answers about all events can still be true.

A sketch behind a shedder answers for the events that it has seen. With the record of what was shed before it, the
answer is widened until it holds for all events that came. By question, for d dropped of weight D, both restricted to
the window of the answer (between what certainly and what possibly lies in it, where a pane is cut):

    frequency            high + what was dropped of the key: D, or the upper bound of a Count-Min over all that was
                         dropped, whichever is less
    total                value, low and high + D: exact, but for panes that are cut
    distinct             high + d: each may have been a new key
    self_join            high to (√high + √G)², where G is the self-join of what was dropped: at most D², or what the
                         Count-Min says; low + D where frequencies only grow, since (f + g)² ≥ f² + g² and g² ≥ g
    distinct_self_join   high to (√high + d)²
    inner_product        high + √(F·G') + √(F'·G) + √(G·G'), by Cauchy and Schwarz, F being the self-joins
    top, heavy_hitters   as frequency, key by key; the note says how much a key that is not listed may have more
    mean_value           refused: nobody measured the values of what was dropped
    contains             refused: a key that was dropped is not in the filter

None of these depends on who dropped what, and records merge by adding up: they hold after any tree of merges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.balance.stored import Stored
from catchment.errors import DamagedBytesError, MergeError, ParameterError, QueryError
from catchment.sketch.base import Sketch
from catchment.sketch.checks import MASS_LIMIT, as_weights, check_mass, check_whole, read_mass
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.count_min import CountMin
from catchment.sketch.keys import as_keys
from catchment.window.clock import ARRIVALS, TIME_LIMIT, as_times, check_times

__all__ = ["Dropped", "ShedRecord"]

I64 = NDArray[np.int64]
Number = float | int

_UNIT = 1 + 2.0**-40  # what rounding of roots and products may have cost, and far more


class Dropped(NamedTuple):
    """What was dropped in a range: at least, because of panes that are cut, and at most."""

    events_low: int
    events: int
    weight_low: int
    weight: int


class ShedRecord(Stored):
    """The events that were shed, by pane of time and, roughly, by key.

    **Guarantee.** For a question from the table above, `ask` gives an interval that holds the truth about all events,
    dropped ones included, with the confidence of the sketch's own answer (for inner products the three answers that it
    needs may each fail). It is so after any merges of sketches and of records, as long as each event is in a sketch, or
    in a record, and not in both.

    **Where a simpler one wins.** If what is dropped is kept in a side output, replaying it into the sketch costs no
    width at all.

    Parameters
    ----------
    pane
        The length of a pane, in ticks. Pane p has the times after p * pane, up to and including (p + 1) * pane.
    panes
        How many of the newest panes are kept one by one; older ones are kept as one sum.
    epsilon, delta, seed
        Of the Count-Min that tells by key; epsilon None leaves it out, and any key may then have been dropped.

    Examples
    --------
    >>> seen, shed = CountMin(), ShedRecord()
    >>> seen.update(["a"] * 90)
    >>> shed.add(["a"] * 10, at=range(10))
    >>> print(shed.ask(seen, "estimate", "a"))
    90 in [90, 100] with confidence 0.99
    >>> shed.ask(seen, "total").value
    100

    References
    ----------
    B. Babcock, M. Datar, R. Motwani: Load shedding for aggregation queries over data streams, ICDE 2004.
    F. Reiss, J. Hellerstein: Data triage: an adaptive architecture for load shedding in TelegraphCQ, ICDE 2005.
    """

    family = 51

    def __init__(
        self,
        *,
        pane: int = 1,
        panes: int = 4096,
        epsilon: float | None = 0.01,
        delta: float = 0.01,
        seed: int = 0,
    ) -> None:
        self._set(pane, panes)
        self._keys = None if epsilon is None else CountMin(epsilon, delta, seed=seed)
        self._numbers: I64 = np.zeros(0, dtype=np.int64)
        self._sums: I64 = np.zeros((2, 0), dtype=np.int64)  # events and weight of each pane
        self._older: I64 = np.zeros(2, dtype=np.int64)
        self._older_end = -(2**62)  # the number of the newest pane in the sum of older ones
        self._untimed: I64 = np.zeros(2, dtype=np.int64)

    def _set(self, pane: int, panes: int) -> None:
        self.pane = check_whole("pane", pane, 1, TIME_LIMIT)
        self.panes = check_whole("panes", panes, 1, 2**20)

    # -- what goes in -----------------------------------------------------------------------------------------

    def add(self, keys: Any, *, at: Any = None, weights: Any = 1) -> None:
        """Events that were dropped: the arrays that the sketch's update would have got. Without times they may have
        been in any window.
        """
        batch = as_keys(keys)
        shares = as_weights(weights, len(batch))
        check_mass("weights", self.weight, shares)
        times = None if at is None else as_times(at, len(batch))
        if times is not None:
            check_times(times)
        if self._keys is not None:
            self._keys._add(batch.hashes(), shares)
        if times is None:
            self._untimed += (len(batch), int(shares.sum()))
            return
        numbers, places = np.unique((times - 1) // self.pane, return_inverse=True)
        sums = np.zeros((2, numbers.size), dtype=np.int64)
        np.add.at(sums[0], places, 1)
        np.add.at(sums[1], places, shares)
        self._fold([self._numbers, numbers], [self._sums, sums])

    def _fold(self, numbers: list[I64], sums: list[I64]) -> None:
        """Panes from several places as one list, what is too old of it in one sum."""
        joined, places = np.unique(np.concatenate(numbers), return_inverse=True)
        total = np.zeros((2, joined.size), dtype=np.int64)
        for kind in range(2):
            np.add.at(total[kind], places, np.concatenate([part[kind] for part in sums]))
        if joined.size:
            self._older_end = max(self._older_end, int(joined[-1]) - self.panes)
        old = joined <= self._older_end
        self._older += total[:, old].sum(axis=1)
        self._numbers, self._sums = joined[~old], np.ascontiguousarray(total[:, ~old])

    @classmethod
    def merge(cls, records: Iterable[ShedRecord]) -> ShedRecord:
        """The record of all that any of them dropped; the parts stay as they were."""
        parts = list(records)
        if not parts:
            raise MergeError("nothing to merge", "give at least one record")
        for part in parts:
            if part._parameters != parts[0]._parameters:
                raise MergeError(
                    f"records of {parts[0]._parameters} and of {part._parameters}", "build all parts with the same"
                )
        check_mass("merging", 0, np.array([part.weight for part in parts], dtype=np.int64))
        whole = cls.from_bytes(parts[0].to_bytes())
        for part in parts[1:]:
            whole._older += part._older
            whole._untimed += part._untimed
            whole._older_end = max(whole._older_end, part._older_end)
        if whole._keys is not None:
            whole._keys = CountMin.merge([part._keys for part in parts if part._keys is not None])
        whole._fold([part._numbers for part in parts], [part._sums for part in parts])
        return whole

    @property
    def _parameters(self) -> tuple[Any, ...]:
        return self.pane, self.panes, None if self._keys is None else tuple(self._keys.parameters.items())

    # -- what it knows ----------------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        """How many events were dropped."""
        return int(self._sums[0].sum() + self._older[0] + self._untimed[0])

    @property
    def weight(self) -> int:
        """Their weight."""
        return int(self._sums[1].sum() + self._older[1] + self._untimed[1])

    def between(self, window: tuple[int, int] | None) -> Dropped:
        """What was dropped with times after the window's start, up to and including its end; None: in all."""
        if window is None:
            return Dropped(self.events, self.events, self.weight, self.weight)
        start, end = window
        first = self._numbers * self.pane
        inside = self._sums[:, (first >= start) & (first + self.pane <= end)].sum(axis=1)
        around = self._sums[:, (first + self.pane > start) & (first < end)].sum(axis=1) + self._untimed
        if (self._older_end + 1) * self.pane > start:
            around = around + self._older
        return Dropped(int(inside[0]), int(around[0]), int(inside[1]), int(around[1]))

    def _of_keys(self, keys: Any, most: int) -> Any:
        """At most so much of each key was dropped in a range in which `most` was dropped in all."""
        if self._keys is None:
            return most
        return np.minimum(self._keys.estimate(keys).high, most)

    def _self_join(self, most: int) -> float:
        """The self-join of what was dropped in a range is at most this."""
        square = float(most) ** 2
        return square if self._keys is None else min(square, float(self._keys.self_join().high))

    # -- answers ----------------------------------------------------------------------------------------------

    def ask(self, sketch: Sketch, question: str, *args: Any, other: ShedRecord | None = None, **options: Any) -> Any:
        """A question to a sketch, by the name of its method, answered for all events, those that were shed included.

        Parameters
        ----------
        sketch
            What has seen the events that were kept.
        question
            "estimate", "total", "self_join", "distinct", "top", "heavy_hitters", "inner_product" …
        args, options
            What the question takes: keys, `last`, `now` …
        other
            For inner products, the record of what the other sketch has not seen; None if it has seen everything.
        """
        if getattr(sketch, "clock", None) == ARRIVALS:
            raise QueryError(
                "a window of arrivals behind a shedder: what was dropped would have moved it",
                "build the sketch with window= ticks of time",
            )
        truth = sketch.measures.get(question, question)
        if truth not in _WIDENED:
            raise QueryError(f"{question} of a {type(sketch).__name__} is not known of events that were shed", _CURE)
        answer = getattr(sketch, question)(*args, **options)
        if truth == "inner_product":
            return self._inner_product(answer, sketch, args[0], other, options)
        if isinstance(answer, Ranking):
            return self.widen_ranking(answer)
        keys = args[0] if truth == "frequency" and args else options.get("keys")
        return self.widen(answer, truth, keys=keys, only_grows=sketch.only_grows)

    def widen(self, answer: Answer, truth: str, *, keys: Any = None, only_grows: bool = True) -> Answer:
        """The answer for all events, from the answer for those that were kept.

        Parameters
        ----------
        answer
            About the kept events, in its window.
        truth
            What it estimates, as `Sketch.measures` names it: "frequency", "total", "distinct", "self_join" or
            "distinct_self_join".
        keys
            The keys that were asked about, for frequencies; without them any key may be among the dropped.
        only_grows
            Whether no kept event had a negative weight.
        """
        gone = self.between(answer.window)
        low, high = np.asarray(answer.low), np.asarray(answer.high)
        value: Any = answer.value
        if truth == "frequency":
            high = high + (gone.weight if keys is None else self._of_keys(keys, gone.weight))
        elif truth == "total":
            low, high = low + gone.weight_low, high + gone.weight
            middle = gone.weight_low + (gone.weight - gone.weight_low) / 2
            value = value + (gone.weight if gone.weight == gone.weight_low else middle)
        elif truth == "distinct":
            high = high + gone.events
        elif truth in ("self_join", "distinct_self_join"):
            other = self._self_join(gone.weight) if truth == "self_join" else float(gone.events) ** 2
            if other:
                high = (np.sqrt(high) + math.sqrt(other)) ** 2 * _UNIT
            if truth == "self_join" and only_grows:
                low = low + gone.weight_low
            elif truth == "self_join" and other:
                low = np.maximum(np.sqrt(np.maximum(low, 0)) - math.sqrt(other), 0) ** 2 / _UNIT
            value = np.clip(value, low, high)
        else:
            raise QueryError(f"{truth} is not known of events that were shed", _CURE)
        return replace(answer, value=_as(answer.value, value), low=_as(answer.low, low), high=_as(answer.high, high))

    def widen_ranking(self, ranking: Ranking) -> Ranking:
        """The same keys in the same order, each with its answer for all events; the note says what may be missing."""
        gone = self.between(ranking.answers.window)
        if not gone.events:
            return ranking
        keys = list(ranking.keys) or None
        answers = self.widen(ranking.answers, "frequency", keys=keys) if keys else ranking.answers
        more = f"{gone.events} events were shed: a key that is not here may have up to {gone.weight} more than it had"
        return Ranking(ranking.keys, answers, "; ".join(filter(None, (ranking.note, more))))

    def _inner_product(
        self, answer: Answer, mine: Any, theirs: Any, other: ShedRecord | None, options: dict[str, Any]
    ) -> Answer:
        joins = [one.self_join(**options) for one in (mine, theirs)]
        dropped = [
            0.0 if record is None else record._self_join(record.between(answer.window).weight)
            for record in (self, other)
        ]
        if not any(dropped):
            return answer
        kept = [max(float(join.high), 0.0) for join in joins]
        more = math.sqrt(kept[0] * dropped[1]) + math.sqrt(kept[1] * dropped[0]) + math.sqrt(dropped[0] * dropped[1])
        high = (float(answer.high) + more) * _UNIT
        low = float(answer.low) if mine.only_grows and theirs.only_grows else float(answer.low) - more * _UNIT
        failing = sum(1 - one.confidence for one in (answer, *joins))
        return replace(answer, low=low, high=high, confidence=max(0.0, 1 - failing))

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The same dropped events, the same bytes, in whatever batches they came."""
        parameters, payload = Writer(), Writer()
        parameters.numbers("QI?", self.pane, self.panes, self._keys is not None)
        payload.numbers("qqqqqI", *self._older, self._older_end, *self._untimed, self._numbers.size)
        payload.integers(self._numbers)
        payload.integers(self._sums)
        if self._keys is not None:
            blob = self._keys.to_bytes()
            payload.numbers("I", len(blob))
            payload.raw(blob)
        return self._seal(parameters.getvalue(), payload.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> ShedRecord:
        """The record that gave these bytes; a `BytesError` for any others."""
        parameters, payload = cls._open(blob)
        record = cls.__new__(cls)
        pane, panes, keyed = parameters.numbers("QI?")
        parameters.finish()
        try:
            record._set(pane, panes)
        except ParameterError as problem:
            raise DamagedBytesError(f"impossible parameter {problem.problem}") from None
        older_events, older_weight, end, events, weight, count = payload.numbers("qqqqqI")
        record._older = np.array([read_mass(older_events), read_mass(older_weight)], dtype=np.int64)
        record._untimed = np.array([read_mass(events), read_mass(weight)], dtype=np.int64)
        if count > panes or not -(2**62) <= end <= TIME_LIMIT:
            raise DamagedBytesError(f"{count} panes of {panes}, the older ones up to {end}")
        record._older_end = end
        record._numbers = payload.integers(count, np.int64, low=-TIME_LIMIT - 1, high=TIME_LIMIT)
        if count and (bool(np.any(np.diff(record._numbers) <= 0)) or int(record._numbers[0]) <= end):
            raise DamagedBytesError("panes out of order")
        record._sums = payload.integers(2 * count, np.int64, low=0, high=MASS_LIMIT).reshape(2, count)
        if float(record._sums[1].astype(np.float64).sum()) + older_weight + weight >= MASS_LIMIT:
            raise DamagedBytesError("more was dropped than a record may hold")
        record._keys = _read_count_min(payload) if keyed else None
        payload.finish()
        kept = record._keys
        if kept is not None and (kept.conservative or kept.total().value != record.weight):
            raise DamagedBytesError(f"keys of weight {kept.total().value} where {record.weight} was dropped")
        return record


_WIDENED = frozenset(
    {"frequency", "total", "distinct", "self_join", "distinct_self_join", "inner_product", "top", "heavy_hitters"}
)
_CURE = "keep what is dropped in a side output and replay it, or ask one of " + ", ".join(sorted(_WIDENED))


def _as(model: Any, value: Any) -> Any:
    """A number where there was a number, an array where there was an array."""
    return np.asarray(value) if isinstance(model, np.ndarray) else np.asarray(value).item()


def _read_count_min(reader: Reader) -> CountMin:
    (size,) = reader.numbers("I")
    return CountMin.from_bytes(reader.raw(size))
