"""The kinds of sketches that a pipeline knows by name, and what builds each from its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catchment.sketch.base import Sketch
from catchment.sketch.space_saving import SpaceSaving
from catchment.sketch.ultraloglog import UltraLogLog
from catchment.window.dyadic import DyadicECM
from catchment.window.ecm import PURPOSES, ECMSketch
from catchment.window.grid_sketch import COUNTERS
from catchment.window.ordered import INTEGER, ORDERS
from catchment.window.panes import Panes
from catchment.window.settings_tables import Table
from catchment.window.wave import Wave

__all__ = ["KINDS", "Kind"]

_MOST_PANES = 2**16


@dataclass(frozen=True, slots=True)
class Kind:
    """Whether it has keys and takes weights, and what builds it for a window of so many ticks."""

    build: Callable[[Table, int], Sketch]
    keyed: bool = True
    weighed: bool = True


def _epsilon(table: Table, default: float) -> float:
    return float(table.number("epsilon", default, low=0, high=1))


def _delta(table: Table) -> float:
    return float(table.number("delta", 0.01, low=0, high=1))


def _seed(table: Table) -> int:
    return int(table.whole("seed", 0, low=0, high=2**63 - 1))


def _merges(table: Table) -> int:
    """Levels of merges for which epsilon still holds: one is all sites at once, however many."""
    return int(table.whole("merges", 1, low=0, high=64))


def _ecm(table: Table, window: int) -> Sketch:
    return ECMSketch.for_tree(
        _epsilon(table, 0.05),
        _delta(table),
        window=window,
        height=_merges(table),
        counter=table.choice("counter", [name for name in COUNTERS if name != "randomized"], "wave"),
        optimize_for=table.choice("optimize_for", PURPOSES, PURPOSES[0]),
        seed=_seed(table),
    )


def _quantiles(table: Table, window: int) -> Sketch:
    return DyadicECM.for_tree(
        _epsilon(table, 0.02),
        _delta(table),
        window=window,
        height=_merges(table),
        bits=table.whole("bits", 32, low=1, high=64),
        step=table.whole("step", 4, low=1, high=16),
        order=table.choice("order", ORDERS, INTEGER),
        seed=_seed(table),
    )


def _distinct(table: Table, window: int) -> Sketch:
    sizes = UltraLogLog.suggest(_epsilon(table, 0.02), _delta(table))
    return Panes(UltraLogLog.sized(**sizes, seed=_seed(table)), window, panes=_panes(table))


def _top(table: Table, window: int) -> Sketch:
    return Panes(SpaceSaving(_epsilon(table, 0.001)), window, panes=_panes(table))


def _panes(table: Table) -> int:
    return int(table.whole("panes", 60, low=1, high=_MOST_PANES))


def _count(table: Table, window: int) -> Sketch:
    return Wave.for_tree(_epsilon(table, 0.01), window=window, height=_merges(table))


KINDS = {
    "ecm": Kind(_ecm),
    "distinct": Kind(_distinct, weighed=False),
    "top": Kind(_top),
    "quantiles": Kind(_quantiles),
    "count": Kind(_count, keyed=False),
}
"""By the name that `kind` has in the file."""
