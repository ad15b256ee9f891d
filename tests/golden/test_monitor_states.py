"""Durable state of monitors is for ever: it is read, written the same again, and gone on with."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from catchment.errors import BytesError, ParameterError
from catchment.monitor import Coordinator, HeavyHitters, Items, Site, Total, Watch
from catchment.monitor.heavy_hitters.messages import HeavyAsk
from catchment.monitor.items.messages import ItemsOrder, ItemsReport
from catchment.monitor.machine import COORDINATOR, Action, Machine, Persist, Received, Send, Tick
from catchment.monitor.messages import Order, Report
from catchment.monitor.set_aside import set_aside
from catchment.monitor.wire import Message, read_frame
from catchment.testing.lockstep import Lockstep
from tests.golden import store
from tests.golden.states import GOES, LIFE, STAYS, Recorder, events_at, feed, golden
from tests.golden.streams import SITES, batches
from tests.golden.truth import check
from tests.golden.watches import CASES, AnyWatch, Case

_NAMES = re.compile(r"life|state|epoch|\d+\.(\d+|whole|items|items-\d+|heavy)\.[abc]|\d+\.heavy")
"""Every name that a blob may have; a new one needs a golden file."""


class _Nobody:
    """A site that has left: it hears nothing any more."""

    due = None

    def handle(self, event: Any, now: int) -> list[Action]:
        return []


def _claim(coordinator: Coordinator, watch: AnyWatch) -> Any:
    if isinstance(watch, Items):
        return coordinator.items(watch.number)
    return coordinator.claim(watch.number) if isinstance(watch, Watch) else coordinator.heavy_hitters(watch.number)


def _frames(said: list[tuple[int, str, bytes]]) -> Iterator[tuple[str, Message]]:
    for _, name, frame in said:
        yield name, read_frame(frame)


@pytest.mark.parametrize("name", CASES)
def test_the_same_events_give_the_golden_state_of_a_site(name: str) -> None:
    case, durable = CASES[name], golden(name).durable
    for site in SITES:
        machine = Site(site, case.watches, life=LIFE, keep=1)
        world = Lockstep(_Nobody(), {site: machine})
        for phase in range(1 if site == GOES else 2):
            feed(world, case, (site,), phase)
        assert {blob: world.durable[site, blob] for blob in durable[site]} == durable[site]


@pytest.mark.parametrize("name", CASES)
def test_the_state_of_a_site_is_read_and_written_the_same(name: str) -> None:
    """Without any event between, which only a look inside can show."""
    case, durable = CASES[name], golden(name).durable
    for site in SITES:
        machine = Site(site, case.watches, blobs=durable[site])
        assert machine.position == len(events_at(case, site, range(2))) > 0
        assert machine.incarnation == LIFE + 1
        assert machine._write() == durable[site]["state"]


@pytest.mark.parametrize("name", CASES)
def test_the_same_reports_give_the_golden_state_of_a_coordinator(name: str) -> None:
    case, half_way = CASES[name], golden(name)
    coordinator = Coordinator(case.watches, SITES, life=LIFE)
    durable: dict[str, bytes] = {}
    for event in (Tick(), *(Received(sender, frame) for _, sender, frame in half_way.heard)):
        for action in coordinator.handle(event, 0):
            if isinstance(action, Persist) and not action.name.endswith(".heavy"):  # hints of when they were written
                durable[action.name] = action.blob
    kept = {blob: bytes_ for blob, bytes_ in half_way.durable[COORDINATOR].items() if not blob.endswith(".heavy")}
    assert coordinator.refused == 0
    assert durable == kept


@pytest.mark.parametrize("name", CASES)
def test_monitors_go_on_from_the_golden_state(name: str) -> None:
    case, durable = CASES[name], golden(name).durable
    assert set_aside(case.watches, SITES, durable[COORDINATOR]) == {}
    machine = Coordinator(case.watches, SITES, blobs=durable[COORDINATOR])
    assert machine.epoch == LIFE + 1
    coordinator = Recorder(machine)
    sites: dict[str, Machine] = {site: Site(site, case.watches, blobs=durable[site], keep=1) for site in STAYS}
    world = Lockstep(coordinator, {**sites, GOES: _Nobody()})
    feed(world, case, STAYS, 2)
    world.pass_time(25_000)
    streams = {site: events_at(case, site, range(3)) for site in SITES}
    assert machine.refused == 0
    assert all(_NAMES.fullmatch(blob) for _, blob in world.durable)
    for watch in case.watches:
        claim = _claim(machine, watch)
        assert claim.left == (GOES,)
        for site, mark in claim.cut.items():
            position = mark.position if isinstance(watch, HeavyHitters) else mark[0]
            assert position == len(streams[site])
        assert isinstance(watch, Watch) or claim.keys
        check(watch, claim, streams)
    _check_whole_flushes(case, coordinator)


def _check_whole_flushes(case: Case, coordinator: Recorder) -> None:
    """A site tells all that it has once in its new life, and then only what has changed."""
    wholes: set[tuple[str, int, int]] = set()
    for site, message in _frames(coordinator.heard):
        told = (
            message.flush
            if isinstance(message, Report)
            else message.bands
            if isinstance(message, ItemsReport)
            else None
        )
        if told is not None and told.whole:
            assert isinstance(message, Report | ItemsReport)
            wholes.add((site, message.query, message.number))
    counted = [watch.number for watch in case.watches if not isinstance(watch, HeavyHitters)]
    assert wholes == {(site, number, 1) for site in STAYS for number in counted}


@pytest.mark.parametrize("name", CASES)
def test_a_coordinator_asks_a_site_for_no_more_than_what_has_changed(name: str) -> None:
    """It says what it has of each site's life, so that a site that has not stopped can build upon that."""
    case, half_way = CASES[name], golden(name)
    newest: dict[tuple[int, str], tuple[int, int]] = {}
    for site, message in _frames(half_way.heard):
        if isinstance(message, Report | ItemsReport):
            newest[message.query, site] = message.incarnation, message.number
    coordinator = Coordinator(case.watches, SITES, blobs=half_way.durable[COORDINATOR])
    said = [action for action in coordinator.handle(Tick(), 0) if isinstance(action, Send)]
    for action in said:
        message = read_frame(action.frame)
        if isinstance(message, Order | ItemsOrder):
            assert (message.incarnation, message.stored) == newest.pop((message.query, action.to))
        else:
            assert isinstance(message, HeavyAsk)
            assert message.named()  # it asks for what it asked for last
    assert {site for _, site in newest} <= {GOES}


@pytest.mark.parametrize("name", CASES)
def test_what_has_left_is_in_the_golden_state(name: str) -> None:
    """Where all sites have left the coordinator knows their farewells from its disk alone."""
    case, durable = CASES[name], golden(name).durable
    blobs = {blob: bytes_ for blob, bytes_ in durable[COORDINATOR].items() if blob[-2:] not in (".a", ".b")}
    coordinator = Coordinator(case.watches, (GOES,), blobs=blobs)
    coordinator.handle(Tick(), 0)
    for watch in case.watches:
        claim = _claim(coordinator, watch)
        assert claim.left == (GOES,)
        check(watch, claim, {GOES: events_at(case, GOES, range(1))})


@pytest.mark.parametrize("name", CASES)
def test_damage_is_refused(name: str) -> None:
    case, durable = CASES[name], golden(name).durable
    blob = durable["a"]["state"]
    for place in range(0, len(blob), 1 + len(blob) // 40):
        damaged = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        with pytest.raises(BytesError):
            Site("a", case.watches, blobs={**durable["a"], "state": damaged})
    for kept, blob in durable[COORDINATOR].items():
        if kept != "epoch" and not re.fullmatch(r"\d+\.(items-)?\d+\.[abc]", kept):
            damaged = blob[:-1] + bytes([blob[-1] ^ 1])
            with pytest.raises(BytesError):
                Coordinator(case.watches, SITES, blobs={**durable[COORDINATOR], kept: damaged})


@pytest.mark.parametrize("name", CASES)
def test_what_is_of_another_watch_is_refused_by_a_site_and_set_aside_by_a_coordinator(name: str) -> None:
    case, durable = CASES[name], golden(name).durable
    others = tuple(_another(watch) for watch in case.watches)
    for watches in (others, case.watches[::-1]):
        if watches != case.watches:
            with pytest.raises(ParameterError, match="other watches"):
                Site("a", watches, blobs=durable["a"])
    aside = set_aside(others, SITES, durable[COORDINATOR])
    for watch in others:
        assert aside[watch.number] == [GOES] if isinstance(watch, HeavyHitters) else list(SITES)
    coordinator = Coordinator(others, SITES, blobs=durable[COORDINATOR])
    coordinator.handle(Tick(), 0)
    for watch in others:
        claim = _claim(coordinator, watch)
        assert claim is None or GOES not in claim.left


def _another(watch: AnyWatch) -> AnyWatch:
    """A watch of the same number that counts something else."""
    if isinstance(watch, HeavyHitters):
        return HeavyHitters(number=watch.number, phi=0.4, window=watch.window, panes=watch.panes)
    return Items(number=watch.number, threshold=77) if isinstance(watch, Watch) else Total(number=watch.number, seed=9)


def test_every_watch_has_a_golden_state() -> None:
    found = {(type(watch), watch.window is None) for case in CASES.values() for watch in case.watches}
    kinds = {HeavyHitters, Items, *_concrete(Watch)}
    assert found == {(kind, whole) for kind in kinds for whole in (True, False)}
    assert {path.stem for path in (store.FOLDER / "states").glob("*.json")} == set(CASES)


def _concrete(kind: Any) -> set[type[Watch]]:
    """The watches of the library; dataclasses with slots are made twice, and only one of both is in its module."""
    found: set[type[Watch]] = set()
    for below in kind.__subclasses__():
        found |= _concrete(below)
        if below.__module__.startswith("catchment.monitor.quantities.") and not below.__name__.startswith("_"):
            found.add(below)
    return {below for below in found if vars(_module(below)).get(below.__name__) is below}


def _module(kind: type) -> Any:
    return sys.modules[kind.__module__]


def test_every_kind_of_blob_has_a_golden_one() -> None:
    kept = {blob for name in CASES for blobs in golden(name).durable.values() for blob in blobs}
    assert all(_NAMES.fullmatch(blob) for blob in kept)
    kinds = {re.sub(r"\.[abc]$", ".site", re.sub(r"\d+", "N", blob)) for blob in kept}
    assert kinds == {
        "life", "state", "epoch", "N.N.site", "N.whole.site", "N.items.site", "N.items-N.site", "N.heavy",
        "N.heavy.site",
    }  # fmt: skip


def test_golden_batches_are_all_events() -> None:
    case = CASES["total"]
    events = events_at(case, "a", range(1))
    assert sum(len(batch.keys) for batch in batches(events, timed=True)) == len(events)
