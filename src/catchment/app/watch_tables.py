"""Watches as a file describes them: one [[watch]] each, the same in the coordinator's file and in every site's.

[[watch]]
name = "skew"
quantity = "self_join"              # total, distinct, frequency, range_sum, self_join, inner_product,
                                    # items or heavy_hitters
theta = 0.1                         # how far from the truth the answer may be
epsilon = 0.02                      # the sketch's part of that
window = "1 hour"                   # leave it out for the whole history; times are in ticks of `tick`
threshold = 1_000_000               # leave it out to follow the value; items need it: all that were seen as often

[[watch]]
name = "attacks"
quantity = "heavy_hitters"
phi = 0.05                          # items with this share of all events
window = "5 minutes"
"""

from __future__ import annotations

from functools import partial
from typing import Any

from catchment.monitor.heavy_hitters import HeavyHitters
from catchment.monitor.items import Items
from catchment.monitor.items.watch import RULES
from catchment.monitor.quantities import Distinct, Frequency, InnerProduct, RangeSum, SelfJoin, Total
from catchment.monitor.rules.registry import NAMES
from catchment.monitor.site import Site
from catchment.monitor.watch import Watch
from catchment.net.settings import SourceSettings
from catchment.net.source.decoders import INTEGER
from catchment.window.durations import spoken
from catchment.window.settings_tables import Table

__all__ = ["AnyWatch", "read_watches"]

AnyWatch = Watch | Items | HeavyHitters

_KINDS: dict[str, type[Watch]] = {
    "distinct": Distinct,
    "frequency": Frequency,
    "inner_product": InnerProduct,
    "range_sum": RangeSum,
    "self_join": SelfJoin,
    "total": Total,
}
_ITEMS, _HEAVY = "items", "heavy_hitters"
_LEAST_PANES, _MOST_PANES = 10, 30


def read_watches(tables: list[Table], *, source: SourceSettings | None = None) -> dict[str, AnyWatch]:
    """The watches by their names; numbers are places in the file.

    With a site's `source` those are refused that its events do not fit: windows in other ticks, keys of another type.
    """
    watches: dict[str, AnyWatch] = {}
    for place, table in enumerate(tables):
        name = table.text("name", cure='write name = "skew"')
        if name in watches:
            raise table.error("name", f"a second watch {name!r}", "give each its own name")
        if source is not None:
            _check_fit(table, source)
        watches[name] = watch = _watch(table, place + 1)
        table.places.checked(table.path, partial(_check_at_a_site, watch))
    return watches


def _check_at_a_site(watch: AnyWatch) -> None:
    """Refuse what a site would refuse when it begins, while the line is known: keys given twice, too large a sketch."""
    Site("check", (watch,))


def _check_fit(table: Table, source: SourceSettings) -> None:
    """Otherwise windows are as much longer or shorter, and keys are never found, and nobody would notice."""
    fields = source.fields
    if table.has("window") and table.duration("tick", "1 second", least=1) != fields.tick:
        raise table.error(
            "tick" if table.has("tick") else "window",
            f"a window in ticks of other length than the {spoken(fields.tick)} of [source]",
            "write the same tick under [source] and in every [[watch]] with a window, at all sites and the coordinator",
        )
    if table.has("window") and fields.time is None and source.format != "wc98":
        raise table.error(
            "window", "a window over events without a time", 'name their time under [source]: time = "at"'
        )
    numbers = source.format == "wc98" or fields.key_type == INTEGER
    for name in ("key", "keys"):
        given = table.values_of(name)
        if given and any(isinstance(value, str) == numbers for value in given):
            kinds = ("integers", "texts") if numbers else ("texts", "integers")
            raise table.error(
                name,
                f"{name} = {', '.join(map(repr, given))}, where [source] counts {kinds[0]} and not {kinds[1]}",
                f"write {name} {'without' if numbers else 'with'} quotation marks, or another key_type under [source]",
            )


def _watch(table: Table, number: int) -> AnyWatch:
    quantity = table.choice("quantity", (*_KINDS, _ITEMS, _HEAVY))
    if quantity == _ITEMS:
        return _items(table, number)
    return _heavy_hitters(table, number) if quantity == _HEAVY else _value(table, number, _KINDS[quantity])


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
        values["key"] = table.key("key", cure='write key = "/index.html", or key = 7 where keys are integers')
    if kind is RangeSum:
        values["keys"] = table.keys("keys", cure='write keys = ["/a", "/b"], or keys = [7, 8] where keys are integers')
        values["factors"] = table.wholes("factors", cure="write an integer for each key, such as factors = [1, -1]")
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


def _heavy_hitters(table: Table, number: int) -> HeavyHitters:
    phi = table.number("phi", None, low=0, high=1)
    if phi is None:
        raise table.error("phi", "heavy hitters without a share", "write for instance phi = 0.05")
    values: dict[str, Any] = {
        "number": number,
        "phi": phi,
        "epsilon": table.number("epsilon", 0.1, low=0, high=1),
        "delta": table.number("delta", 0.1, low=0, high=1),
        "rho": table.number("rho", 1.0, low=0, high=1),
        "window": _window(table),
        "panes": _panes(table),
        "seed": table.whole("seed", 0, low=0, high=2**63),
    }
    table.finish()
    return table.places.checked(table.path, lambda: HeavyHitters(**values))


def _panes(table: Table) -> int:
    """As the file says, or as many as a window can be cut into, up to 30; fewer than 10 are too coarse to slide."""
    window = _window(table)
    if window is None or table.has("panes"):
        given: int = table.whole("panes", _MOST_PANES, low=1, high=4096)
        return given
    most = max(count for count in range(1, _MOST_PANES + 1) if window % count == 0)
    if most < min(_LEAST_PANES, window):
        rounder = window - window % _LEAST_PANES
        raise table.error(
            "window",
            f"a window of {window} ticks, which cannot be cut into {_LEAST_PANES} to {_MOST_PANES} equal panes",
            f"give one of {rounder} ticks, or write panes = {most}",
        )
    return most


def _window(table: Table) -> int | None:
    """In ticks."""
    tick = table.duration("tick", "1 second", least=1)
    window = table.duration("window", None, least=tick)
    if window is None:
        return None
    if window % tick:
        raise table.error(
            "window",
            f'window = "{table.values_of("window")[0]}" is no whole number of ticks of {spoken(tick)}',
            "give a multiple of the tick, or a finer tick here and under [source]",
        )
    return int(window // tick)
