"""A Bloom filter that is nothing but SQL: built in one cloud, put in another, probed there by generated JVM code.

The filter is register-blocked: the upper half of a key's 64-bit hash chooses one word of 64 bits, the lower half at
most five bits in it, so that a probe reads one word. It says *yes* for every key that it was built from, always, and
for another key at the rate that `false_positives` gives. Words of several clouds are OR-ed: the filter of the union.

    SQL in the cloud of the keys       build_sql("SELECT k FROM orders", ["k"], shape)      -> word, mask
    here                               merge(shape, answers of the clouds)                  -> words
    put in the cloud that is probed    as_row(words)                                        -> one row, one array
    SQL in that cloud's WHERE          probe_sql(["o.k"], "the view's name", shape)

Why so, as measured on Spark 4.3: the array comes in as a scalar subquery, which Spark evaluates once and reads as a
constant. A broadcast cross join is no faster for integers and half as fast for strings, and is no predicate. One hash
serves both halves, because Spark evaluates every mention of it again in a filter.

Nothing here can raise in ANSI mode: shifts and bit operations are never checked, and the one product is below 2**63.
A NULL in a key matches nothing, as in an equi-join. Both sides must hash the same value: give the type to which the
join casts its sides, since 1 as INT, as BIGINT and as DECIMAL(10,2) have three hashes. Strings are compared byte by
byte: a join under a collation that equates different bytes has no filter here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catchment.errors import ParameterError

__all__ = ["BloomShape", "as_row", "build_sql", "false_positives", "merge", "probe_sql", "shape_for"]

MOST_BITS = 5
"""Six bits of the lower half of the hash name one bit of a word, so there are five."""

MOST_WORDS = 2**22
"""32 MiB, 22 million keys at one in a hundred: a cloud holds the row in its driver's memory, several times at once."""

FEWEST_WORDS = 16
"""So that keys fall on words about as a Poisson law says; 128 bytes."""

_WORD_BITS = 64
_BUILT_BYTES = 12
"""A row of `build_sql`: an INT and a BIGINT."""


@dataclass(frozen=True, slots=True)
class BloomShape:
    """How many words, and how many bits of one word a key sets. Both sides of a join use the same shape."""

    words: int
    bits: int

    def __post_init__(self) -> None:
        if not (1 <= self.words <= MOST_WORDS and 1 <= self.bits <= MOST_BITS):
            raise ParameterError(
                f"a filter of {self.words} words with {self.bits} bits a key",
                f"use 1 to {MOST_WORDS} words and 1 to {MOST_BITS} bits",
            )

    @property
    def bytes(self) -> int:
        """What one cloud is sent, before compression, which gains little: a well-filled filter is noise."""
        return 8 * self.words

    def bytes_built(self, keys: int) -> int:
        """What one cloud with so many distinct keys sends at most: only words that a key has touched."""
        return _BUILT_BYTES * min(self.words, keys)


def shape_for(keys: int, rate: float) -> BloomShape:
    """The smallest filter for so many distinct keys that says *yes* to a stranger at most at this rate.

    Five bits in one word do not go below one in a hundred thousand at a reasonable price: from about 1e-4 on a list of
    the keys is the better filter.

    >>> shape = shape_for(1_000_000, 0.01)
    >>> shape, round(8 * shape.bytes / 1_000_000, 1)
    (BloomShape(words=189668, bits=5), 12.1)
    """
    if not 1e-5 <= rate < 1:
        raise ParameterError(f"rate={rate}", "choose a rate of false positives from 0.00001 to below 1")
    best = min((_words_for(max(keys, 1), rate, bits), bits) for bits in range(1, MOST_BITS + 1))
    if best[0] > MOST_WORDS:
        raise ParameterError(
            f"a filter of {keys} keys at rate {rate} needs {best[0]} words", f"allow a higher rate: {MOST_WORDS} fit"
        )
    return BloomShape(*best)


def false_positives(keys: int, shape: BloomShape) -> float:
    """The probability that a key that is not among so many distinct ones is said to be, for ideal hashing.

    The number of keys in a word is binomial (here its Poisson limit); what their bits leave free is the classical
    occupancy of 64 cells, computed step by step rather than approximated: the usual formula, of a filter that
    is not blocked, gives two to four times less.
    """
    return _rate(keys / shape.words, shape.bits)


def build_sql(source: str, keys: Sequence[str], shape: BloomShape, types: Sequence[str] | None = None) -> str:
    """SQL that gives the touched words of a filter over the key columns of a SELECT: `word INT, mask BIGINT`.

    `source` is a SELECT, whose rows may repeat; `keys` are expressions over its columns, in the order in which the join
    compares them, and `types` the types in which it does, as Spark writes them: without, the keys' own.
    """
    hashed, present = _hash(keys, types), _present(keys)
    return (
        f"SELECT word, bit_or(mask) AS mask FROM (SELECT {_word(hashed, shape)} AS word, {_mask(hashed, shape)} AS mask"
        f" FROM ({source}) AS bloom_source WHERE {present}) AS bloom_bits GROUP BY word"
    )


def merge(shape: BloomShape, parts: Iterable[pa.Table]) -> npt.NDArray[np.int64]:
    """The words of the union of what `build_sql` gave in each cloud; no part is the filter that says always no."""
    words = np.zeros(shape.words, np.int64)
    for part in parts:
        at = part["word"].to_numpy()
        if len(at) and not 0 <= at.min() <= at.max() < shape.words:
            raise ParameterError(f"a part with word {at.max()} of {shape.words}", "build all parts with one shape")
        np.bitwise_or.at(words, at, part["mask"].to_numpy())
    return words


def as_row(words: npt.NDArray[np.int64]) -> pa.Table:
    """The one row, with the one column `bits`, that is put where the filter is probed."""
    items = pa.field("element", pa.int64(), nullable=False)
    bits = pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), pa.array(words), type=pa.list_(items))
    return pa.table({"bits": bits})


def probe_sql(keys: Sequence[str], view: str, shape: BloomShape, types: Sequence[str] | None = None) -> str:
    """A predicate that is true for every row whose key is in the filter, false if a key is NULL, else mostly false.

    `keys` and `types` are parallel to those of `build_sql`; `view` holds what `as_row` gave.
    """
    hashed = _hash(keys, types)
    word = f"(SELECT bits FROM {view})[{_word(hashed, shape)}]"
    return f"({_present(keys)} AND (~{word} & {_mask(hashed, shape)}) = 0L)"


def _hash(keys: Sequence[str], types: Sequence[str] | None) -> str:
    if not keys or (types is not None and len(types) != len(keys)):
        raise ParameterError(f"{len(keys)} keys, types {types}", "give at least one key, and a type for each or none")
    cast = keys if types is None else [f"CAST({key} AS {type_})" for key, type_ in zip(keys, types, strict=True)]
    return f"xxhash64({', '.join(cast)})"


def _present(keys: Sequence[str]) -> str:
    return " AND ".join(f"({key}) IS NOT NULL" for key in keys)


def _word(hashed: str, shape: BloomShape) -> str:
    """The upper half of the hash, as a fraction of 2**32, times the words."""
    return f"CAST(shiftrightunsigned(shiftrightunsigned({hashed}, 32) * {shape.words}L, 32) AS INT)"


def _mask(hashed: str, shape: BloomShape) -> str:
    bits = (f"shiftleft(1L, CAST(shiftright({hashed}, {6 * bit}) & 63L AS INT))" for bit in range(shape.bits))
    return f"({' | '.join(bits)})"


def _words_for(keys: int, rate: float, bits: int) -> int:
    """The fewest words that reach the rate: it falls as they grow."""
    low, high = 1e-6, 1e4  # keys a word
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _rate(middle, bits) <= rate else (low, middle)
    return max(FEWEST_WORDS, math.ceil(keys / low))


def _rate(load: float, bits: int) -> float:
    """The mean over words with Poisson(load) keys of the chance that `bits` random bits are all set."""
    if load == 0:
        return 0.0
    most = int(load + 12 * math.sqrt(load) + 30)
    there = np.arange(min(most, len(_chances(bits)) - 1) + 1)
    logs = there * math.log(load) - load - np.array([math.lgamma(count + 1) for count in there])
    weights = np.exp(logs)
    return float(weights @ _chances(bits)[there] + max(0.0, 1 - weights.sum()))


@functools.cache
def _chances(bits: int) -> npt.NDArray[np.float64]:
    """By the number of keys in a word, from none to where it is full: the chance that a stranger finds its bits set."""
    occupied = np.arange(_WORD_BITS + 1) / _WORD_BITS
    state = np.zeros(_WORD_BITS + 1)
    state[0] = 1.0
    chances = [float(state @ occupied**bits)]
    while chances[-1] < 1 - 1e-12:
        for _ in range(bits):
            state = state * occupied + np.append(0.0, (state * (1 - occupied))[:-1])
        chances.append(float(state @ occupied**bits))
    return np.array(chances)
