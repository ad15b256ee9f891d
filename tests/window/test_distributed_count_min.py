"""DWCM: what the coordinator says is true of all sites, and what it costs is what Theorem 3.9 says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from catchment import BytesError, DamagedBytesError, MergeError, ParameterError, QueryError, TimeError
from catchment.testing import STREAMS, failures_allowed
from catchment.window.distributed_count_min import CountMinCoordinator, CountMinSite, items_between_messages
from catchment.window.jumping_count_min import JumpingCountMin
from catchment.window.perfect_count_min import PerfectCountMin
from catchment.window.proportional_count_min import ProportionalCountMin
from catchment.window.simple_count_min import SimpleCountMin
from catchment.window.splitter_count_min import SplitterCountMin
from catchment.window.windowed_count_min import WindowedCountMin
from tests.sketch.cases import name_of

KINDS: list[type[WindowedCountMin]] = [PerfectCountMin, SimpleCountMin, ProportionalCountMin, SplitterCountMin]
kinds = pytest.mark.parametrize("kind", KINDS, ids=name_of)
SITES = ("north", "east", "south")


class Cluster:
    """Sites and their coordinator, with a network that may lose, double and reorder messages."""

    def __init__(self, kind: type[WindowedCountMin], *, every: int, **options: Any) -> None:
        self.options = {"width": 25, "depth": 3, **options}
        self.sites = {name: CountMinSite(kind.sized(**self.options), every=every) for name in SITES}
        self.coordinator = CountMinCoordinator(kind.sized(**self.options), sites=SITES, every=every)

    def feed(self, keys: Any, at: Any, sites: Any, *, batch: int) -> None:
        """Give each site its events, all messages delivered, `batch` events of the whole stream at a time."""
        for start in range(0, len(keys), batch):
            for place, (name, site) in enumerate(self.sites.items()):
                chosen = np.flatnonzero(sites[start : start + batch] == place) + start
                times = {} if at is None else {"at": at[chosen]}
                for message in site.handle(keys[chosen], **times):
                    self.coordinator.handle(name, message)


@kinds
@pytest.mark.parametrize("arrivals", [False, True], ids=["time", "arrivals"])
def test_the_coordinator_answers_truly_for_all_sites(kind: type[WindowedCountMin], arrivals: bool) -> None:
    """Theorem 3.10 as a bound that is in the answer: what was not sent yet is counted too."""
    failures, trials, doubt = 0, 60, 0.05
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        events = STREAMS[["drifting", "zipf-1.1", "bursts"][trial % 3]](300, seed=trial, sites=3, universe=100)
        window, every = int(rng.choice([30, 120, 1000])), int(rng.choice([2, 12, 40]))
        clock = {"window": window, "clock": "arrivals" if arrivals else "time", "delta": doubt / (3 if arrivals else 1)}
        cluster = Cluster(kind, every=every, seed=trial + 1, **clock)
        cluster.feed(events.keys, None if arrivals else events.at, events.sites, batch=int(rng.integers(1, 200)))
        if arrivals:
            chosen = np.concatenate([np.flatnonzero(events.sites == place)[-window:] for place in range(3)])
            now = None
        else:
            now = int(events.at[-1])
            chosen = np.flatnonzero(events.at > now - window)
        truth = Counter(events.keys[chosen].tolist())
        answer = cluster.coordinator.estimate(np.arange(100), now=now)
        true = np.array([truth[key] for key in range(100)])
        assert np.all(true <= answer.high)
        assert answer.confidence == pytest.approx(1 - doubt)
        assert answer.sites == SITES
        key = int(rng.integers(0, 100))
        assert cluster.coordinator.estimate(key, now=now) == answer[key]
        failures += int(truth[key] < answer[key].low)
    assert failures <= failures_allowed(trials, doubt)


@pytest.mark.parametrize("kind", [PerfectCountMin, SimpleCountMin], ids=name_of)
def test_entries_lag_by_no_more_than_theorem_3_10(kind: type[WindowedCountMin]) -> None:
    window, epsilon, largest = 400, 0.1, 0
    every = items_between_messages(kind(arrivals=window), epsilon)
    cluster = Cluster(kind, every=every, window=window, clock="arrivals")
    events = STREAMS["zipf-2"](1000, seed=3, sites=3)
    for place in range(0, 1000, 5):
        part = slice(place, place + 5)
        cluster.feed(events.keys[part], None, events.sites[part], batch=5)
        known = sum(cells_of(sketch) for _, sketch in cluster.coordinator._newest.values())
        really = sum(cells_of(site.sketch) for site in cluster.sites.values())
        skew = int(np.abs(known - really).max())
        largest = max(largest, skew)
        assert skew <= len(SITES) * epsilon * window
    assert largest > epsilon * window, "the bound was never put to the test"


def cells_of(sketch: WindowedCountMin) -> Any:
    if isinstance(sketch, JumpingCountMin):
        return sketch._cells[0]
    assert isinstance(sketch, PerfectCountMin)
    return sketch._cells


@kinds
def test_communication_is_that_of_theorem_3_9(kind: type[WindowedCountMin]) -> None:
    window, epsilon = 500, 0.05
    site = CountMinSite(kind(arrivals=window), every=items_between_messages(kind(arrivals=window), epsilon))
    for lap in range(4):
        before = site.sent_messages, site.sent_bytes
        messages = site.handle(STREAMS["uniform"](window, seed=lap).keys)
        assert site.sent_messages - before[0] == len(messages) == round(1 / epsilon)
        assert site.sent_bytes - before[1] == sum(map(len, messages))


@kinds
def test_messages_do_not_depend_on_batches(kind: type[WindowedCountMin]) -> None:
    events = STREAMS["bursts"](300, seed=2)
    whole, singly = (CountMinSite(kind(window=100), every=17) for _ in range(2))
    messages = whole.handle(events.keys, at=events.at)
    assert messages == [
        message
        for key, at in zip(events.keys.tolist(), events.at.tolist(), strict=True)
        for message in singly.handle(key, at=at)
    ]
    assert (whole.pending, len(messages)) == (300 % 17, 300 // 17)
    assert singly.flush() == whole.flush()
    assert whole.pending == 0


def test_lost_doubled_and_reordered_messages_do_no_harm() -> None:
    site = CountMinSite(PerfectCountMin(window=1000), every=10)
    messages = site.handle(np.zeros(100, dtype=np.int64), at=np.arange(100))
    coordinator = CountMinCoordinator(PerfectCountMin(window=1000), sites=["a"], every=10)
    for message in (messages[3], messages[0], messages[3], messages[9], messages[5]):
        coordinator.handle("a", message)
    assert coordinator.estimate(0).low == 100
    assert coordinator.received_messages == 5
    assert coordinator.received_bytes == sum(len(messages[place]) for place in (3, 0, 3, 9, 5))


def test_a_site_that_was_not_heard_of_is_named_and_counted_in() -> None:
    coordinator = CountMinCoordinator(SimpleCountMin(window=10), sites=SITES, every=5)
    answer = coordinator.estimate("x")
    assert (answer.low, answer.high, answer.missing) == (0, 12, SITES)


def test_what_cannot_be_is_refused() -> None:
    coordinator = CountMinCoordinator(SimpleCountMin(window=10), sites=["a"], every=5)
    (message,) = CountMinSite(SimpleCountMin(window=10, seed=3), every=1).handle("x", at=1)
    with pytest.raises(MergeError, match="seed"):
        coordinator.handle("a", message)
    with pytest.raises(ParameterError, match="no site 'b'"):
        coordinator.handle("b", message)
    with pytest.raises(DamagedBytesError, match="too few"):
        coordinator.handle("a", b"1234")
    for length in range(8, len(message)):
        with pytest.raises(BytesError):
            coordinator.handle("a", message[:length])
    assert coordinator.received_messages == 0
    for sites in ([], ["a", "a"]):
        with pytest.raises(ParameterError, match="once"):
            CountMinCoordinator(SimpleCountMin(window=10), sites=sites, every=5)
    with pytest.raises(QueryError, match="arrivals"):
        CountMinCoordinator(SimpleCountMin(arrivals=10), sites=["a"], every=5).estimate(1, now=3)


def test_a_batch_is_taken_whole_or_not_at_all() -> None:
    site = CountMinSite(PerfectCountMin(window=100), every=2)
    with pytest.raises(TimeError):
        site.handle(["a", "b", "c"], at=[1, 2])
    assert (site.pending, site.sent_messages, site.sketch.newest) == (0, 0, None)
