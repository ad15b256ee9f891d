"""What a generated stream looks like, and its events by number: no Spark in here, only Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.errors import ParameterError
from catchment.kernel.generate import DAY, alias_table, numbered_texts, write_events
from catchment.kernel.hashing import draws
from catchment.spark.source.options import MICROSECOND, Options

__all__ = ["EVENTS_LIMIT", "Recipe"]

EVENTS_LIMIT = 2**52
"""Event numbers are also real numbers with a fraction on the way to their time."""

_SHARES_OF_A_DAY = 8192
_PEAK = 16 * 3600 * MICROSECOND


@dataclass(frozen=True, slots=True)
class Recipe:
    """The shape of a stream; `batch` makes any part of it.

    Event n depends on the recipe and n alone, so any cut of a range gives the same rows in the same order.

    - `seed`: another seed, another stream of the same shape.
    - `sites`: sites take part alike; their names are `site-0`, `site-1`, …, all of one length.
    - `keys`, `skew`, `key_type`: key i of `keys` has odds (i+1)^-skew, so key 0 is the most frequent; integers, or
      texts such as `key-0042`.
    - `values`: a value is uniform from 1 to this.
    - `density`, `start`: events a second of event time on average, from `start` (microseconds after 1970) on. Event n
      falls into the n-th equal share of the traffic, so times of events that are not late never go back.
    - `diurnal`: the rate at 16:00 UTC is 1 + `diurnal` times the average, and 1 - `diurnal` times at 4:00.
    - `bursts`, `burst_every`, `burst_for`: at the start and then every so many seconds, for so many seconds, one key
      drawn for that burst takes this share of the events, beside what it has anyway.
    - `late`, `late_by`: this share of the events has a time up to `late_by` seconds before the others around them.
    - `nulls`: this share has no key or no time, half each. `bad`: this share has a negative value, or a time a year
      ahead, half each.

    >>> Recipe(keys=10, sites=2).batch(0, 1).to_pylist()[0]["site"] in ("site-0", "site-1")
    True
    """

    seed: int = 0
    sites: int = 4
    keys: int = 10_000
    skew: float = 1.1
    key_type: str = "integer"
    values: int = 100
    density: float = 1000.0
    start: int = 1_767_225_600 * MICROSECOND
    diurnal: float = 0.0
    bursts: float = 0.0
    burst_every: float = 3600.0
    burst_for: float = 60.0
    late: float = 0.0
    late_by: float = 0.0
    nulls: float = 0.0
    bad: float = 0.0

    @classmethod
    def from_options(cls, options: Options) -> Recipe:
        """The recipe in a data source's options; `ParameterError` names the option that cannot be."""
        longest = 10 * 365 * 86_400.0
        recipe = cls(
            seed=options.whole("seed", 0, low=0, high=2**63 - 1),
            sites=options.whole("sites", 4, low=1, high=1_000_000),
            keys=options.whole("keys", 10_000, low=1, high=100_000_000),
            skew=options.number("skew", 1.1, low=0.0, high=10.0),
            key_type=options.choice("key_type", "integer", ("integer", "text")),
            values=options.whole("values", 100, low=1, high=2**31),
            density=options.number("density", 1000.0, low=1e-6, high=1e9),
            start=options.moment("start", "2026-01-01T00:00:00Z"),
            diurnal=options.number("diurnal", 0.0, low=0.0, high=0.99),
            bursts=options.number("bursts", 0.0, low=0.0, high=1.0),
            burst_every=options.number("burst_every", 3600.0, low=0.001, high=longest),
            burst_for=options.number("burst_for", 60.0, low=0.001, high=longest),
            late=options.number("late", 0.0, low=0.0, high=1.0),
            late_by=options.number("late_by", 0.0, low=0.0, high=longest),
            nulls=options.number("nulls", 0.0, low=0.0, high=1.0),
            bad=options.number("bad", 0.0, low=0.0, high=1.0),
        )
        if recipe.bursts and recipe.burst_for > recipe.burst_every:
            raise ParameterError(
                f"burst_for={recipe.burst_for:g} is longer than burst_every={recipe.burst_every:g}",
                "a burst ends before the next: give a smaller burst_for",
            )
        if recipe.late and not recipe.late_by:
            raise ParameterError(f"late={recipe.late:g} without late_by", "say how late, in seconds: late_by=300")
        if recipe.nulls + recipe.bad > 1:
            raise ParameterError(
                f"nulls={recipe.nulls:g} and bad={recipe.bad:g} are more than all events", "give shares up to 1 in sum"
            )
        return recipe

    @property
    def ddl(self) -> str:
        """The columns, as Spark writes them."""
        return f"site STRING, time TIMESTAMP, key {'STRING' if self.key_type == 'text' else 'BIGINT'}, value BIGINT"

    @property
    def arrow_schema(self) -> pa.Schema:
        key = pa.string() if self.key_type == "text" else pa.int64()
        return pa.schema(
            [("site", pa.string()), ("time", pa.timestamp("us", tz="UTC")), ("key", key), ("value", pa.int64())]
        )

    def batch(self, first: int, count: int) -> pa.RecordBatch:
        """Events `first` to `first + count`, the last left out; at most 16 million at a time."""
        site, time, key, value = (np.empty(count, dtype=np.int64) for _ in range(4))
        key_there, time_there = (np.full((count + 7) // 8, 255, dtype=np.uint8) for _ in range(2))
        nulls = write_events(
            np.uint64(first),
            draws(self.seed, 7),
            _key_table(self.keys, self.skew),
            _day(self.start, self.diurnal),
            self.density * 86_400.0,
            self.start,
            np.uint64(self.sites),
            np.uint64(self.values),
            self.bursts,
            int(self.burst_every * MICROSECOND) if self.bursts else 0,
            int(self.burst_for * MICROSECOND),
            self.late,
            int(self.late_by * MICROSECOND),
            self.nulls,
            self.bad,
            site,
            time,
            key,
            value,
            key_there,
            time_there,
        )
        keys = _texts("key-", self.keys, key, key_there if nulls else None) if self.key_type == "text" else None
        columns = [
            _texts("site-", self.sites, site, None),
            _column(pa.timestamp("us", tz="UTC"), time, time_there if nulls else None),
            keys if keys is not None else _column(pa.int64(), key, key_there if nulls else None),
            _column(pa.int64(), value, None),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)


def _column(kind: pa.DataType, values: NDArray[np.int64], there: NDArray[np.uint8] | None) -> pa.Array:
    bitmap = None if there is None else pa.py_buffer(there)
    return pa.Array.from_buffers(kind, values.size, [bitmap, pa.py_buffer(values)])


def _texts(prefix: str, names: int, numbers: NDArray[np.int64], there: NDArray[np.uint8] | None) -> pa.Array:
    digits = len(str(names - 1))
    width = len(prefix) + digits
    data = np.empty(numbers.size * width, dtype=np.uint8)
    numbered_texts(np.frombuffer(prefix.encode(), dtype=np.uint8), digits, numbers, data)
    offsets = np.arange(0, (numbers.size + 1) * width, width, dtype=np.int32)
    bitmap = None if there is None else pa.py_buffer(there)
    return pa.Array.from_buffers(pa.string(), numbers.size, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])


@lru_cache(maxsize=4)
def _key_table(keys: int, skew: float) -> NDArray[np.uint64]:
    # Machines differ in the last bit of a power. In 32 bits that bit is gone, and the rest of the way is exact.
    odds = (np.arange(1, keys + 1, dtype=np.float64) ** -skew).astype(np.float32)
    return alias_table(odds.astype(np.float64))


@lru_cache(maxsize=4)
def _day(start: int, diurnal: float) -> NDArray[np.float64]:
    """The moments of a day, counted from the time of day at `start`, by which equal shares of its events have come."""
    shares = np.arange(_SHARES_OF_A_DAY + 1) / _SHARES_OF_A_DAY
    if not diurnal:
        return shares * DAY
    moments = np.linspace(0, 2 * np.pi, 16 * _SHARES_OF_A_DAY + 1)
    from_peak = (start - _PEAK) % DAY / DAY * 2 * np.pi
    come = moments + diurnal * (np.sin(moments + from_peak) - np.sin(from_peak))
    at = np.round(np.interp(shares, come / come[-1], moments) / (2 * np.pi) * DAY)
    at[0], at[-1] = 0, DAY
    return at
