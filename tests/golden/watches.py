"""The watches of the golden monitors, by the names of their files: each over the whole history and in a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catchment.monitor import Distinct, Frequency, HeavyHitters, InnerProduct, Items, RangeSum, SelfJoin, Total, Watch
from tests.golden.streams import key_of

__all__ = ["CASES", "WINDOW", "AnyWatch", "Case"]

AnyWatch = Watch | Items | HeavyHitters

WINDOW = 600
"""Ticks: more than a phase, less than all of them."""


@dataclass(frozen=True, slots=True)
class Case:
    """Watches of one site, and what its events are like."""

    watches: tuple[AnyWatch, ...]
    keys: str = "text"
    weights: str = "ones"
    streams: int = 1

    @property
    def timed(self) -> bool:
        return any(watch.window is not None for watch in self.watches)


_TEXTS = tuple(key_of("text", number) for number in (1, 2, 100))
_NUMBERS = tuple(key_of("integer", number) for number in (1, 2, 100))
_LOOSE: dict[str, Any] = {"theta": 0.6, "epsilon": 0.4, "delta": 0.2}
_HEAVY: dict[str, Any] = {"phi": 0.2, "epsilon": 0.3, "delta": 0.3, "rho": 0.5}

CASES: dict[str, Case] = {
    "total": Case((Total(),), weights="signed"),
    "total_window": Case((Total(window=WINDOW, theta=0.4, epsilon=0.2),), weights="some"),
    "frequency": Case((Frequency(key=_TEXTS[0]),), weights="some"),
    "frequency_window": Case((Frequency(key=_NUMBERS[0], window=WINDOW, theta=0.4, epsilon=0.2),), keys="integer"),
    "frequency_bytes": Case((Frequency(key=key_of("bytes", 1), number=65_535),), keys="bytes"),
    "range_sum": Case((RangeSum(keys=_NUMBERS),), keys="integer"),
    "range_sum_factors": Case((RangeSum(keys=_TEXTS, factors=(3, -1, 2)),), weights="signed"),
    "range_sum_window": Case((RangeSum(keys=_TEXTS, window=WINDOW, theta=0.4, epsilon=0.2),)),
    "range_sum_factors_window": Case(
        (RangeSum(keys=_TEXTS, factors=(3, 1, 2), window=WINDOW, theta=0.4, epsilon=0.2),)
    ),
    "self_join": Case((SelfJoin(**_LOOSE),), weights="some"),
    "self_join_rows": Case((SelfJoin(theta=0.6, epsilon=0.4, delta=0.02),), keys="bytes"),
    "self_join_rows_window": Case((SelfJoin(theta=0.6, epsilon=0.4, delta=0.02, window=WINDOW, rule="two-phase"),)),
    "self_join_signed": Case((SelfJoin(**_LOOSE, seed=5, rule="push"),), keys="integer", weights="signed"),
    "self_join_window": Case((SelfJoin(**_LOOSE, window=WINDOW),)),
    "inner_product": Case((InnerProduct(**_LOOSE),), streams=2),
    "inner_product_window": Case((InnerProduct(**_LOOSE, window=WINDOW),), streams=2),
    "distinct": Case((Distinct(theta=0.8, epsilon=0.6, delta=0.2),)),
    "distinct_window": Case((Distinct(theta=0.8, epsilon=0.6, delta=0.2, window=WINDOW),), keys="integer"),
    "items": Case((Items(threshold=40, theta=0.2),), weights="some"),
    "items_bytes": Case((Items(threshold=40, theta=0.2, rule="centralise"),), keys="bytes"),
    "items_window": Case((Items(threshold=40, theta=0.2, window=WINDOW),), keys="integer"),
    "items_window_freed": Case((Items(threshold=10, theta=0.2, window=250, rule="centralise"),), weights="some"),
    "heavy_hitters": Case((HeavyHitters(**_HEAVY),)),
    "heavy_hitters_window": Case((HeavyHitters(**_HEAVY, window=WINDOW, panes=6),), keys="integer"),
    "shared": Case(
        (
            Total(number=1),
            SelfJoin(number=2, **_LOOSE),
            SelfJoin(number=3, **{**_LOOSE, "theta": 0.7}, rule="push"),
            Frequency(number=4, key=_TEXTS[0]),
            Frequency(number=5, key=_TEXTS[0], threshold=500.0),
            Frequency(number=6, key=_TEXTS[1]),
            Items(number=7, threshold=40, theta=0.2),
            Items(number=8, threshold=50, theta=0.3),
            HeavyHitters(number=9, **_HEAVY),
            HeavyHitters(number=10, **{**_HEAVY, "rho": 1.0}),
            RangeSum(number=11, keys=_TEXTS, factors=(1, 2, 3)),
        ),
    ),
    "shared_window": Case(
        (
            Distinct(number=1, theta=0.8, epsilon=0.6, delta=0.2),
            Distinct(number=2, theta=0.9, epsilon=0.6, delta=0.2, threshold=40),
            Total(number=3, window=WINDOW, theta=0.4, epsilon=0.2),
            Items(number=4, threshold=40, theta=0.2, window=WINDOW),
            Items(number=5, threshold=40, theta=0.2),
            HeavyHitters(number=6, **_HEAVY, window=WINDOW, panes=6),
        ),
    ),
}
