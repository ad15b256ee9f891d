"""SplitterCountMin: every counter notes when its rate changed, and forgets each stretch at the rate it came at."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, ParameterError
from catchment.kernel.windowed_count_min import (
    FREE,
    SPARE,
    list_sub_cells,
    read_all_cells,
    read_smallest_cells,
    split_cells,
)
from catchment.sketch.bounds import empirical_slack
from catchment.sketch.checks import MASS_LIMIT
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import hash_keys
from catchment.window.clock import ARRIVALS, TIME_LIMIT, clock_parameters
from catchment.window.jumping_count_min import JumpingCountMin

__all__ = ["SplitterCountMin"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]

_FIRST_ROOM = 16
_NEVER = -(2**62)
_FIELDS = ("_counts", "_sure", "_most", "_init", "_last")
"""The parts of a sub-cell: `kernel.windowed_count_min` says what they are."""


class SplitterCountMin(JumpingCountMin):
    """A Count-Min whose counters are queues of sub-cells, each a stretch of time with one rate of events.

    When a counter's rate changes by more than the factor `beta`, a new sub-cell begins; what leaves the window is taken
    off the oldest sub-cell at that one's own rate. So the estimate follows streams that change within a window, with
    memory for changes only.

    **Guarantee.** The thesis gives none for the estimate, and there is none: within a sub-cell the events may have
    come unevenly. The bounds do hold. Every sub-cell also has whole numbers of its events that are in the window for
    certain, and at most; so a counter is known to lie between two numbers, and no worse than from its jump windows, as
    in `ProportionalCountMin`. `high` is the least of these upper numbers over rows, and always holds. `low` is the
    lower bound of `CountMin` on the least of the lower numbers, with the upper ones for what other keys may add, and
    holds with probability 1 - `delta`. While events come late, `low` is less by the weight of those that were late in
    the two jump windows, as far as one of them may belong before the window.

    Merging keeps all sub-cells of all parts in one queue, each of which goes on leaving the window by its own rate, so
    that estimates add and bounds stay true. It is not the sketch that one stream of all events would have given.

    **Space** (thesis, Lemma 3.7). A sub-cell holds `gamma/width` of the weight of a window before another begins, so a
    row has at most width/gamma closed ones, besides two for each counter. What a window weighs is here the larger of
    the two jump windows, and at least `arrivals`: the thesis's M is right for arrivals of weight one, and would stop
    all splitting where a window is 3.6 billion microseconds long and has a million events.

    **Where a simpler one wins.** On streams that do not change within a window, `ProportionalCountMin` is as close for
    less. Where the error in time must be promised, not only bounded afterwards, `ECMSketch`.

    Parameters
    ----------
    epsilon, delta
        The error by colliding keys as a fraction of the weight, and the probability of failure; they choose the size.
    window, arrivals
        The length of the window: in ticks of time, or in a number of events. Give one.
    lateness
        How late an event may be and still be taken, in ticks; the window by default.
    seed
        Chooses the hash functions.
    gamma
        The least share of a counter's usual weight that a sub-cell holds before it is judged, above 0, at most 1.
    beta
        The factor between two rates from which they are kept apart; at 1 or less they always are.

    Examples
    --------
    >>> sketch = SplitterCountMin(epsilon=0.01, delta=0.01, window=100)
    >>> sketch.update(["a"] * 100, at=[7] * 20 + [42] * 80)
    >>> sketch.update(["b"] * 30, at=range(100, 130))
    >>> print(sketch.estimate("a"))
    80 in [80, 80] with confidence 0.99

    References
    ----------
    N. Rivetti: Efficient stream analysis and its application to big data processing, PhD thesis, Nantes and Rome,
    2016, section 3.2.4.
    """

    family: ClassVar[int] = 23
    linear = False
    merge_adds_error = True
    _layout = {**JumpingCountMin._layout, "gamma": "d", "beta": "d"}

    gamma: float
    beta: float
    _counts: F64
    _sure: I64
    _most: I64
    _init: I64
    _last: I64

    def __init__(
        self,
        epsilon: float = 0.1,
        delta: float = 0.1,
        *,
        window: int | None = None,
        arrivals: int | None = None,
        lateness: int | None = None,
        seed: int = 0,
        gamma: float = 0.05,
        beta: float = 1.5,
    ) -> None:
        clock = clock_parameters(window, arrivals, lateness)
        self._configure(**self.suggest(epsilon, delta), seed=seed, **clock, gamma=gamma, beta=beta)
        self._clear()

    def _configure(self, *, gamma: float = 0.05, beta: float = 1.5, **parameters: Any) -> None:
        super()._configure(**parameters)
        self.gamma = _checked("gamma", gamma, 1e-9, 1.0)
        self.beta = _checked("beta", beta, 1e-9, 1e9)

    def _clear(self) -> None:
        super()._clear()
        empty = {name: np.zeros(0, dtype=np.float64 if name == "_counts" else np.int64) for name in _FIELDS}
        self._load(np.zeros(0, dtype=np.int64), empty)

    @property
    def guarantee(self) -> str:
        return (
            f"estimate within {self.epsilon:.3g} * weight in the window of the truth where rates are even between "
            f"splits; the bounds, which do not assume it, hold with probability {1 - self.delta:g}"
        )

    @property
    def splits(self) -> int:
        """Sub-cells beyond the two that a counter has while its rate does not change."""
        lengths = np.bincount(self._sub_cells(self._time.edge)[0], minlength=self.depth * self.width)
        return int(np.maximum(lengths - 2, 0).sum())

    # -- the pool of sub-cells --------------------------------------------------------------------------------

    def _load(self, cells: I64, fields: dict[str, NDArray[Any]]) -> None:
        """Hold these sub-cells and no others: the cell of each, in order, and its parts."""
        for name in _FIELDS:
            setattr(self, name, fields[name])
        lengths = np.bincount(cells, minlength=self.depth * self.width)
        ends = np.cumsum(lengths)
        self._heads = np.where(lengths > 0, ends - lengths, -1).astype(np.int32)
        self._bottoms = np.where(lengths > 0, ends - 1, -1).astype(np.int32)
        self._seconds = np.where(lengths > 1, ends - 2, -1).astype(np.int32)
        self._following = np.arange(1, cells.size + 1, dtype=np.int32)
        self._following[self._bottoms[lengths > 0]] = -1
        end = self._starts(self._time.newest)[0] + self.window if self._time.started else _NEVER
        self._slack_end = 0
        self._state = np.array([-1, 0, end], dtype=np.int64)

    def _grow(self) -> None:
        """Make the pool half as large again, and enough for one event."""
        before = self._counts.size
        more = max(before // 2, self.depth, _FIRST_ROOM)
        for name in _FIELDS:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(more, dtype=old.dtype)]))
        links = np.arange(before + 1, before + more + 1, dtype=np.int32)
        links[-1] = self._state[FREE]
        self._following = np.concatenate([self._following, links])
        self._state[FREE] = before
        self._state[SPARE] += more

    def _sub_cells(self, edge: int) -> tuple[I64, dict[str, NDArray[Any]]]:
        """The cell and the parts of every sub-cell that has not left a window with that edge."""
        cells, places = np.empty((2, self._counts.size), dtype=np.int64)
        used = list_sub_cells(edge + 1, self._heads, self._last, self._following, cells, places)
        return cells[:used], {name: getattr(self, name)[places[:used]] for name in _FIELDS}

    @property
    def _pool(self) -> tuple[F64, I64, I64, I64, I64, I32]:
        return self._counts, self._sure, self._most, self._init, self._last, self._following

    # -- events and questions ---------------------------------------------------------------------------------

    def _count(self, hashes: U64, times: I64, weights: I64, passed: int, parts: list[slice]) -> None:
        done = 0
        usual = self.window if self.clock == ARRIVALS else 0
        while done < times.size:
            if self._state[SPARE] < self.depth:
                self._grow()
            done = split_cells(
                done, times, hashes, weights, self._rows, self.width, self.window, self._origin, usual,
                self.gamma, self.beta, self._state, self._totals, self._cells.reshape(2, -1),
                self._heads, self._bottoms, self._seconds, *self._pool,
            )  # fmt: skip

    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the window; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        span = self._whole_window(last, now)
        floors, ceilings = self._from_jumps(span[1])
        values, lows, highs = _outputs(hashes.size)
        read_smallest_cells(
            hashes, self._rows, self.width, span[0] + 1, floors, ceilings, self._heads, *self._pool, values, lows, highs
        )
        mass = int(sum(self._phase(span[1]).seen(self._totals)))
        low = self._low(lows, mass, self._slack_at(span)) - sum(self._misplaced(span[1]))
        return self._answer(values, low, highs, span, scalar)

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight in the window: the mean over rows of their counters' estimates, in bounds that always hold."""
        span = self._whole_window(last, now)
        values, lows, highs = (cells.reshape(self.depth, -1).sum(axis=1) for cells in self._read_all(span))
        low = int(lows.max()) - sum(self._misplaced(span[1]))
        return self._total_answer(float(values.mean()), low, int(highs.min()), span)

    def _from_jumps(self, end: int) -> tuple[I64, I64]:
        """The least and the most of each counter, by the jump windows alone."""
        current, previous = self._phase(end).seen(self._cells)
        return current.reshape(-1), (current + previous).reshape(-1)

    def _read_all(self, span: tuple[int, int]) -> tuple[F64, I64, I64]:
        """The estimate of every counter, and its bounds."""
        floors, ceilings = self._from_jumps(span[1])
        values, lows, highs = _outputs(self.depth * self.width)
        read_all_cells(span[0] + 1, floors, ceilings, self._heads, *self._pool, values, lows, highs)
        return values, lows, highs

    def _slack_at(self, span: tuple[int, int]) -> int:
        if self._slack is None or self._slack_end != span[1]:
            highs = self._read_all(span)[2].reshape(self.depth, self.width)
            self._slack, self._slack_end = empirical_slack(highs, self.delta / 2), span[1]
        return self._slack

    # -- parts and bytes --------------------------------------------------------------------------------------

    def _absorb_parts(self, others: list[SplitterCountMin]) -> None:
        parts = [self, *others]
        newest = max((part._time.newest for part in parts if part._time.started), default=0)
        queues = [part._sub_cells(newest - self.window) for part in parts]
        super()._absorb_parts(others)
        cells = np.concatenate([part for part, _ in queues])
        fields = {name: np.concatenate([part[name] for _, part in queues]) for name in _FIELDS}
        order = _queue_order([part for part, _ in queues], cells, fields)
        self._load(cells[order], {name: field[order] for name, field in fields.items()})

    def _write_state(self, writer: Writer) -> None:
        super()._write_state(writer)
        cells, fields = self._sub_cells(self._time.edge)
        writer.integers(np.bincount(cells, minlength=self.depth * self.width))
        writer.integers(fields["_last"])
        writer.integers(fields["_last"] - fields["_init"])
        writer.integers(fields["_most"])
        writer.integers(fields["_most"] - fields["_sure"])
        # Most counts are the whole number that `most` is; the others take their eight bytes.
        faded = fields["_counts"] != fields["_most"]
        writer.integers(faded.astype(np.uint8))
        writer.raw(fields["_counts"][faded].astype("<f8").tobytes())

    def _read_state(self, reader: Reader) -> None:
        super()._read_state(reader)
        lengths = reader.integers(self.depth * self.width, np.int64, low=0, high=2**31 - 1)
        count = int(lengths.sum())
        newest = self._time.newest
        if count >= 2**31 or (count and not self._time.started):
            raise DamagedBytesError(f"{count} sub-cells")
        last = reader.integers(count, np.int64, low=newest - self.window + 1, high=newest)
        init = last - reader.integers(count, np.int64, low=0, high=min(self.window, TIME_LIMIT) - 1)
        most = reader.integers(count, np.int64, low=1, high=MASS_LIMIT - 1)
        sure = most - reader.integers(count, np.int64, low=0, high=MASS_LIMIT - 1)
        faded = reader.integers(count, np.uint8, low=0, high=1).astype(np.bool_)
        counts = most.astype(np.float64)
        counts[faded] = np.frombuffer(reader.raw(8 * int(faded.sum())), dtype="<f8")
        cells = np.repeat(np.arange(lengths.size), lengths)
        in_order = (init[1:] >= init[:-1]) | (cells[1:] != cells[:-1])
        if not (np.all(in_order) and np.all(sure >= 0) and np.all((counts > 0) & (counts < 2.0**63))):
            raise DamagedBytesError("sub-cells that contradict themselves")
        if np.any(counts[faded] == most[faded]):
            raise DamagedBytesError("a count written out that need not be")
        self._load(cells, {"_counts": counts, "_sure": sure, "_most": most, "_init": init, "_last": last})


def _checked(name: str, value: float, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not low <= value <= high:
        raise ParameterError(f"{name}={value!r}", f"give a number from {low:g} to {high:g}")
    return float(value)


def _outputs(count: int) -> tuple[F64, I64, I64]:
    return np.empty(count), np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)


def _queue_order(parts: list[I64], cells: I64, fields: dict[str, NDArray[Any]]) -> I64:
    """The order of sub-cells of several sketches: by cell, then by init, then by all else.

    The order of the parts must not matter, and a cell that only one part has anything in must stay as it was, so
    there the place in that part's queue comes before everything.
    """
    several = np.bincount(np.concatenate([np.unique(part) for part in parts]), minlength=int(cells.max(initial=0)) + 1)
    shared = several[cells] > 1
    keys = [np.where(shared, fields[name], 0) for name in ("_counts", "_sure", "_most", "_last")]
    first = np.where(shared, fields["_init"], np.arange(cells.size))
    order: I64 = np.lexsort((*keys, first, cells))
    return order
