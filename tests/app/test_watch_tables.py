"""Watches in files of settings: items beside values, and how their claims are printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from catchment.app.jobs.claims import claim_line, shown_claim, shown_heavy
from catchment.app.jobs.monitor import as_event, check_stream
from catchment.app.watch_tables import AnyWatch, read_watches
from catchment.errors import ParameterError, SettingsError
from catchment.monitor import (
    Arrived,
    Coordinator,
    Frequency,
    HeavyHitters,
    InnerProduct,
    Items,
    RangeSum,
    SelfJoin,
    Site,
    Total,
)
from catchment.monitor.heavy_hitters import Detector
from catchment.monitor.site import Leave
from catchment.monitor.watch import Watch
from catchment.net.settings import SourceSettings
from catchment.net.source import Batch
from catchment.net.source.decoders import INTEGER, Fields
from catchment.testing.lockstep import Lockstep
from catchment.window.settings_file import parse_settings
from catchment.window.settings_tables import Places, Table


def _read(**values: Any) -> AnyWatch:
    table = Table({"name": "hot", **values}, ("watch",), Places("coordinator.toml"))
    return read_watches([table])["hot"]


def test_items_are_read() -> None:
    read = _read(quantity="items", threshold=5000, theta=0.2, window="10 minutes", tick="1 second", rule="centralise")
    assert read == Items(number=1, threshold=5000, theta=0.2, window=600, rule="centralise")
    assert _read(quantity="items", threshold=5) == Items(threshold=5)
    assert _read(quantity="total", window="1 minute") == Total(window=60)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "items without a threshold"),
        ({"threshold": 0}, "threshold = 0"),
        ({"threshold": 0.5}, "threshold=0.5"),
        ({"threshold": 9, "epsilon": 0.1}, "epsilon"),
        ({"threshold": 9, "rule": "near"}, "rule"),
    ],
)
def test_items_that_make_no_sense_are_refused_with_their_place(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=r"coordinator\.toml.*" + words):
        _read(quantity="items", **values)


def test_heavy_hitters_are_read() -> None:
    read = _read(quantity="heavy_hitters", phi=0.05, window="5 minutes", epsilon=0.2, delta=0.01, rho=0.5, seed=3)
    assert read == HeavyHitters(phi=0.05, window=300, epsilon=0.2, delta=0.01, rho=0.5, seed=3)
    assert _read(quantity="heavy_hitters", phi=0.1) == HeavyHitters(phi=0.1)
    for window, panes in ((20, 20), (64, 16), (7, 7), (3600, 30)):
        assert _read(quantity="heavy_hitters", phi=0.1, window=f"{window} seconds") == HeavyHitters(
            phi=0.1, window=window, panes=panes
        )
    assert _read(quantity="heavy_hitters", phi=0.1, window="61 seconds", panes=61) == HeavyHitters(
        phi=0.1, window=61, panes=61
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "heavy hitters without a share"),
        ({"phi": 0}, "phi = 0"),
        ({"phi": 0.1, "threshold": 9}, "threshold"),
        ({"phi": 0.1, "rho": 1.5}, "rho = 1.5"),
        ({"phi": 0.1, "window": "61 seconds"}, "61 ticks.*60 ticks, or write panes = 1"),
        ({"phi": 0.1, "window": "60 seconds", "panes": 7}, "panes=7"),
    ],
)
def test_heavy_hitters_that_make_no_sense_are_refused_with_their_place(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=r"coordinator\.toml.*" + words):
        _read(quantity="heavy_hitters", **values)


def test_a_claim_of_heavy_hitters_is_one_line() -> None:
    watch = HeavyHitters(phi=0.2, window=100, panes=10)
    coordinator = Coordinator((watch,), ("a", "b"))
    network = Lockstep(coordinator, {name: Site(name, (watch,)) for name in ("a", "b")})
    detector = Detector(watch, 2)

    def line() -> str:
        claim = coordinator.heavy_hitters(1)
        assert claim is not None
        detector.observe(claim)
        return claim_line("attacks", shown_heavy(claim, detector.active))

    assert line() == "attacks: 0 items with 0.2 of all, of 0 events at 2 sites"
    network.give("a", Arrived(["10.0.0.1"] * 60 + [f"1.{n}" for n in range(40)], times=[55] * 100))
    network.give("b", Arrived([f"2.{n}" for n in range(60)], times=[57] * 60))
    network.pass_time(20_000)
    found = line()
    assert found.startswith("attacks: 1 item with 0.2 of all: 10.0.0.1 in [")
    assert found.endswith(", 60] since 50 through a, confidence 1, of 160 events at 2 sites")
    claim = coordinator.heavy_hitters(1)
    assert claim is not None
    open_ = shown_heavy(replace(claim, heavy=(), unresolved=claim.heavy * 2), ())
    assert claim_line("attacks", open_).startswith("attacks: 0 items with 0.2 of all, 2 more asked for, of 160 events")


def test_a_claim_of_items_is_one_line() -> None:
    watch = Items(threshold=10, theta=0.5)
    coordinator = Coordinator((watch,), ("a", "b"))
    network = Lockstep(coordinator, {name: Site(name, (watch,)) for name in ("a", "b")})

    def line() -> str:
        claim = coordinator.items(1)
        assert claim is not None
        return claim_line("hot", claim.to_dict())

    assert line() == "hot: 0 items from 10 on, of 0 events at 2 sites"
    network.give("a", Arrived(["x"] * 1200 + ["y"] * 8))
    assert line() == "hot: 2 items from 10 on: x in [1,200, 1,501], y? in [8, 11], of 1,208 events at 2 sites"
    network.give("b", Arrived([f"z{n}" for n in range(9)] * 20))
    assert line().endswith("z1 in [20, 26], z2 in [20, 26], z3 in [20, 26], ..., of 1,388 events at 2 sites")
    assert line().startswith("hot: 11 items from 10 on: x in")
    assert claim_line("hot", None) == "hot: nothing yet"


@pytest.mark.parametrize(
    ("quantity", "more"),
    [
        ("total", {"rule": "eager"}),
        ("inner_product", {"rule": "near"}),
        ("distinct", {"rule": "lazy"}),
        ("self_join", {"rule": "relative", "window": "1 minute"}),
    ],
)
def test_a_rule_that_the_quantity_has_not_is_refused_when_the_file_is_read(quantity: str, more: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=rf"coordinator\.toml.*rule='{more['rule']}'"):
        _read(quantity=quantity, theta=0.2, **more)


def test_keys_that_would_command_a_terminal_are_escaped_and_long_sets_are_cut() -> None:
    watch = Items(threshold=1)
    coordinator = Coordinator((watch,), ("a",))
    network = Lockstep(coordinator, {"a": Site("a", (watch,))})
    network.give("a", Arrived(["\x1b[2Jgone", "ü"] * 3 + [f"k{number}" for number in range(12_000)]))
    shown = shown_claim(coordinator.items(1), watch)
    assert shown is not None
    assert (len(shown["items"]), shown["left_out"]) == (10_000, 2002)
    line = claim_line("hot", shown)
    assert line.startswith("hot: 12,002 items from 1 on: \\x1b[2Jgone in [3, 3], ü in [3, 3], k0 in")
    assert line.isprintable()


def test_a_threshold_is_the_same_number_with_and_without_a_point() -> None:
    assert Items(threshold=1000).fingerprint == Items(threshold=1000.0).fingerprint
    assert Total(threshold=1000).fingerprint == Total(threshold=1000.0).fingerprint
    assert Total(theta=0.1).fingerprint != Total(theta=0.2).fingerprint


def test_events_of_a_site_are_of_the_stream_that_its_source_says() -> None:
    product, total = InnerProduct(window=5), Total(number=2)
    batch = Batch(np.arange(3), np.arange(3), 3)
    event = as_event(batch, timed=True, stream=check_stream(1, [product]))
    assert isinstance(event, Arrived)
    assert event.stream == 1
    assert event.times is batch.times
    assert isinstance(as_event(Batch((), None, 3), timed=True, stream=1), Leave)
    assert check_stream(0, [product, total]) == 0
    with pytest.raises(ParameterError, match="watch nothing but inner products"):
        check_stream(1, [product, total])


def _read_at(source: SourceSettings, **values: Any) -> AnyWatch:
    table = Table({"name": "hot", **values}, ("watch",), Places("a.toml"))
    return read_watches([table], source=source)["hot"]


def test_keys_are_what_the_source_counts() -> None:
    texts, numbers = SourceSettings("csv", Fields("url")), SourceSettings("csv", Fields("id", key_type=INTEGER))
    assert _read_at(texts, quantity="frequency", key="7") == Frequency(key="7")
    assert _read_at(numbers, quantity="frequency", key=7) == Frequency(key=7)
    assert _read_at(numbers, quantity="range_sum", keys=[7, 8]) == RangeSum(keys=(7, 8))
    weighed = _read_at(numbers, quantity="range_sum", keys=[7, 8], factors=[2, -1])
    assert weighed == RangeSum(keys=(7, 8), factors=(2, -1))
    ones = _read_at(numbers, quantity="range_sum", keys=[7, 8], factors=[1, 1])
    assert ones.fingerprint == RangeSum(keys=(7, 8)).fingerprint
    web = SourceSettings("wc98", Fields("object"))
    for source, key in ((texts, 7), (numbers, "7"), (web, "7")):
        with pytest.raises(SettingsError, match="quotation marks"):
            _read_at(source, quantity="frequency", key=key)
        with pytest.raises(SettingsError, match="quotation marks"):
            _read_at(source, quantity="range_sum", keys=[key])


@pytest.mark.parametrize("keys", [[], ["a", 7], [""], [True], [1.5]])
def test_keys_that_are_no_keys_are_refused(keys: list[Any]) -> None:
    with pytest.raises(SettingsError, match=r"keys = .*write keys"):
        _read(quantity="range_sum", keys=keys)


@pytest.mark.parametrize("factors", [[1], [1, 1.5], ["1", "2"], [True, 1], 3])
def test_factors_that_are_none_are_refused(factors: Any) -> None:
    with pytest.raises(SettingsError, match=r"factors.*one for each key|factors = .*write an integer for each key"):
        _read(quantity="range_sum", keys=["a", "b"], factors=factors)


def test_a_window_is_in_the_ticks_of_the_source() -> None:
    minutes = SourceSettings("csv", Fields("url", "at", tick=60_000_000))
    assert _read_at(minutes, quantity="total", window="1 hour", tick="1 minute") == Total(window=60)
    assert _read_at(minutes, quantity="total") == Total()
    with pytest.raises(SettingsError, match="the same tick under"):
        _read_at(minutes, quantity="total", window="1 hour")
    with pytest.raises(SettingsError, match="without a time"):
        _read_at(SourceSettings("csv", Fields("url")), quantity="total", window="1 hour")
    with pytest.raises(SettingsError, match='window = "500 milliseconds": give at least 1 second'):
        _read(quantity="total", window="500 milliseconds")
    with pytest.raises(SettingsError, match='window = "0 seconds": give at least 1 minute'):
        _read(quantity="total", window="0 seconds", tick="1 minute")


@pytest.mark.parametrize("quantity", [{"quantity": "total"}, {"quantity": "items", "threshold": 9}])
def test_a_window_is_a_whole_number_of_ticks(quantity: dict[str, Any]) -> None:
    assert _read(window="120 seconds", tick="1 minute", **quantity).window == 2
    with pytest.raises(SettingsError, match=r'"90 seconds" is no whole number of ticks of 1 minute: give a multiple'):
        _read(window="90 seconds", tick="1 minute", **quantity)


def test_a_threshold_says_its_side() -> None:
    watch = Total(threshold=1_000_000, theta=0.05, epsilon=0.01)
    coordinator = Coordinator((watch,), ("a",))
    network = Lockstep(coordinator, {"a": Site("a", (watch,))})
    line = claim_line("load", shown_claim(coordinator.claim(1), watch))
    assert line == "load: below 1,000,000: 0 in [-∞, 1,052,632], of 0 events at 1 site"
    network.give("a", Arrived(np.zeros(1_200_000, dtype=np.int64)))
    shown = shown_claim(coordinator.claim(1), watch)
    assert shown is not None
    assert (shown["side"], shown["threshold"]) == ("above", 1_000_000)
    assert shown["low"] > 900_000


@pytest.mark.parametrize(
    ("watch", "confidence"),
    [
        (Total(), 1.0),
        (Frequency(key="a", theta=0.2), 1.0),
        (RangeSum(keys=("a", "b")), 1.0),
        (Total(window=60), 0.99),
        (SelfJoin(delta=0.1), 0.8),
    ],
)
def test_json_names_theta_and_the_window_and_says_how_sure_it_is(watch: Watch, confidence: float) -> None:
    coordinator = Coordinator((watch,), ("a",))
    Lockstep(coordinator, {"a": Site("a", (watch,))}).give("a", Arrived(["a"] * 9, times=[1] * 9))
    shown = shown_claim(coordinator.claim(1), watch)
    assert shown is not None
    assert "epsilon" not in shown
    assert (shown["theta"], shown["window"], shown["confidence"]) == (watch.theta, watch.window, confidence)


def test_json_of_items_names_theta_and_the_window() -> None:
    watch = Items(threshold=3, window=60)
    coordinator = Coordinator((watch,), ("a",))
    Lockstep(coordinator, {"a": Site("a", (watch,))})
    shown = shown_claim(coordinator.items(1), watch)
    assert shown is not None
    assert (shown["theta"], shown["window"]) == (watch.theta, 60)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('quantity = "range_sum"\nkeys = ["b", "a", "a"]', "line 4: keys with 'a' twice: give each key once"),
        ('quantity = "self_join"\nepsilon = 0.00001', "line 4: an epsilon for which every site needs a sketch of"),
        ('quantity = "distinct"\nepsilon = 0.00001', "line 4: an epsilon for which every site needs a sketch of"),
        ('quantity = "self_join"\nwindow = "1 minute"\nepsilon = 0.00001', "line 2: size=.* a larger epsilon"),
    ],
)
def test_what_a_site_could_not_hold_is_refused_with_its_line(lines: str, words: str) -> None:
    whole = parse_settings(f'\n[[watch]]\n{lines}\nname = "hot"', "coordinator.toml", what="a coordinator")
    with pytest.raises(SettingsError, match=f"coordinator.toml, {words}"):
        read_watches(whole.tables("watch"))
