"""Panes: any sketch of whole histories, in time: one for each pane of the window, merged when asked."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.errors import DamagedBytesError, InputError, QueryError, WeightError
from catchment.sketch.base import KEYED_TRUTHS, Sketch
from catchment.sketch.checks import as_integers, check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import as_keys
from catchment.sketch.space_saving import NO_FALSE_NEGATIVES
from catchment.sketch.ultraloglog import UltraLogLog
from catchment.window.base import CLOCK_LAYOUT, WindowSketch
from catchment.window.clock import CLOCKS, TIME, Stamps, clock_parameters
from catchment.window.prototype import Prototype
from catchment.window.runs import Run, split_into_runs
from catchment.window.view import View

__all__ = ["Panes"]

I64 = NDArray[np.int64]

_GROWING = frozenset({"frequency", "total", "self_join", "distinct", "distinct_self_join"})
"""Truths that more events can only make larger."""

_STEADY = frozenset({"mean_value"})
"""Truths that are taken to be the same in a whole pane as in a part of it."""

_FROM_AROUND = ("contains", "false_positive_rate")
_OTHERS = (*_FROM_AROUND, "inner_product", "top", "heavy_hitters")

_NOWHERE = -(2**63)
"""The number of no pane: for events that are too late, or that leave the window within their own batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pane:
    """The events of one stretch of time, and the first and last time among them."""

    number: int
    first: int
    last: int
    sketch: Sketch

    def extended(self, first: int, last: int, sketch: Sketch) -> _Pane:
        return _Pane(self.number, min(self.first, first), max(self.last, last), sketch)


class Panes(WindowSketch):
    """A sketch of any kind for each *pane*: a stretch of `pane_length` ticks, with the same borders at every site.

    Pane p holds the events of times after `p * pane_length`, up to and including `(p + 1) * pane_length`. A range is
    answered by merging panes, as many as `panes`, plus one. What it adds to the sketch's own error is at most what the
    panes hold that the ends of the range cut; a pane is not cut when all its events lie on one side, so neither the
    newest one at `now=None`, nor any by a range whose ends are multiples of `pane_length`.

    **Guarantee.** Let *inside* be the panes with all their events in the range and *around* those with any. Where they
    are the same, the answer is the merged sketch's own. Otherwise, for what more events can only make larger
    (frequencies, totals, self-joins, inner products, distinct counts), it is between inside's `low` and around's
    `high`, with probability at least 1 - delta; always, for a sketch that is always right.
    The `value` lies between the two estimates, by the share of the cut panes' time that is in the range: a guess,
    as good as events are even.

    *Proof.* inside <= range <= around, for the events and so for a truth that grows with them. The interval fails only
    where inside's lower bound or around's upper one does. Each sketch is asked at delta/2 (its size is as it was: the
    interval is a little wider), so one of them fails with probability at most delta. A delta too small to be halved
    is used as it is, and the answer's `confidence` is then 1 - 2 delta.

    Merging is pane by pane, as exact as the sketch's own: no error is added by any tree of merges, and for a linear
    sketch parts are the whole byte for byte (but for the counts of late events, which depend on who saw what first).
    A late event goes into its own pane, so lateness costs nothing. `late` and `too_late` count events, not weight.

    By kind: **SpaceSaving** ranks by the counts around the range. `heavy_hitters` returns every key with f >= phi * N
    in the range, or only such keys; an interval is at most `epsilon * (N(inside) + N(around))` wide, and what the cut
    panes hold of the key. **ValueEstimator** answers from around, since a key's value is taken to be steady: where it
    is not, ask for whole panes. **BloomFilter** `contains` looks around: no is certain for the range, yes may come
    from a cut pane. **FastAMS** with negative weights answers whole panes only, since nothing then need grow with
    events, and refuses other ranges.

    **What it costs.** `panes + 1` sketches, and an edge of up to one pane at each cut end. Where a window structure of
    its own exists (counts, Count-Min), it needs far less for the same error; this serves everything else.

    Parameters
    ----------
    prototype
        An empty sketch: panes are built with its kind and parameters. It is not kept.
    window, arrivals
        The length of the window: ticks of time, any integer unit, or a number of events. Give one.
    panes
        How many panes a window has: `pane_length` is window / panes, rounded up.
    lateness
        How late an event may be to be taken, the whole window by default.

    Examples
    --------
    >>> visitors = Panes(UltraLogLog(epsilon=0.02), window=3_600_000, panes=60)
    >>> visitors.update(["ann", "bob", "ann", "eve"], at=[10, 1_800_000, 3_500_000, 3_600_000])
    >>> print(visitors.estimate())
    3.0... in [3, 4] with confidence 0.95
    >>> visitors.estimate(last=1_800_000).window
    (1800000, 3600000)
    >>> visitors.ask("estimate", last=60_000, now=1_800_000).value
    1

    References
    ----------
    J. Li, D. Maier, K. Tufte, V. Papadimos, P. Tucker: No pane, no gain: efficient evaluation of sliding-window
    aggregates over data streams, SIGMOD Record 34(1), 2005.
    R. Ben Basat, G. Einziger, R. Friedman: Give me some slack: efficient network measurements, MFCS 2018.
    """

    family: ClassVar[int] = 13
    example: ClassVar[dict[str, Any]] = {"prototype": UltraLogLog(epsilon=0.1, delta=1e-6), "window": 1000}
    # The prototype stands in bytes as the number of its family, then its own parameters.
    _layout = {"prototype": "B", **CLOCK_LAYOUT, "panes": "I"}

    panes: int
    pane_length: int

    def __init__(
        self,
        prototype: Sketch,
        window: int | None = None,
        *,
        arrivals: int | None = None,
        panes: int = 60,
        lateness: int | None = None,
    ) -> None:
        self._configure(prototype=prototype, panes=panes, **clock_parameters(window, arrivals, lateness))
        self._clear()

    @classmethod
    def suggest(cls, epsilon: float, delta: float = 0.01, *, kind: type[Sketch] = UltraLogLog) -> dict[str, Any]:
        """A sketch of that kind for epsilon and delta, and panes of at most epsilon of the window; add the window.

        >>> Panes.suggest(0.05)
        {'prototype': UltraLogLog.sized(precision=12, delta=0.01, seed=0, by='item'), 'panes': 20}
        """
        return {
            "prototype": kind.sized(**kind.suggest(epsilon, delta)),
            "panes": math.ceil(1 / check_fraction("epsilon", epsilon) - 1e-9),
        }

    def _configure(
        self,
        *,
        prototype: Sketch | Prototype,
        window: int,
        clock: str = TIME,
        lateness: int | None = None,
        panes: int = 60,
    ) -> None:
        default = window if clock == TIME else 0
        self._set_clock(window, clock, default if lateness is None else lateness)
        self.panes = check_whole("panes", panes, 1, 2**16)
        self.pane_length = -(-self.window // self.panes)
        self._prototype = prototype if isinstance(prototype, Prototype) else Prototype.of(prototype)
        self._takes = self._prototype.arrays()
        blank = self._prototype.blank()
        at = ("at",) if clock == TIME else ()
        self.inputs = (*blank.inputs, *at)  # type: ignore[misc]  # the prototype's, so not the same for all panes
        self.linear = blank.linear
        self.names_keys = blank.names_keys
        self.measures = {name: truth for name, truth in blank.measures.items() if truth in _GROWING | _STEADY}

    def _clear(self) -> None:
        self._keep([])

    def _keep(self, panes: Iterable[_Pane]) -> None:
        """Take these as what there is, in order and without those that have left the window."""
        oldest = self._number(self._time.edge + 1)
        self._kept = sorted((pane for pane in panes if pane.number >= oldest), key=lambda pane: pane.number)
        self._last_view: View | None = None

    def _number(self, time: Any) -> Any:
        """The pane of a time, or of each of many."""
        return (time - 1) // self.pane_length

    @property
    def prototype(self) -> Sketch:
        """An empty sketch like that of each pane: a new one each time."""
        return self._prototype.new()

    @property
    def epsilon(self) -> float:
        """The prototype's, in its unit; a range that cuts panes adds what they hold."""
        return self.prototype.epsilon

    @property
    def guarantee(self) -> str:
        whole = self._view(*self._time.span(None, None)).around
        return f"{whole.guarantee}; a range that cuts panes of {self.pane_length} adds what they hold"

    @property
    def nbytes(self) -> int:
        """The memory of all panes, and of the merges that the last question left for the next."""
        view = self._last_view
        merged = [] if view is None else [view.around, view.inside] if view.cut else [view.around]
        return sum(sketch.nbytes for sketch in (*(pane.sketch for pane in self._kept), *merged))

    # -- events -----------------------------------------------------------------------------------------------

    def update(self, keys: Any, *, at: Any = None, **more: Any) -> None:
        """Take events in, each into its pane: keys, times, and what else the prototype's update takes, by name."""
        batch = as_keys(keys)
        columns = {"keys": batch, **self._columns(more, len(batch))}
        stamps = self._time.read(at, len(batch))
        if len(batch):
            self._take(split_into_runs(self._numbers(stamps), stamps.own, columns))
            self._time.commit(stamps)
            self._keep(self._kept)

    def _columns(self, more: dict[str, Any], count: int) -> dict[str, Any]:
        """The other arrays, each checked to have one entry for each event, or to be one number for all."""
        name = self._prototype.kind.__name__
        for given in more:
            if given not in self._takes:
                raise InputError(f"{given} for panes of {name}", f"it takes {', '.join(['keys', *self._takes, 'at'])}")
        for needed in (array for array, required in self._takes.items() if required):
            if more.get(needed) is None:
                raise InputError(f"no {needed} for panes of {name}", f"give {needed}=, one for each event")
        columns: dict[str, Any] = {}
        for given, values in more.items():
            if given == "attributes" and values is not None:
                columns[given] = as_keys(values)
                if len(columns[given]) != count:
                    raise InputError(f"{len(columns[given])} attributes for {count} keys", "give one for each key")
            elif values is not None:
                single = isinstance(values, (int, np.integer))
                columns[given] = values if single else as_integers(given, values, count)
        return columns

    def _numbers(self, stamps: Stamps) -> I64:
        """The pane of each event, or nowhere."""
        numbers: I64 = self._number(stamps.own)
        numbers[numbers < self._number(int(stamps.times[-1]) - self.window + 1)] = _NOWHERE
        if stamps.taken is not None:
            numbers[~stamps.taken] = _NOWHERE
        return numbers

    def _take(self, runs: Iterable[Run]) -> None:
        """All runs or none: what is new is fed apart, what is there as a copy, but for one, which goes last.

        A sketch's own update is all or nothing, so no copy is needed where only one pane changes, as in a stream.
        """
        there = {pane.number: pane for pane in self._kept}
        changed: list[_Pane] = []
        known: list[Run] = []
        for run in runs:
            if run.number in there:
                known.append(run)
            elif run.number == _NOWHERE:
                self._prototype.new().update(**run.columns)  # kept nowhere, but refused if it could not have been
            else:
                changed.append(_Pane(run.number, run.first, run.last, _fed(self._prototype.new(), run)))
        for place, run in enumerate(known, start=1):
            pane = there[run.number]
            sketch = pane.sketch if place == len(known) else pane.sketch.copy()
            changed.append(pane.extended(run.first, run.last, _fed(sketch, run)))
        self._kept = list((there | {pane.number: pane for pane in changed}).values())

    # -- questions --------------------------------------------------------------------------------------------

    @property
    def questions(self) -> tuple[str, ...]:
        """What can be asked: the prototype's questions whose answers stay true for a range."""
        return (*self.measures, *(name for name in _OTHERS if hasattr(self._prototype.kind, name)))

    def ask(self, question: str, *args: Any, last: int | None = None, now: int | None = None, **options: Any) -> Any:
        """One of the `questions` with the arguments that it takes, about the events of a range."""
        if question not in self.questions:
            name = self._prototype.kind.__name__
            raise QueryError(f"panes of {name} cannot be asked for {question}", f"ask for {', '.join(self.questions)}")
        if question == "inner_product":
            return self._inner_product(*args, last=last, now=now, **options)
        view = self._view(*self._time.span(last, now))
        if question in ("top", "heavy_hitters"):
            return getattr(view, question)(*args, **options)
        truth = self.measures.get(question)
        if truth is not None and (truth in KEYED_TRUTHS) != bool(args):
            given, cure = ("keys", "leave them out") if args else ("no keys", "give a key, or an array of keys")
            raise QueryError(f"{question} by a {self._prototype.kind.__name__} with {given}", cure)
        if truth in _GROWING:
            self._check_growing(view)
            return view.growing(question, *args, **options)
        return view.from_around(question, *args, **options)

    def estimate(self, keys: Any = None, *, last: int | None = None, now: int | None = None) -> Answer:
        """What the prototype estimates: of each key, or of all events where it needs none."""
        return self._answer("estimate", keys, last, now)

    def frequency(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen, by a ValueEstimator."""
        return self._answer("frequency", keys, last, now)

    def distinct(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The number of distinct pairs, by a TugOfWar."""
        return self._answer("distinct", None, last, now)

    def self_join(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The sum over all keys of their squared frequencies, or as the prototype says."""
        return self._answer("self_join", None, last, now)

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The sum of all weights."""
        return self._answer("total", None, last, now)

    def _answer(self, question: str, keys: Any, last: int | None, now: int | None) -> Answer:
        answer: Answer = self.ask(question, *(() if keys is None else (keys,)), last=last, now=now)
        return answer

    def inner_product(self, other: Panes, *, last: int | None = None, now: int | None = None) -> Answer:
        """The sum over all keys of the product of their frequencies here and there.

        Of times, both sides are asked about one range, up to the newest time of either; of arrivals, each about its
        own last ones.
        """
        answer: Answer = self.ask("inner_product", other, last=last, now=now)
        return answer

    def contains(self, keys: Any, *, last: int | None = None, now: int | None = None) -> bool | NDArray[np.bool_]:
        """Whether each key may have been seen: False is certain."""
        found: bool | NDArray[np.bool_] = self.ask("contains", keys, last=last, now=now)
        return found

    def top(self, k: int, *, last: int | None = None, now: int | None = None) -> Ranking:
        """The k keys that can be the heaviest; fewer when fewer are kept, and the note says why."""
        ranking: Ranking = self.ask("top", k, last=last, now=now)
        return ranking

    def heavy_hitters(
        self,
        phi: float | None = None,
        *,
        count: int | None = None,
        mode: str = NO_FALSE_NEGATIVES,
        last: int | None = None,
        now: int | None = None,
    ) -> Ranking:
        """The keys with frequency at least `phi * N` in the range, or at least `count`; modes as in SpaceSaving."""
        ranking: Ranking = self.ask("heavy_hitters", phi, count=count, mode=mode, last=last, now=now)
        return ranking

    def _inner_product(self, other: Panes, *, last: int | None, now: int | None) -> Answer:
        if not isinstance(other, Panes):
            raise QueryError(f"an inner product with a {type(other).__name__}", "give panes of the same parameters")
        self._check_fit(self, other)
        if now is None and self.clock == TIME:
            now = max((time for time in (self.newest, other.newest) if time is not None), default=None)
        spans = self._time.span(last, now), other._time.span(last, now)
        cut = any(side._view(*span).cut for side, span in zip((self, other), spans, strict=True))
        here, there = self._view(*spans[0], halve=cut), other._view(*spans[1], halve=cut)
        if not cut:
            return here.growing("inner_product", there.around)
        self._check_growing(here)
        other._check_growing(there)
        product: dict[str, Answer] = {}
        for name in ("inside", "around"):
            product[name] = getattr(here, name).inner_product(getattr(there, name))
        return here.between(product["inside"], product["around"])

    def _check_growing(self, view: View) -> None:
        if view.cut and not view.around.only_grows:
            raise QueryError(
                f"the range {view.window} cuts a pane, and with negative weights nothing bounds what it holds",
                f"ask for whole panes: a range whose ends are multiples of {self.pane_length}",
            )

    def _view(self, start: int, end: int, *, halve: bool = False) -> View:
        """Both merges for a range; those of the last one are kept, since questions come in numbers."""
        view = self._last_view
        if view is not None and view.window == (start, end) and (view.cut or not halve):
            return view
        around = [pane for pane in self._kept if pane.first <= end and pane.last > start]
        inside = [pane for pane in around if pane.first > start and pane.last <= end]
        cut = [pane for pane in around if pane.first <= start or pane.last > end]
        certainty = 2 if cut or halve else 1
        merged = self._merged(inside, certainty)
        view = View(
            window=(start, end),
            inside=merged,
            around=self._merged(around, certainty) if cut else merged,
            share=_share_within(cut, start, end),
        )
        if cut or not halve:  # whole panes are otherwise asked at their whole delta
            self._last_view = view
        return view

    def _merged(self, panes: list[_Pane], certainty: int) -> Sketch:
        merged = self._prototype.new(certainty=certainty)
        try:
            merged._absorb([pane.sketch for pane in panes])
        except WeightError as problem:
            raise QueryError(f"the panes of this range cannot be merged: {problem.problem}", problem.cure) from None
        return merged

    # -- parts and bytes --------------------------------------------------------------------------------------

    def _absorb_parts(self, others: list[Panes]) -> None:
        self._time.absorb([other._time for other in others])
        panes: dict[int, list[_Pane]] = {}
        for pane in (pane for part in (self, *others) for pane in part._kept):
            panes.setdefault(pane.number, []).append(pane)
        oldest = self._number(self._time.edge + 1)
        self._keep([_together(parts) for number, parts in panes.items() if number >= oldest])

    def _pack_parameters(self) -> bytes:
        own = struct.pack("<QBQI", self.window, CLOCKS.index(self.clock), self.lateness, self.panes)
        return own + self._prototype.pack()

    @classmethod
    def _unpack_parameters(cls, reader: Reader) -> dict[str, Any]:
        window, clock, lateness, panes = reader.numbers("QBQI")
        if clock >= len(CLOCKS):
            raise DamagedBytesError(f"clock number {clock}", f"there are {len(CLOCKS)}: {', '.join(CLOCKS)}")
        own = {"window": window, "clock": CLOCKS[clock], "lateness": lateness, "panes": panes}
        return {"prototype": Prototype.unpack(reader), **own}

    def _write_state(self, writer: Writer) -> None:
        numbers = np.array([pane.number for pane in self._kept], dtype=np.int64)
        borders = numbers * self.pane_length + 1
        writer.numbers("I", numbers.size)
        writer.integers(numbers)
        writer.integers(np.array([pane.first for pane in self._kept], dtype=np.int64) - borders)
        writer.integers(np.array([pane.last for pane in self._kept], dtype=np.int64) - borders)
        for pane in self._kept:
            pane.sketch._write(writer)

    def _read_state(self, reader: Reader) -> None:
        (count,) = reader.numbers("I")
        oldest, latest = self._number(self._time.edge + 1), self._number(self._time.newest)
        if count > latest - oldest + 1 or self._time.started != (count > 0):
            raise DamagedBytesError(f"{count} panes in a window of {self.panes}")
        numbers = reader.integers(count, np.int64, low=oldest, high=latest)
        firsts, lasts = (reader.integers(count, np.int64, low=0, high=self.pane_length - 1) for _ in range(2))
        borders = numbers * self.pane_length + 1
        firsts, lasts = firsts + borders, lasts + borders
        # The newest event is always there: no pane leaves before it, and none is later.
        if np.any(numbers[1:] <= numbers[:-1]) or np.any(firsts > lasts) or (count and lasts[-1] != self._time.newest):
            raise DamagedBytesError("panes out of order, or with times that are not theirs")
        self._keep(
            _Pane(number, first, last, self._prototype.read(reader))
            for number, first, last in zip(numbers.tolist(), firsts.tolist(), lasts.tolist(), strict=True)
        )


def _fed(sketch: Sketch, run: Run) -> Sketch:
    sketch.update(**run.columns)
    return sketch


def _share_within(cut: list[_Pane], start: int, end: int) -> float:
    """How much of the time between first and last events of these panes lies in the range."""
    ticks = sum(pane.last - pane.first + 1 for pane in cut)
    within = sum(min(pane.last, end) - max(pane.first, start + 1) + 1 for pane in cut)
    return within / ticks if ticks else 1.0


def _together(parts: list[_Pane]) -> _Pane:
    """The pane of all their events; the parts stay as they were."""
    first, *others = parts
    sketch = first.sketch.copy()
    if others:
        sketch._absorb([pane.sketch for pane in others])
    return replace(first, first=min(pane.first for pane in parts), last=max(pane.last for pane in parts), sketch=sketch)
