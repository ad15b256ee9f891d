"""Two processes under one name: the earlier learns of the later by its own next word, though nobody asks for one.

And two lives of a coordinator under one number, as from one backup that is restored twice.
"""

from __future__ import annotations

import numpy as np
import pytest

from catchment.monitor.coordinator import Coordinator
from catchment.monitor.heavy_hitters import HeavyHitters
from catchment.monitor.heavy_hitters.messages import HeavyReport
from catchment.monitor.items import Items, ItemsClaim
from catchment.monitor.machine import COORDINATOR, Received, Send, Tick
from catchment.monitor.messages import Order, Report
from catchment.monitor.quantities import SelfJoin, Total
from catchment.monitor.site import Arrived, Leave, Site
from catchment.monitor.watch import Watch
from catchment.monitor.wire import read_frame, write_frame
from catchment.testing.lockstep import Lockstep

HEARTBEAT = 5_000
AHEAD = 1 << 60
BACKUP = {"epoch": AHEAD.to_bytes(8, "little")}
"""Of a life whose clock was far ahead."""
WATCHES = [Total(theta=0.1), SelfJoin(theta=0.2, epsilon=0.05), Items(threshold=5)]


def _settled(watch: Watch | Items, life: int, coordinator: Coordinator) -> tuple[Lockstep, Site]:
    """A site that has said all it had to say."""
    site = Site("a", (watch,), life=life, heartbeat=HEARTBEAT)
    world = Lockstep(coordinator, {"a": site})
    world.give("a", Arrived(np.arange(10)))
    world.pass_time(4 * HEARTBEAT)
    return world, site


@pytest.mark.parametrize("watch", WATCHES, ids=lambda watch: type(watch).__name__)
def test_the_earlier_learns_of_the_later_while_it_is_on_the_line(watch: Watch | Items) -> None:
    coordinator = Coordinator((watch,), ("a",))
    first_line, first = _settled(watch, 100, coordinator)
    second_line, second = _settled(watch, 200, coordinator)
    delivered = second_line.delivered
    second_line.pass_time(4 * HEARTBEAT)
    assert second_line.delivered == delivered + 4  # heartbeats alone: nothing is asked of the second any more
    assert not first.superseded
    first_line.pass_time(HEARTBEAT)
    assert first.superseded
    assert not second.superseded


@pytest.mark.parametrize("watch", WATCHES, ids=lambda watch: type(watch).__name__)
def test_a_site_that_had_left_takes_part_again_without_being_missed(watch: Watch | Items) -> None:
    coordinator = Coordinator((watch,), ("a",))
    world, _ = _settled(watch, 100, coordinator)
    world.give("a", Leave())
    world.pass_time(3_600_000)
    again = Site("a", (watch,), life=200, heartbeat=HEARTBEAT)
    (word,) = [action for action in again.handle(Arrived(np.arange(20)), world.now) if isinstance(action, Send)]
    coordinator.handle(Received("a", word.frame), world.now)
    claim = coordinator.items(1) if isinstance(watch, Items) else coordinator.claim(1)
    assert claim is not None
    assert (claim.missing if isinstance(claim, ItemsClaim) else claim.answer.missing) == ()


@pytest.mark.parametrize("watch", WATCHES, ids=lambda watch: type(watch).__name__)
def test_an_earlier_life_is_told_of_the_later_once_for_each_word(watch: Watch | Items) -> None:
    coordinator = Coordinator((watch,), ("a",))
    _, first = _settled(watch, 100, coordinator)
    _settled(watch, 200, coordinator)
    (word,) = [action for action in first.handle(Tick(), 100_000) if isinstance(action, Send)]
    for now in (100_000, 100_001):
        (answer,) = coordinator.handle(Received("a", word.frame), now)
        assert isinstance(answer, Send)
        assert coordinator.handle(Tick(), now) == []


def _cut_of(coordinator: Coordinator, watch: Watch | Items) -> tuple[int, bool]:
    """Up to which event of the site the claim is, and whether it is there."""
    if isinstance(watch, Items):
        items = coordinator.items(1)
        return (0, False) if items is None else (items.cut["a"][0], not items.missing)
    claim = coordinator.claim(1)
    return (0, False) if claim is None else (claim.cut["a"][0], not claim.answer.missing)


@pytest.mark.parametrize("watch", WATCHES, ids=lambda watch: type(watch).__name__)
def test_a_life_whose_number_an_earlier_one_had_rises_above_it(watch: Watch | Items) -> None:
    first, second = (Coordinator((watch,), ("a",), blobs=dict(BACKUP)) for _ in range(2))
    assert first.epoch == second.epoch
    site = Site("a", (watch,), heartbeat=HEARTBEAT)
    world = Lockstep(first, {"a": site})
    for _ in range(20):
        world.give("a", Arrived(np.arange(50)))
        world.pass_time(HEARTBEAT)
    again = Lockstep(second, {"a": site})
    again.now = world.now
    again.pass_time(3 * HEARTBEAT)
    again.give("a", Arrived(np.arange(50)))
    again.pass_time(3 * HEARTBEAT)
    assert second.epoch > first.epoch
    assert _cut_of(second, watch) == (site.position, True)


@pytest.mark.parametrize("watch", [Total(theta=0.1, rule="near"), SelfJoin(theta=0.2, epsilon=0.05, rule="near")])
def test_what_an_earlier_life_had_acknowledged_is_no_acknowledgement_of_this_one(watch: Watch) -> None:
    """An urgent word of this life that is lost is said again soon, and not with the next heartbeat only."""
    coordinator, site = Coordinator((watch,), ("a",), life=5), Site("a", (watch,), life=2, heartbeat=HEARTBEAT)
    late = write_frame(Order(query=1, epoch=5, incarnation=1, acked=500))
    site.handle(Received(COORDINATOR, late), 0)
    world = Lockstep(coordinator, {"a": site})
    world.give("a", Arrived(np.arange(1000)))
    world.pass_time(HEARTBEAT)
    (word,) = [action for action in site.handle(Arrived(np.arange(100)), world.now) if isinstance(action, Send)]
    assert isinstance(report := read_frame(word.frame), Report)
    assert report.urgent
    assert site.due == world.now + site.resend


def test_an_answer_to_a_list_that_was_never_asked_is_to_an_earlier_life() -> None:
    coordinator = Coordinator((HeavyHitters(phi=0.1),), ("a",), blobs=BACKUP)
    epoch = coordinator.epoch
    for asked, risen in ((1, False), (7, True)):
        report = HeavyReport(query=1, epoch=epoch, asked=asked, incarnation=1, seq=asked)
        coordinator.handle(Received("a", write_frame(report)), 0)
        assert (coordinator.epoch > epoch) == risen


def test_lives_that_know_the_same_have_numbers_of_their_own() -> None:
    """Of one backup, or of one site that has heard of a later life."""
    lives = 1_700_000_000_000_000, 1_700_000_000_500_000
    one, other = (Coordinator((Total(),), ("a",), blobs=BACKUP, life=life) for life in lives)
    assert AHEAD < one.epoch != other.epoch > AHEAD
    later = write_frame(Report(query=1, epoch=2 * AHEAD, incarnation=1, seq=1))
    for coordinator in (one, other):
        coordinator.handle(Received("a", later), 0)
    assert 2 * AHEAD < one.epoch != other.epoch > 2 * AHEAD


def test_a_life_that_was_heard_and_is_not_followed_yet_is_told() -> None:
    """A site with a part on its way follows no order for all before that is stored; the life may end before it is."""
    coordinator = Coordinator((SelfJoin(theta=0.2, epsilon=0.05),), ("a",), life=20)
    coordinator.handle(Received("a", write_frame(Report(query=1, epoch=10, heard=30, incarnation=1, seq=1))), 0)
    assert coordinator.epoch > 30
