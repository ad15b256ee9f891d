"""DyadicECM: ranges, quantiles, heavy hitters and heavy networks of the last hour, over keys that have an order."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.errors import DamagedBytesError, ParameterError, QueryError
from catchment.sketch.checks import MASS_LIMIT, SMALLEST_FRACTION, check_choice, check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch
from catchment.sketch.space_saving import NO_FALSE_NEGATIVES, NO_FALSE_POSITIVES
from catchment.window.base import CLOCK_LAYOUT, WindowSketch
from catchment.window.clock import clock_parameters
from catchment.window.ecm import ECMSketch
from catchment.window.grid_sketch import COUNTERS
from catchment.window.ordered import FLOAT, INTEGER, IPV4, ORDERS, decoded, encoded, widest

__all__ = ["DyadicECM"]

U64 = NDArray[np.uint64]


class DyadicECM(WindowSketch):
    """An ECM-sketch for every length of prefix: one of the keys, one of the keys without their last `step` bits, …

    **Guarantee.** Let N be the weight in the range of time that is asked about. Each node of a level, a prefix, is
    within `epsilon * N`, and its `high` is never too low (unless counters are randomised). Therefore:

    - `count_between` adds up at most `most_nodes` nodes: its interval holds with probability at least 1 - `delta`.
    - `quantile`: its interval of keys holds always (unless counters are randomised).
    - `heavy_hitters` with no_false_negatives, the default, returns every key with f >= phi * N, always, and no key
      below (phi - 2 epsilon) N but with probability delta each (Theorem 5 of the paper, with phi + epsilon for phi);
      no_false_positives returns only keys with f >= phi * N, each with probability at least 1 - delta.
    - `heavy_prefixes`: the same for every prefix.

    All of it stays true after any tree of merges, with the epsilon that the merged sketch then has.

    *Proof.* A prefix weighs at least as much as any key under it, so a search from the shortest prefixes down that
    drops only those whose `high` is below the threshold drops no heavy key. A range is the union of the nodes of its
    dyadic decomposition, whose intervals add; each lower end fails with probability at most delta/most_nodes, which is
    the delta that the levels are built with. For a quantile two searches go down the tree by sums of upper ends: from
    the left, to the first key that can have rank q N, and from the right, to the first key after which there is too
    little left for a later one. They fail only if an upper end does.

    **What it costs.** `bits/step` ECM-sketches, in memory and in time. A larger step has fewer levels, and up to
    2^(step+1) nodes a level in a range. **Where a simpler one wins.** For heavy hitters alone, of keys with or without
    an order, `Panes(SpaceSaving(...))` is smaller and faster, and its bounds never fail.

    Parameters
    ----------
    epsilon, delta
        The error of one node as a fraction of the weight in the range, and the probability that an answer fails.
    window, arrivals, counter, lateness, seed
        As for `ECMSketch`.
    bits
        Keys are below 2^bits; 64 for floats and 32 for addresses, whatever is given.
    step
        Bits from one level to the next: 8 for the networks /8, /16, /24 and /32 of addresses.
    order
        `"integer"` (from 0), `"signed"`, `"float"`, or `"ipv4"`, as text or as numbers.

    Examples
    --------
    >>> traffic = DyadicECM(epsilon=0.02, delta=0.01, window=3600, order="ipv4", step=8)
    >>> traffic.update(["10.1.1.1"] * 60 + ["10.1.2.3"] * 30 + ["192.0.2.7"] * 10, at=range(100))
    >>> traffic.heavy_hitters(phi=0.5).keys
    ('10.1.1.1',)
    >>> traffic.heavy_prefixes(phi=0.8).keys
    ('10.0.0.0/8', '10.1.0.0/16')
    >>> traffic.count_between("10.1.2.0", "10.1.2.255").value
    30

    References
    ----------
    O. Papapetrou, M. Garofalakis, A. Deligiannakis: Sketch-based querying of distributed sliding-window data streams,
    PVLDB 5(10), 2012, section 6.1. G. Cormode, S. Muthukrishnan: An improved data stream summary, J. Algorithms
    55(1), 2005. G. Cormode, F. Korn, S. Muthukrishnan, D. Srivastava: Finding hierarchical heavy hitters in data
    streams, VLDB 2003.
    """

    family: ClassVar[int] = 15
    names_keys = True
    measures = {"estimate": "frequency", "self_join": "self_join", "total": "total"}
    _layout = {
        "width": "I", "depth": "I", "delta": "d", "seed": "Q", "counter": tuple(COUNTERS), "size": "I",
        "bits": "B", "step": "B", "order": ORDERS, **CLOCK_LAYOUT,
    }  # fmt: skip

    width: int
    depth: int
    delta: float
    seed: int
    counter: str
    size: int
    bits: int
    step: int
    order: str

    def __init__(
        self,
        epsilon: float = 0.02,
        delta: float = 0.01,
        *,
        window: int | None = None,
        arrivals: int | None = None,
        bits: int = 32,
        step: int = 4,
        order: str = INTEGER,
        counter: str = "wave",
        lateness: int | None = None,
        seed: int = 0,
    ) -> None:
        sizes = self.suggest(epsilon, delta, bits=bits, step=step, order=order, counter=counter)
        self._configure(**sizes, seed=seed, **clock_parameters(window, arrivals, lateness))
        self._clear()

    @classmethod
    def for_tree(
        cls,
        epsilon: float = 0.02,
        delta: float = 0.01,
        *,
        window: int,
        height: int,
        bits: int = 32,
        step: int = 4,
        order: str = INTEGER,
        lateness: int | None = None,
        seed: int = 0,
    ) -> Self:
        """A leaf for a tree of merges `height` levels high, so that its root has error `epsilon`."""
        check_whole("height", height, 0, 64)
        sizes = cls.suggest(epsilon, delta, bits=bits, step=step, order=order, height=height)
        return cls.sized(**sizes, seed=seed, **clock_parameters(window, None, lateness))

    @classmethod
    def suggest(
        cls,
        epsilon: float,
        delta: float,
        *,
        bits: int = 32,
        step: int = 4,
        order: str = INTEGER,
        counter: str = "wave",
        height: int = 0,
    ) -> dict[str, Any]:
        """The sizes of each level: an ECM-sketch's, with delta shared by the nodes of a range.

        >>> DyadicECM.suggest(0.1, 0.1)["depth"], ECMSketch.suggest(0.1, 0.1)["depth"]
        (8, 3)
        """
        check_fraction("delta", delta)
        bits = bits_of(order, bits)
        share = _share(delta, bits, check_whole("step", step, 1, 16))
        sizes = ECMSketch.suggest(epsilon, share, counter=counter, height=height)
        del sizes["optimize_for"]
        return {**sizes, "delta": delta, "bits": bits, "step": step, "order": order}

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """As the counters of its levels."""
        return self.counter == "panes"

    @property
    def merge_adds_error(self) -> bool:  # type: ignore[override]
        """As the counters of its levels."""
        return self.counter != "panes"

    def _configure(
        self,
        *,
        width: int,
        depth: int,
        size: int,
        window: int,
        delta: float = 0.01,
        seed: int = 0,
        counter: str = "wave",
        bits: int = 32,
        step: int = 4,
        order: str = INTEGER,
        clock: str = "time",
        lateness: int = 0,
    ) -> None:
        self.width, self.depth, self.size, self.seed, self.counter = width, depth, size, seed, counter
        self.delta = check_fraction("delta", delta)
        self.bits = bits_of(order, bits)
        self.step = check_whole("step", step, 1, 16)
        self.order = order
        self._set_clock(window, clock, lateness)
        ECMSketch.__new__(ECMSketch)._configure(**self._level_parameters())  # checks what it would check

    def _level_parameters(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("width", "depth", "size", "seed", "counter", *CLOCK_LAYOUT)}
        return {**own, "delta": _share(self.delta, self.bits, self.step)}

    def _clear(self) -> None:
        self._take_levels([ECMSketch.sized(**self._level_parameters()) for _ in range(self.levels)])

    def _take_levels(self, levels: list[ECMSketch]) -> None:
        self._levels = levels
        self._time = levels[0]._time  # one clock for all: they see the same times

    @property
    def levels(self) -> int:
        """How many lengths of prefixes there are."""
        return -(-self.bits // self.step)

    @property
    def most_nodes(self) -> int:
        """The most nodes whose sum an answer can be."""
        return _most_nodes(self.bits, self.step)

    @property
    def epsilon(self) -> float:
        return max(sketch.epsilon for sketch in self._levels)

    @property
    def guarantee(self) -> str:
        return (
            f"truth in [low, high] with probability {1 - self.delta:g}; over a range of weight N each node is within "
            f"{self.epsilon:.3g} * N, and a range of keys has at most {self.most_nodes} nodes"
        )

    # -- events -----------------------------------------------------------------------------------------------

    def read_keys(self, keys: Any) -> KeyBatch:
        """The codes of the keys, as a batch that `update` takes for what it is."""
        return KeyBatch.of_integers(encoded(keys, self.order, self.bits)[0].view(np.int64))

    def update(self, keys: Any, *, at: Any = None, weights: Any = 1) -> None:
        """Count each key at its time, once or by its weight: integers, not negative."""
        codes = (keys if isinstance(keys, KeyBatch) else self.read_keys(keys)).data.view(np.uint64)
        for level, sketch in enumerate(self._levels):
            # All levels see the same times and weights: what the first one takes, the others take.
            sketch.update(self._prefixes(codes, level), at=at, weights=weights)

    def _prefixes(self, codes: U64, level: int) -> NDArray[np.int64]:
        return (codes >> np.uint64(level * self.step)).view(np.int64)

    # -- questions --------------------------------------------------------------------------------------------

    def estimate(self, keys: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How often each key was seen in the range; one key gives numbers, an array of keys gives arrays."""
        codes, scalar = encoded(keys, self.order, self.bits)
        answer = self._levels[0].estimate(self._prefixes(codes, 0), last=last, now=now)
        answer = self._answer(answer, answer.value, answer.low, answer.high)
        return answer[0] if scalar else answer

    def self_join(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The sum over all keys of their squared frequencies in the range."""
        answer = self._levels[0].self_join(last=last, now=now)
        return self._answer(answer, answer.value, answer.low, answer.high)

    def total(self, *, last: int | None = None, now: int | None = None) -> Answer:
        """The weight of all events in the range."""
        return self._levels[0].total(last=last, now=now)

    def count_between(self, low: Any, high: Any, *, last: int | None = None, now: int | None = None) -> Answer:
        """How many events had a key from `low` to `high`, both included."""
        (first,), (end,) = (encoded(key, self.order, self.bits)[0].tolist() for key in (low, high))
        if first > end:
            raise QueryError(f"the range from {low!r} to {high!r} is empty", "give the smaller key first")
        total = self.total(last=last, now=now)
        value, least, most = 0, 0, 0
        for level, nodes in self._cover(first, end + 1):
            answer = self._nodes(level, nodes, last, now)
            value += int(np.sum(answer.value))
            least += int(np.sum(answer.low))
            most += int(np.sum(answer.high))
        most = min(most, int(total.high))
        least = min(least, most)
        return self._answer(total, min(max(value, least), most), least, most)

    def quantile(self, q: float, *, last: int | None = None, now: int | None = None) -> Answer:
        """The smallest key such that at least one event and a share q of all have a key up to it.

        Addresses are answered as numbers. Raises `QueryError` when there is no event in the range.
        """
        if not 0 <= q <= 1:
            raise QueryError(f"q={q!r}", "give a number from 0 to 1, such as 0.5 for the median")
        total = self.total(last=last, now=now)
        if total.high == 0:
            raise QueryError("there are no events in this range", "ask for a longer one")
        reached = max(q * float(total.value), 1.0)
        value = self._reach(reached, "value", last, now)
        # Keys before `low` have too few events up to them, at the most; `high` has few enough after it, at the most.
        low = self._reach(max(q * float(total.low), 1.0), "high", last, now)
        high = self._leave(max(float(total.low) - max(q * float(total.high), 1.0), 0.0), last, now)
        codes = np.array([min(max(value, low), high), low, high], dtype=np.uint64)
        keys = decoded(codes, INTEGER if self.order == IPV4 else self.order, self.bits)
        return self._answer(total, *keys)

    def heavy_hitters(
        self,
        phi: float | None = None,
        *,
        count: int | None = None,
        mode: str = NO_FALSE_NEGATIVES,
        last: int | None = None,
        now: int | None = None,
    ) -> Ranking:
        """The keys with frequency at least `phi * N` in the range, or at least `count`."""
        nodes = self._heavy_nodes(phi, count, mode, last, now)[0]
        return self._ranking(0, nodes, last, now)

    def heavy_prefixes(
        self,
        phi: float | None = None,
        *,
        count: int | None = None,
        mode: str = NO_FALSE_NEGATIVES,
        last: int | None = None,
        now: int | None = None,
    ) -> Ranking:
        """The prefixes, of every length but the keys' own, with frequency at least `phi * N`, or at least `count`.

        Addresses give networks such as `10.0.0.0/8`, other orders the first and the last key under the prefix.
        """
        heavy = self._heavy_nodes(phi, count, mode, last, now)
        rankings = [self._ranking(level, heavy[level], last, now) for level in range(self.levels - 1, 0, -1)]
        answers = [answer for ranking in rankings for answer in ranking.answers]
        keys = tuple(key for ranking in rankings for key in ranking.keys)
        total = self.total(last=last, now=now)
        arrays = (np.array([getattr(answer, end) for answer in answers]) for end in ("value", "low", "high"))
        return Ranking(keys, self._answer(total, *arrays))

    def _heavy_nodes(
        self, phi: float | None, count: int | None, mode: str, last: int | None, now: int | None
    ) -> list[U64]:
        """The nodes of every level that reach the threshold, searched from the shortest prefixes down."""
        check_choice("mode", mode, (NO_FALSE_NEGATIVES, NO_FALSE_POSITIVES))
        total = self.total(last=last, now=now)
        end, weight = ("high", total.low) if mode == NO_FALSE_NEGATIVES else ("low", total.high)
        threshold = self._threshold(phi, count, float(weight))
        if threshold <= self.epsilon * float(total.high) and total.high:
            raise QueryError(
                f"a threshold of {threshold:g} is within the error of {self.epsilon:.3g} * {total.high}",
                "ask for more, or build with a smaller epsilon",
            )
        found: list[U64] = []
        nodes = np.zeros(1, dtype=np.uint64)
        for level in range(self.levels - 1, -1, -1):
            children = self._children(nodes, level)
            # Down the tree by what a node can weigh at most: its keys can weigh no more.
            answer = self._nodes(level, children, last, now)
            nodes = children[np.asarray(answer.high) >= threshold]
            found.append(children[np.asarray(getattr(answer, end)) >= threshold])
        return found[::-1]

    def _threshold(self, phi: float | None, count: int | None, weight: float) -> float:
        if (phi is None) == (count is None):
            raise ParameterError(f"phi={phi!r} and count={count!r}", "give exactly one of them")
        if count is not None:
            return check_whole("count", count, 1, MASS_LIMIT)
        # At least 1: where there are no events, nothing is heavy.
        return max(check_fraction("phi", phi if phi is not None else 0.0) * weight, 1)

    def _ranking(self, level: int, nodes: U64, last: int | None, now: int | None) -> Ranking:
        answer = self._nodes(level, nodes, last, now)
        order = np.lexsort((nodes, -np.asarray(answer.value)))
        arrays = (np.asarray(part)[order] for part in (answer.value, answer.low, answer.high))
        return Ranking(self._names(level, nodes[order]), self._answer(answer, *arrays))

    def _names(self, level: int, nodes: U64) -> tuple[Any, ...]:
        shift = level * self.step
        first = decoded(nodes << np.uint64(shift), self.order, self.bits)
        if level == 0:
            return tuple(first)
        if self.order == IPV4:
            return tuple(f"{address}/{self.bits - shift}" for address in first)
        inside = np.uint64((1 << shift) - 1)
        return tuple(zip(first, decoded((nodes << np.uint64(shift)) | inside, self.order, self.bits), strict=True))

    # -- the tree ---------------------------------------------------------------------------------------------

    def _nodes(self, level: int, nodes: U64, last: int | None, now: int | None) -> Answer:
        return self._levels[level].estimate(nodes.view(np.int64), last=last, now=now)

    def _children(self, nodes: U64, level: int) -> U64:
        """The nodes of a level under those of the one above it; the top level has what bits are left."""
        left = self.bits - level * self.step
        branches = min(self.step, left)
        offsets = np.arange(1 << branches, dtype=np.uint64)
        return np.asarray(np.add.outer(nodes << np.uint64(branches), offsets), dtype=np.uint64).ravel()

    def _cover(self, start: int, stop: int) -> list[tuple[int, U64]]:
        """The nodes that make up the codes from start to before stop, as few as there can be, level by level."""
        cover = []
        for level in range(self.levels):
            top = level == self.levels - 1
            width = 1 << self.step
            left_end = stop if top else min(stop, -(-start // width) * width)
            right_start = left_end if top else max(left_end, stop // width * width)
            nodes = [*range(start, left_end), *range(right_start, stop)]
            if nodes:
                cover.append((level, np.array(nodes, dtype=np.uint64)))
            if top or left_end >= right_start:
                break
            start, stop = left_end // width, right_start // width
        return cover

    def _reach(self, rank: float, end: str, last: int | None, now: int | None) -> int:
        """The first code up to which the sums of the nodes' ends, from the left, reach that rank."""
        before, node = 0.0, np.zeros(1, dtype=np.uint64)
        for level in range(self.levels - 1, -1, -1):
            children = self._children(node, level)
            weights = np.asarray(getattr(self._nodes(level, children, last, now), end), dtype=np.float64)
            sums = before + np.cumsum(weights)
            # Where the children together do not reach it, though their parent did, it is at the end of the last.
            place = min(int(np.searchsorted(sums, rank)), children.size - 1)
            before = float(sums[place - 1]) if place else before
            node = children[place : place + 1]
        return int(node[0])

    def _leave(self, weight: float, last: int | None, now: int | None) -> int:
        """The first code after which the upper ends of the nodes, from the right, leave at most that weight."""
        after, node = 0.0, np.zeros(1, dtype=np.uint64)
        for level in range(self.levels - 1, -1, -1):
            children = self._children(node, level)[::-1]
            weights = np.asarray(self._nodes(level, children, last, now).high, dtype=np.float64)
            sums = after + np.cumsum(weights)
            place = min(int(np.searchsorted(sums, weight, side="right")), children.size - 1)
            after = float(sums[place - 1]) if place else after
            node = children[place : place + 1]
        return int(node[0])

    def _answer(self, like: Answer, value: Any, low: Any, high: Any) -> Answer:
        return Answer(value, low, high, confidence=1 - self.delta, epsilon=self.epsilon, window=like.window)

    # -- parts and bytes --------------------------------------------------------------------------------------

    def _absorb_parts(self, others: list[Self]) -> None:
        parts = [self._levels, *(other._levels for other in others)]
        self._take_levels([ECMSketch.merge(levels) for levels in zip(*parts, strict=True)])

    def _write_state(self, writer: Writer) -> None:
        for sketch in self._levels:
            sketch._write(writer)

    def _read_state(self, reader: Reader) -> None:
        parameters, clock = self._level_parameters(), vars(self._time)
        self._take_levels([ECMSketch._from_payload(parameters, reader) for _ in range(self.levels)])
        alike = all(vars(sketch._time) == clock and sketch._mass == self._levels[0]._mass for sketch in self._levels)
        if not alike:
            raise DamagedBytesError("levels that have not seen the same events")

    @property
    def nbytes(self) -> int:
        return sum(sketch.nbytes for sketch in self._levels)


def bits_of(order: str, bits: int) -> int:
    """The bits of a key in that order."""
    check_choice("order", order, ORDERS)
    if order in (FLOAT, IPV4):
        return widest(order)
    return check_whole("bits", bits, 1, widest(order))


def _share(delta: float, bits: int, step: int) -> float:
    """The delta of one node."""
    nodes = _most_nodes(bits, step)
    if delta / nodes < SMALLEST_FRACTION:
        raise ParameterError(f"delta={delta!r} for {nodes} nodes", f"give at least {SMALLEST_FRACTION * nodes:.2g}")
    return delta / nodes


def _most_nodes(bits: int, step: int) -> int:
    """Both ends of a range take up to 2^step - 1 nodes a level; the children of one path, 2^step."""
    return int(2 * (2**step - 1) * -(-bits // step))
