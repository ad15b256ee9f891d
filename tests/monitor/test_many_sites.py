"""What a coordinator keeps, so as not to look at all of its sites for each message, is what looking would find."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.monitor import contributions
from catchment.monitor.agenda import Agenda
from catchment.monitor.coordinator import Coordinator
from catchment.monitor.items.watch import Items
from catchment.monitor.machine import COORDINATOR, NEVER, Received, Send, Tick
from catchment.monitor.messages import Report
from catchment.monitor.quantities import SelfJoin, Total
from catchment.monitor.query import Query
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.wire import read_frame, write_frame
from catchment.testing.items_world import build_items_world
from catchment.testing.lockstep import Lockstep
from catchment.testing.monitor_world import build_monitor_world
from catchment.testing.simulation import BuildWorld, simulate
from catchment.testing.worlds import build_world


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-5, 40) | st.just(NEVER)), max_size=30))
def test_an_agenda_knows_who_is_due(changes: list[tuple[str, int]]) -> None:
    times = dict.fromkeys("abcde", NEVER)
    agenda = Agenda(times, times.__getitem__)
    for name, time in changes:
        times[name] = time
        agenda.touch(name)
        assert agenda.first == min(times.values())
        assert agenda.by(20) == [one for one, due in times.items() if due <= 20]


def test_nobody_takes_part() -> None:
    assert (Agenda((), lambda _: 0).first, Agenda((), lambda _: 0).by(5)) == (NEVER, [])


def _held_to_all_sites(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After each event of any coordinator, look at all of its sites; how often that was done."""
    looked = [0]
    handle = Coordinator.handle

    def handled(self: Coordinator, event: Any, now: int) -> Any:
        actions = handle(self, event, now)
        for query in self._queries.values():
            assert query._agenda._known().tolist() == [query._due(site) for site in query._peers]
            if isinstance(query, Query):
                _hold(query)
            looked[0] += 1
        return actions

    monkeypatch.setattr(Coordinator, "handle", handled)
    return looked


def _hold(query: Query) -> None:
    views, given = query._views, query._contributions
    assert query._awaited == {site for site in query._asked if views[site].confirmed != views[site].step}
    assert all(query._peers[site].alive for site in query._awaited)
    assert np.array_equal(given.total, sum(peer.contribution for peer in given.peers.values()))
    given.total.setflags(write=False)  # from now on a write to any of them fails
    for peer in given.peers.values():
        for kept in (peer.contribution, peer.start, peer.ahead):
            if kept is not None:
                kept.setflags(write=False)


def test_what_is_kept_is_what_all_sites_say(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = _held_to_all_sites(monkeypatch)
    simulate(build_world, range(25), jobs=1).raise_failure()
    assert looked[0] > 2_000


@pytest.mark.parametrize("build", [build_monitor_world, build_items_world])
def test_a_site_that_is_not_touched_is_noticed(build: BuildWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    touch, calls = Agenda.touch, [0]

    def some(self: Agenda, *names: str) -> None:
        calls[0] += 1
        if calls[0] % 10:
            touch(self, *names)

    monkeypatch.setattr(Agenda, "touch", some)
    _held_to_all_sites(monkeypatch)
    assert simulate(build, range(4), jobs=1).failures


def test_a_coordinator_with_an_old_disk_speaks_to_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _held_to_all_sites(monkeypatch)
    watches = Total(number=1, theta=0.1), Items(number=2, threshold=5)
    names = "a", "b", "gone"
    machines = {name: Site(name, watches) for name in names}
    coordinator = Coordinator(watches, names)
    network = Lockstep(coordinator, machines)
    network.give("gone", Arrived(np.arange(40)))
    network.give("gone", Leave())
    network.pass_time(500)
    assert machines["gone"].gone
    words = [read_frame(word.frame) for word in machines["a"].handle(Tick(), 60_000) if isinstance(word, Send)]
    report = next(word for word in words if isinstance(word, Report))
    later = write_frame(replace(report, epoch=50))  # it has heard a later life of the coordinator than this one
    actions = coordinator.handle(Received("a", later), network.now)
    assert coordinator.epoch == 51
    assert {action.to for action in actions if isinstance(action, Send)} == {"a", "b", "gone"}
    assert len([action for action in actions if isinstance(action, Send)]) == 5  # to who has left, of items alone


class _Liar(Lockstep):
    """The first site's reports, each followed by others that are not its own: a hostile site, or a broken one."""

    def __init__(self, coordinator: Coordinator, sites: dict[str, Site], seed: int) -> None:
        self._rng = random.Random(seed)
        super().__init__(coordinator, dict(sites))

    def _act(self, name: str, actions: list[Any], waiting: Any) -> None:
        for action in actions:
            if name == "s0" and isinstance(action, Send):
                report = read_frame(action.frame)
                assert isinstance(report, Report)
                actions = [*actions, *(Send(COORDINATOR, write_frame(self._twisted(report))) for _ in range(2))]
        super()._act(name, actions, waiting)

    def _twisted(self, report: Report) -> Report:
        rng = self._rng
        changes: dict[str, Any] = {
            "step": max(report.step - rng.randrange(3), 0),
            "statistic": tuple(rng.uniform(-5, 5) for _ in range(rng.randrange(9))),
            "level": rng.randrange(4),
            "flush": None,
            "number": report.number + rng.randrange(2),
            "pending": rng.randrange(9),
            "round": report.round + rng.randrange(2),
        }
        chosen = {name: changes[name] for name in rng.sample(sorted(changes), rng.randrange(1, 4))}
        if rng.random() < 0.3:
            chosen["statistic"] = ()
        return replace(report, seq=report.seq + 1, **chosen)


@pytest.mark.parametrize("rule", ["auto", "push", "near", "full", "eager", "lazy", "relative", "two-phase"])
def test_what_a_site_makes_up_stops_nobody(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _held_to_all_sites(monkeypatch)
    window = 400 if rule == "two-phase" else None
    watch = SelfJoin(theta=0.5, epsilon=0.4, delta=0.01, rule=rule, window=window)
    names = "s0", "s1", "s2"
    refused = delivered = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        coordinator = Coordinator((watch,), names)
        network = _Liar(coordinator, {name: Site(name, (watch,)) for name in names}, seed)
        for step in range(60):
            keys = rng.zipf(1.5, 20) % 50
            network.give(names[step % 3], Arrived(keys, times=np.arange(20) + 20 * step))
            network.pass_time(200)
        refused += coordinator.refused
        delivered += network.delivered
    assert delivered > 500
    assert refused > 10


def _counted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[int]:
    calls = [0]
    real: Callable[..., Any] = getattr(where, name)

    def counting(*args: Any) -> Any:
        calls[0] += 1
        return real(*args)

    monkeypatch.setattr(where, name, counting)
    return calls


@pytest.mark.parametrize("sites", [4, 200])
def test_a_flush_looks_at_its_site_and_is_read_once(sites: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = _counted(monkeypatch, Query, "_speaks_at")
    reads = _counted(monkeypatch, contributions, "read_change")
    watch = SelfJoin(theta=0.2, epsilon=0.1, delta=0.1, rule="centralise")
    names = tuple(f"s{place}" for place in range(sites))
    coordinator = Coordinator((watch,), names)
    network = Lockstep(coordinator, {name: Site(name, (watch,)) for name in names})
    network.pass_time(500)
    claim = coordinator.claim(1)
    assert claim is not None
    assert claim.estimate == 0
    looks[0] = reads[0] = 0
    network.give("s1", Arrived(np.arange(10)))
    claim = coordinator.claim(1)
    assert claim is not None
    assert claim.cut["s1"][0] == 10
    assert reads[0] == 1
    assert looks[0] <= 6
