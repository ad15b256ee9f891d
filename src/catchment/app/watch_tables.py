"""Watches as a file describes them: one [[watch]] each, the same in the coordinator's file and in every site's.

[[watch]]
name = "skew"
quantity = "self_join"              # total, distinct, frequency, range_sum, self_join, inner_product or items
theta = 0.1                         # how far from the truth the answer may be
epsilon = 0.02                      # the sketch's part of that
window = "1 hour"                   # leave it out for the whole history; times are in ticks of `tick`
threshold = 1_000_000               # leave it out to follow the value; items need it: all that were seen as often
"""

from __future__ import annotations

from typing import Any

from catchment.monitor.items import Items
from catchment.monitor.items.watch import RULES
from catchment.monitor.rules.registry import NAMES
from catchment.monitor.watch import Distinct, Frequency, InnerProduct, RangeSum, SelfJoin, Total, Watch
from catchment.window.settings_tables import Table

__all__ = ["read_watches"]

_KINDS: dict[str, type[Watch]] = {
    "distinct": Distinct,
    "frequency": Frequency,
    "inner_product": InnerProduct,
    "range_sum": RangeSum,
    "self_join": SelfJoin,
    "total": Total,
}


_ITEMS = "items"


def read_watches(tables: list[Table]) -> dict[str, Watch | Items]:
    """The watches by their names; numbers are places in the file."""
    watches: dict[str, Watch | Items] = {}
    for place, table in enumerate(tables):
        name = table.text("name", cure='write name = "skew"')
        if name in watches:
            raise table.error("name", f"a second watch {name!r}", "give each its own name")
        watches[name] = _watch(table, place + 1)
    return watches


def _watch(table: Table, number: int) -> Watch | Items:
    quantity = table.choice("quantity", (*_KINDS, _ITEMS))
    return _items(table, number) if quantity == _ITEMS else _value(table, number, _KINDS[quantity])


def _value(table: Table, number: int, kind: type[Watch]) -> Watch:
    values: dict[str, Any] = {
        "number": number,
        "theta": table.number("theta", 0.1, low=0, high=1),
        "epsilon": table.number("epsilon", 0.05 if kind is Distinct else 0.02, low=0, high=1),
        "delta": table.number("delta", 0.01, low=0, high=1),
        "threshold": table.number("threshold", None, low=-1e300, high=1e300),
        "window": _window(table),
        "seed": table.whole("seed", 0, low=0, high=2**63),
        "rule": table.choice("rule", ("auto", *NAMES), "auto"),
    }
    if kind is Frequency:
        values["key"] = table.text("key", cure='write key = "/index.html"')
    if kind is RangeSum:
        values["keys"] = table.texts("keys", cure='write keys = ["/a", "/b"]')
    table.finish()
    return table.places.checked(table.path, lambda: kind(**values))


def _items(table: Table, number: int) -> Items:
    threshold = table.number("threshold", None, low=0, high=2.0**50)
    if threshold is None:
        raise table.error("threshold", "items without a threshold", "write for instance threshold = 1000")
    values: dict[str, Any] = {
        "number": number,
        "threshold": threshold,
        "theta": table.number("theta", 0.1, low=0, high=1),
        "window": _window(table),
        "rule": table.choice("rule", RULES, "auto"),
    }
    table.finish()
    return table.places.checked(table.path, lambda: Items(**values))


def _window(table: Table) -> int | None:
    """In ticks."""
    tick = table.duration("tick", "1 second", least=1)
    window = table.duration("window", None)
    return None if window is None else max(window // tick, 1)
