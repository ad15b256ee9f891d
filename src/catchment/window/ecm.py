"""ECMSketch: how often was this key seen in the last hour, everywhere? A Count-Min whose counters live in time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer
from catchment.kernel.count_min import look_up_smallest, place_cells
from catchment.kernel.hashing import column_draws
from catchment.sketch.bounds import collision_floor, empirical_slack, widened
from catchment.sketch.checks import check_choice, check_fraction, check_whole
from catchment.sketch.keys import KeyBatch, as_keys, hash_keys
from catchment.window.base import CLOCK_LAYOUT
from catchment.window.clock import TIME, clock_parameters
from catchment.window.grid_sketch import COUNTERS, Counts, GridSketch
from catchment.window.randomized_grid import RandomizedGrid

__all__ = ["ECMSketch"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

POINT, JOIN = "point", "join"
PURPOSES = (POINT, JOIN)


class ECMSketch(GridSketch):
    """Frequencies of keys in a sliding window: `depth` rows of `width` counters in time.

    **Guarantee.** Let N be the weight in the range that is asked about and f a key's, fixed before the seed was drawn.
    The estimate, rounded to a whole number, misses f by more than `epsilon * N` with probability at most `delta`, for
    events in order and any range in the window that ends now. `high` is never below f, unless the counters are
    randomised, and `low` is above f with probability at most delta, whatever came late and wherever the range ends.
    This stays true after any tree of merges: the sketch keeps the error that its merges have added, and `epsilon` and
    every bound include it.

    *Proof.* A counter is within its error e of the arrivals that it was given, always (`window.wave_grid`,
    `window.histogram_grid`), and these are within the inherited error of the true ones (`window.pooled`), so a row's
    counter for the key lies between what its interval says. The least true counter of the key exceeds f by more than
    `epsilon_cm * N` with probability at most delta, as in `CountMin`, whose two bounds on that are used here on the
    ends of the intervals. The value, the least counter, is at most (1 + e)(f + epsilon_cm (N - f)), which is largest
    at f = 0 or f = N: epsilon is the larger of e and (1 + e) epsilon_cm.

    Inner products and self-joins: `epsilon * N * N'`, with (1 + e)^2 - 1 and (1 + e)^2 epsilon_cm instead.

    Randomised counters get half of delta, shared by all of them. Counts by pane have an error of
    one pane at the range's edge, which no epsilon bounds: the answer's own interval does.

    **What it costs.** About width * depth * log2(N * error/width) levels of 1/(2 error) times, 4 bytes each, error
    being that of a counter; `catchment bench windows` prints it for every counter. **Where a simpler one wins.** An
    exact window keeps every event, and is as fast: it is smaller up to some thousand events at epsilon 0.1, up to a
    hundred thousand and more at 0.01. If people ask only for ranges of many panes, `counter="panes"` is smaller and
    merges without error.

    Parameters
    ----------
    epsilon, delta
        The error as a fraction of the weight in the range, and the probability of failure; they choose the size.
    window, arrivals
        The window: ticks of time, in any integer unit, or a number of events.
    counter
        `"wave"` (fast and small), `"eh"` (the textbook's), `"randomized"` (merges without loss, large) or `"panes"`.
    lateness
        How late an event may be and still be taken, in ticks; the whole window by default.
    optimize_for
        What epsilon is meant for: `"point"` or `"join"` (inner products and self-joins).
    constant
        The size of randomised counters times their squared error: 36 is proven, 6 is practical.
    seed
        Chooses the hash functions. Whoever knows it can build keys that collide: draw it at random for hostile input.

    Examples
    --------
    >>> import numpy as np
    >>> sites = [ECMSketch(epsilon=0.05, delta=0.01, window=3600) for _ in range(3)]
    >>> for site in sites:
    ...     site.update(["/", "/index.html", "/", "/"], at=[10, 1800, 3000, 3600])
    >>> everywhere = ECMSketch.merge(sites)
    >>> print(everywhere.estimate("/"))
    9 in [9, 9] with confidence 0.99
    >>> print(everywhere.estimate("/", last=600))
    3 in [3, 3] with confidence 0.99
    >>> everywhere.total(last=2000).value
    9

    References
    ----------
    O. Papapetrou, M. Garofalakis, A. Deligiannakis: Sketching distributed sliding-window data streams, VLDB Journal
    24(3), 2015; the same, PVLDB 5(10), 2012.
    """

    family: ClassVar[int] = 14
    measures = {"estimate": "frequency", "self_join": "self_join", "total": "total"}
    _layout = {
        "width": "I", "depth": "I", "delta": "d", "seed": "Q", "counter": tuple(COUNTERS), "size": "I",
        "optimize_for": PURPOSES, **CLOCK_LAYOUT,
    }  # fmt: skip

    width: int
    depth: int
    optimize_for: str

    def __init__(
        self,
        epsilon: float = 0.05,
        delta: float = 0.01,
        *,
        window: int | None = None,
        arrivals: int | None = None,
        counter: str = "wave",
        lateness: int | None = None,
        optimize_for: str = POINT,
        constant: float = 6.0,
        seed: int = 0,
    ) -> None:
        sizes = self.suggest(epsilon, delta, counter=counter, optimize_for=optimize_for, constant=constant)
        self._configure(**sizes, seed=seed, **clock_parameters(window, arrivals, lateness))
        self._clear()

    @classmethod
    def for_tree(
        cls,
        epsilon: float = 0.05,
        delta: float = 0.01,
        *,
        window: int,
        height: int,
        counter: str = "wave",
        lateness: int | None = None,
        optimize_for: str = POINT,
        seed: int = 0,
    ) -> Self:
        """A leaf for a tree of merges `height` levels high, so that its root has error `epsilon`.

        Merging all sites at once is a tree of height 1, however many there are.

        >>> leaf = ECMSketch.for_tree(0.1, 0.1, window=3600, height=3)
        >>> leaf.size, ECMSketch(0.1, 0.1, window=3600).size
        (22, 6)
        """
        check_whole("height", height, 0, 64)
        sizes = cls.suggest(epsilon, delta, counter=counter, optimize_for=optimize_for, height=height)
        return cls.sized(**sizes, seed=seed, **clock_parameters(window, None, lateness))

    @classmethod
    def suggest(
        cls,
        epsilon: float,
        delta: float,
        *,
        counter: str = "wave",
        optimize_for: str = POINT,
        constant: float = 6.0,
        height: int = 0,
    ) -> dict[str, Any]:
        """The smallest sizes, by the split of epsilon between hashing and time that the paper proves best.

        >>> sizes = ECMSketch.suggest(0.1, 0.1)
        >>> sizes["width"], sizes["depth"], sizes["size"]
        (30, 3, 6)
        """
        check_fraction("epsilon", epsilon)
        check_fraction("delta", delta)
        check_choice("counter", counter, tuple(COUNTERS))
        check_choice("optimize_for", optimize_for, PURPOSES)
        in_time = epsilon if optimize_for == POINT else math.sqrt(1 + epsilon) - 1
        if counter == "randomized":
            size = RandomizedGrid.size_for(in_time, constant=constant)
        else:
            size = COUNTERS[counter].size_for(in_time, height)
        return {
            "width": math.ceil(math.e * (1 + epsilon) / epsilon - 1e-9),
            "depth": math.ceil(math.log(1 / (delta / 2 if counter == "randomized" else delta)) - 1e-9),
            "delta": delta,
            "counter": counter,
            "size": size,
            "optimize_for": optimize_for,
        }

    def _configure(
        self,
        *,
        width: int,
        depth: int,
        size: int,
        window: int,
        delta: float | None = None,
        seed: int = 0,
        counter: str = "wave",
        optimize_for: str = POINT,
        clock: str = "time",
        lateness: int = 0,
    ) -> None:
        self.width = check_whole("width", width, 1, 2**28)
        self.depth = check_whole("depth", depth, 1, 64)
        check_whole("width * depth", self.width * self.depth, 1, 2**30)
        self.delta = check_fraction("delta", math.exp(-depth) if delta is None else delta)
        self.seed = check_whole("seed", seed, 0, 2**64 - 1)
        self.counter = check_choice("counter", counter, tuple(COUNTERS))
        self.size = check_whole("size", size, 2, COUNTERS[self.counter].largest_size)
        self.optimize_for = check_choice("optimize_for", optimize_for, PURPOSES)
        self._set_clock(window, clock, lateness)
        self._rows = column_draws(self.seed, self.depth)

    def _cells(self) -> int:
        return self.width * self.depth

    def _row_length(self) -> int:
        return self.width

    # -- what it promises -------------------------------------------------------------------------------------

    @property
    def _hashing_delta(self) -> float:
        return self.delta / 2 if self.counter == "randomized" else self.delta

    @property
    def epsilon(self) -> float:
        hashing = self._collision_share(self._hashing_delta)
        in_time = self.counter_error
        if self.optimize_for == JOIN:
            in_time = (1 + in_time) ** 2 - 1
        return max(in_time, (1 + in_time) * hashing)

    @property
    def guarantee(self) -> str:
        unit = "N * N" if self.optimize_for == JOIN else "N"
        return (
            f"truth in [low, high] with probability {1 - self.delta:g}; for events in order and a range of weight N up "
            f"to now, the value misses it by at most {self.epsilon:.3g} * {unit}"
        )

    # -- events -----------------------------------------------------------------------------------------------

    def update(self, keys: Any, *, at: Any = None, weights: Any = 1) -> None:
        """Count each key at its time, once or by its weight: integers, not negative.

        Times in order are the fast path; a late event is counted at the newest time seen, and the bounds know. In a
        window of arrivals there are no times: each event is one arrival, whatever its weight.
        """
        batch = as_keys(keys)
        stamps = self._time.read(at, len(batch))
        self._arrive(stamps, weights, lambda taken: self._placed(batch, taken))

    def _placed(self, batch: KeyBatch, taken: NDArray[np.bool_] | None) -> Callable[[slice], I32]:
        # Block by block: an array of all hashes would cost a third of the time, for its first touch of memory.
        chosen = batch if taken is None else batch.take(np.flatnonzero(taken))
        return lambda part: self._cells_of(chosen.part(part.start, part.stop).hashes())

    def _cells_of(self, hashes: U64) -> I32:
        """The cells of a block of keys in each row."""
        cells = np.empty((self.depth, hashes.size), dtype=np.int32)
        place_cells(hashes, self._rows, self.width, cells)
        return cells

    # -- questions --------------------------------------------------------------------------------------------

    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the range; one key gives numbers, an array of keys gives arrays."""
        hashes, scalar = hash_keys(keys)
        start, end = self._time.span(last, now)
        counts = self._rows_between(start, end, self.delta / 2 / self._cells())  # the low end looks at whole rows
        value, low, high = (self._smallest(cells, hashes) for cells in counts)
        total = int(counts.high.sum(axis=1).min())
        low = np.maximum(
            collision_floor(low, total, self._collision_share(self._hashing_delta / 2)),
            low - self._slack_of(start, end, counts),
        )
        low = np.clip(low, 0, value)
        answer = self._answer(value, low, high, start, end)
        return answer[0] if scalar else answer

    def self_join(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The sum over all keys of their squared frequencies in the range."""
        start, end = self._time.span(last, now)
        counts = self._rows_between(start, end, self.delta / 2 / self._cells())
        return self._joined(counts, counts, start, end)

    def inner_product(self, other: ECMSketch, *, last: int | None = None, now: int | None = None) -> Answer:
        """The sum over all keys of the product of their frequencies here and there, in the same range of time.

        In windows of arrivals, each in its own last ones.
        """
        self._check_fit(self, other)
        if self.clock == TIME and now is None and other._time.started:
            now = max(self._time.newest, other._time.newest) if self._time.started else other._time.newest
        start, end = self._time.span(last, now)
        there = other._time.span(last, now)
        share = self.delta / 4 / self._cells()
        ours, theirs = self._rows_between(start, end, share), other._rows_between(*there, share)
        return replace(self._joined(ours, theirs, start, end), epsilon=max(self.epsilon, other.epsilon))

    def counts(self, *, last: int | None = None, now: int | None = None) -> I64:
        """Every counter's estimate in the range, row by row: a Count-Min sketch of what is in it."""
        start, end = self._time.span(last, now)
        return self._rows_between(start, end, self.delta / self._cells()).value.copy()

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight of all events in the range.

        Every row holds all events, so each gives an interval, and their intersection is the answer.
        """
        start, end = self._time.span(last, now)
        value, low, high = self._total(self._rows_between(start, end, self.delta / self._cells()))
        confidence = 1.0 if self.counter != "randomized" else 1 - self.delta
        return Answer(value, low, high, confidence=confidence, epsilon=self.counter_error, window=(start, end))

    def _rows_between(self, start: int, end: int, delta: float) -> Counts:
        counts = self._between(start, end, delta=delta if self.counter == "randomized" else 0.0)
        return Counts(*(part.reshape(self.depth, self.width) for part in counts))

    def _smallest(self, cells: I64, hashes: U64) -> I64:
        out = np.empty(hashes.size, dtype=np.int64)
        look_up_smallest(np.ascontiguousarray(cells), self._rows, hashes, out)
        return out

    def _slack_of(self, start: int, end: int, counts: Counts) -> int:
        """The bound by what the rows hold, kept with the counts that it belongs to."""
        key = "slack", start, end
        if key not in self._answered:
            self._answered[key] = empirical_slack(counts.high, self._hashing_delta / 2)
        found: int = self._answered[key]
        return found

    def _collision_share(self, delta: float) -> float:
        return float(delta ** (-1 / self.depth) / self.width)

    @staticmethod
    def _total(counts: Counts) -> tuple[int, int, int]:
        low, high = int(counts.low.sum(axis=1).max()), int(counts.high.sum(axis=1).min())
        return int(np.clip(round(float(counts.value.sum(axis=1).mean())), low, max(low, high))), low, max(low, high)

    def _joined(self, ours: Counts, theirs: Counts, start: int, end: int) -> Answer:
        products = (np.einsum("ij,ij->i", one, two, dtype=np.float64) for one, two in zip(ours, theirs, strict=True))
        value, least, most = (float(rows.min()) for rows in products)
        (_, own_low, own), (_, _, other) = self._total(ours), self._total(theirs)
        share = self._collision_share(self._hashing_delta)
        low = float(collision_floor(np.array([least]), float(own) * other, share)[0])
        if ours is theirs:
            low = max(low, float(own_low))  # each event is at least a pair with itself
        low = min(max(low, 0.0), value)
        return self._answer(value, *widened(low, most), start, end)

    def _answer(self, value: Any, low: Any, high: Any, start: int, end: int) -> Answer:
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon, window=(start, end))

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._rows.nbytes
