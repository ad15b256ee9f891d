"""Zones, regions and rules in orders are for ever: old orders are read, and a site does by them what it did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from catchment.errors import BytesError
from catchment.monitor.messages import Order
from catchment.monitor.regions import Region, read_region
from catchment.monitor.rules.registry import NAMES, guard_of
from catchment.monitor.safe import Zone, read_zone
from catchment.monitor.vectors import Drift
from catchment.monitor.wire import read_frame
from tests.golden import store
from tests.golden.zones import RULES, SITES, orders_of, says

GOLDEN = store.read("orders")
_COUNTDOWN, _BALANCE = 1, 5


def _frames(name: str) -> list[bytes]:
    return [store.as_bytes(text) for text in GOLDEN[name]["orders"]]


def _opening(name: str) -> Order:
    order = read_frame(_frames(name)[0])
    assert isinstance(order, Order)
    return order


def _area(name: str) -> Zone | Region | None:
    """The zone or the region of an order, for rules that have one."""
    order, (rows, width) = _opening(name), RULES[name].watch.new_vector().shape
    if order.rule == _COUNTDOWN:
        return read_zone(order.zone[5:], rows, width)
    return read_region(order.zone[4:], rows) if order.rule == _BALANCE else None


def _check_says(name: str, frames: Sequence[bytes]) -> None:
    """The last digits of sums are the processor's own."""
    for found, golden in zip(says(RULES[name], frames), GOLDEN[name]["says"], strict=True):
        assert found[:2] == golden[:2]
        if len(golden) > 2:
            assert found[2] == pytest.approx(golden[2], rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_a_site_does_by_golden_orders_what_it_did(name: str) -> None:
    _check_says(name, _frames(name))


@pytest.mark.parametrize("name", RULES)
def test_a_golden_zone_is_read_and_written_the_same(name: str) -> None:
    order, area = _opening(name), _area(name)
    assert int.from_bytes(order.zone[:4], "little") == SITES
    if area is not None:
        assert order.zone.endswith(area.to_bytes())
        assert len(order.zone) == len(area.to_bytes()) + (5 if order.rule == _COUNTDOWN else 4)


@pytest.mark.parametrize("name", RULES)
def test_the_same_vectors_give_the_golden_orders(name: str) -> None:
    frames = orders_of(RULES[name])
    _check_says(name, frames)
    for frame, golden in zip(frames, _frames(name), strict=True):
        found, order = read_frame(frame), read_frame(golden)
        assert isinstance(found, Order)
        assert isinstance(order, Order)
        assert len(found.zone) == len(order.zone)
        assert found.quantum == pytest.approx(order.quantum)
        assert found.slack == pytest.approx(order.slack)
        assert replace(found, zone=b"", quantum=0.0, slack=()) == replace(order, zone=b"", quantum=0.0, slack=())


@pytest.mark.parametrize("name", RULES)
def test_a_zone_that_is_cut_short_is_refused(name: str) -> None:
    order, watch = _opening(name), RULES[name].watch
    for cut in range(len(order.zone)):
        with pytest.raises(BytesError):
            guard_of(order.rule, order.zone[:cut], Drift(watch.new_vector()))
    with pytest.raises(BytesError):
        guard_of(99, order.zone, Drift(watch.new_vector()))


def test_every_rule_zone_and_region_has_golden_bytes() -> None:
    assert set(GOLDEN) == set(RULES)
    assert {ruled.watch.rule for ruled in RULES.values()} == set(NAMES)
    areas = [area for name in RULES if (area := _area(name)) is not None]
    assert {type(area) for area in areas} == _concrete(Zone) | _concrete(Region)
    assert {_opening(name).rule for name in RULES} == {1, 2, 4, 5}


def _concrete(kind: Any) -> set[type]:
    """What is below a class and has a kind in the bytes."""
    found: set[type] = set()
    for below in kind.__subclasses__():
        found |= _concrete(below)
        if "kind" in vars(below) and below.__module__ == kind.__module__:
            found.add(below)
    return {below for below in found if vars(sys.modules[below.__module__]).get(below.__name__) is below}
