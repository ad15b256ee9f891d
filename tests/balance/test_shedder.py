"""The shedder and the operator's side: against the slow and obvious, message by message, and as bytes."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.balance.cost_learner import CostLearner
from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shedder import LoadShedder
from catchment.errors import BytesError, CatchmentError, InputError, MergeError, ParameterError, TimeError, WeightError
from catchment.sketch.codec import open_envelope, seal_envelope
from catchment.sketch.value_estimator import ValueEstimator


def told(costs: dict[str, int], *, finished: float = 0.0) -> Learnt:
    """Matrices wide enough to be exact, from an operator that is idle."""
    matrices = ValueEstimator(0.001, 0.01)
    matrices.update(list(costs), values=list(costs.values()))
    return Learnt(matrices, executed=0, finished=finished, waited=0.0, served=0.0)


def knowing(target: int, costs: dict[str, int], **rules: Any) -> LoadShedder:
    shedder = LoadShedder(target, epsilon=0.001, delta=0.01, **rules)
    shedder.hear(told(costs))
    return shedder


def test_nothing_is_dropped_before_anything_is_known() -> None:
    shedder = LoadShedder(target=0, constraint="absolute")
    decision = shedder.shed(["a"] * 100, at=[0] * 100)
    assert decision.kept.all()
    assert np.isnan(decision.waits).all()
    assert decision.marks == ()
    assert (shedder.state, shedder.admitted, shedder.dropped) == ("nop", 100, 0)


def test_the_states_are_those_of_the_thesis() -> None:
    shedder = LoadShedder(1000, epsilon=0.001, delta=0.01, ask_every=0)
    shedder.hear(told({"a": 400}))
    assert shedder.state == "send"
    decision = shedder.shed(["a", "a"], at=[0, 0])
    assert decision.marks == ((0, Mark(1, 400.0)),)
    assert shedder.state == "run"
    assert shedder.shed(["a"], at=[0]).marks == ()
    shedder.hear(Reply(1, delta=-100.0, waited=0.0, served=1.0))
    assert shedder.busy_until == 1100.0
    shedder.hear(told({"a": 500}))
    assert shedder.state == "send"


def test_a_request_goes_with_the_first_that_is_kept() -> None:
    shedder = knowing(100, {"a": 1000}, constraint="absolute", ask_every=0)
    shedder.shed(["a"], at=[0])
    shedder.hear(told({"a": 1000}))
    decision = shedder.shed(["a", "a", "a"], at=[1, 2, 950])
    assert decision.kept.tolist() == [False, False, True]
    assert decision.marks == ((2, Mark(2, 2000.0)),)


def test_it_asks_again_only_when_it_was_answered() -> None:
    shedder = knowing(10**9, {"a": 10}, ask_every=3)
    assert shedder.shed(["a"] * 20, at=[0] * 20).marks[0][0] == 0
    assert shedder.shed(["a"] * 20, at=[0] * 20).marks == ()
    shedder.hear(Reply(1, 0.0, 0.0, 1.0))
    decision = shedder.shed(["a"] * 20, at=[0] * 20)
    ((place, mark),) = decision.marks
    assert (place, mark.number) == (0, 2)


def test_replies_to_older_requests_and_doubled_ones_are_no_news() -> None:
    shedder = knowing(10**9, {"a": 10}, ask_every=1)
    shedder.shed(["a"], at=[0])
    shedder.hear(Reply(1, 5.0, 0.0, 1.0))
    shedder.shed(["a"], at=[0])
    before = shedder.to_bytes()
    shedder.hear(Reply(1, 1000.0, 7.0, 9.0))
    assert shedder.to_bytes() == before
    shedder.hear(Reply(2, 5.0, 0.0, 2.0))
    shedder.hear(Reply(2, 5.0, 0.0, 2.0))
    assert shedder.busy_until == 30.0


def test_what_waits_at_the_operator_is_known_with_the_first_matrices() -> None:
    shedder = LoadShedder(1000, constraint="absolute")
    operator = ShedOperator(CostLearner())
    shedder.shed(["a"] * 11, at=range(11))
    (learnt,) = operator.executed(["a"], costs=[500], waits=[0], finished=[500])
    shedder.hear(learnt)
    assert shedder.busy_until == 500 + 10 * 500
    assert shedder.shed(["a"], at=[600]).dropped == 1


def drawn(seed: int) -> tuple[random.Random, list[tuple[int, int]]]:
    """Gaps between arrivals and costs, with busy and idle times; examples of a searching kind had too few of both."""
    draw = random.Random(seed)
    longest = draw.choice([5, 30, 60])
    return draw, [(draw.randint(0, longest), draw.randint(0, 40)) for _ in range(draw.randint(2, 40))]


@pytest.mark.parametrize("seed", range(100))
def test_a_correction_is_as_if_it_had_been_known_all_along(seed: int) -> None:
    """Against the obvious: go back to the request, put the moment right, and replay every arrival since."""
    draw, steps = drawn(seed)
    delta, asked = draw.randint(-50, 50), draw.randrange(len(steps))
    shedder = knowing(10**6, {str(cost): cost for _, cost in steps}, constraint="absolute", ask_every=1)
    now, request, at_request, busy = 0, None, 0.0, 0.0
    since: list[tuple[int, int]] = []
    for place, (gap, cost) in enumerate(steps):
        now += gap
        decision = shedder.shed([str(cost)], at=[now])
        busy = max(busy, now) + cost
        assert decision.kept.all()
        if decision.marks and place >= asked and request is None:
            request, at_request = decision.marks[0][1], busy
        elif request is not None:
            since.append((now, cost))
        elif decision.marks:
            shedder.hear(Reply(decision.marks[0][1].number, 0.0, 0.0, 1.0))
        assert shedder.busy_until == busy
    assert request is not None
    shedder.hear(Reply(request.number, float(delta), 0.0, 1.0))
    truth = at_request + delta
    for moment, cost in since:
        truth = max(truth, moment) + cost
    assert shedder.busy_until == truth


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("constraint", ["average", "absolute"])
def test_with_exact_costs_waits_are_exact_and_the_constraint_holds_at_every_moment(seed: int, constraint: str) -> None:
    """Against a queue in plain Python that drops what Problem 8.1 forbids and nothing else (Theorem 8.5)."""
    draw, steps = drawn(seed)
    target = draw.choice([0, 5, 20, 60])
    shedder = knowing(target, {str(cost): cost for _, cost in steps}, constraint=constraint, ask_every=0)
    waits: list[int] = []
    now = free = 0
    for gap, cost in steps:
        now += gap
        wait = max(free - now, 0)
        allowed = wait <= target if constraint == "absolute" else (sum(waits) + wait) <= target * (len(waits) + 1)
        decision = shedder.shed([str(cost)], at=[now])
        assert decision.kept.tolist() == [allowed]
        assert decision.waits.tolist() == [wait]
        if allowed:
            waits.append(wait)
            free = max(free, now) + cost
            assert sum(waits) <= target * len(waits)


def test_an_average_that_is_over_the_target_comes_down_again() -> None:
    """As printed, the check would drop everything for ever: what is dropped does not change the average."""
    shedder = knowing(100, {"a": 50}, ask_every=1)
    ((_, carried),) = shedder.shed(["a"], at=[0]).marks
    shedder.hear(Reply(carried.number, 0.0, waited=100_000.0, served=10.0))
    assert shedder.average == 10_000
    for now in range(1000, 200_000, 100):
        decision = shedder.shed(["a", "a"], at=[now, now])
        assert decision.kept[0]
        if decision.marks:
            shedder.hear(Reply(decision.marks[0][1].number, 0.0, shedder._state[1], shedder._state[2]))
    assert shedder.average <= 101


def test_a_recent_average_forgets_a_calm() -> None:
    forgetful, faithful = (knowing(100, {"a": 50}, memory=memory, ask_every=0) for memory in (20, None))
    for now in range(0, 100_000, 100):
        forgetful.shed(["a"], at=[now])
        faithful.shed(["a"], at=[now])
    burst = {"keys": ["a"] * 500, "at": [100_000] * 500}
    assert faithful.shed(**burst).kept.sum() > 60
    assert forgetful.shed(**burst).kept.sum() < 15


@pytest.mark.parametrize("bad", [{"target": -1}, {"target": 1.5}, {"target": 1, "constraint": "median"}])
def test_impossible_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        LoadShedder(**bad)
    for rule in ({"margin": 0}, {"memory": 1}, {"ask_every": -1}):
        with pytest.raises(ParameterError):
            LoadShedder(1, **rule)  # type: ignore[arg-type]


def test_bad_input_is_refused_and_changes_nothing() -> None:
    shedder = knowing(100, {"a": 50})
    shedder.shed(["a"], at=[1000])
    before = shedder.to_bytes()
    for keys, at in (
        (["a"], [999]),
        (["a", "a"], [1002, 1001]),
        (["a"], [1000, 1001]),
        ([None], [1000]),
        (["a"], [1e3]),
    ):
        with pytest.raises(CatchmentError):
            shedder.shed(keys, at=at)
    with pytest.raises(MergeError):
        shedder.hear(Learnt(ValueEstimator(0.5, 0.5), 1, 0.0, 0.0, 0.0))
    assert shedder.to_bytes() == before
    operator = ShedOperator()
    operator.executed(["a"], costs=[5], waits=[0], finished=[100])
    then = operator.to_bytes()
    with pytest.raises(TimeError):
        operator.executed(["a"], costs=[5], waits=[0], finished=[99])
    with pytest.raises(TimeError):
        operator.executed(["a"], costs=[5], waits=[-1], finished=[200])
    with pytest.raises(WeightError):
        operator.executed(["a"], costs=[-5], waits=[0], finished=[200])
    with pytest.raises(InputError):
        operator.executed(["a"], costs=[5], waits=[0], finished=[200], marks=[(1, Mark(1, 0.0))])
    assert operator.to_bytes() == then


class NaiveLearner:
    """Listing 8.3 with a list of everything and Python's own arithmetic."""

    def __init__(self, window: int, tolerance: float, first: int, matrices: ValueEstimator) -> None:
        self.window, self.tolerance, self.matrices = window, tolerance, matrices
        self.events: list[tuple[int, int]] = []
        self.snapshot: dict[Any, float] = {}
        self.state, self.early, self.stable = "start", first, 0

    def means(self) -> dict[Any, float]:
        found = {}
        for row in range(self.matrices.depth):
            for column in range(self.matrices.width):
                costs = [cost for key, cost in self.events if self.cell(key, row) == column]
                found[row, column] = sum(costs) / len(costs) if costs else 0.0
        return found

    def cell(self, key: int, row: int) -> int:
        probe = ValueEstimator.sized(**self.matrices.parameters)
        probe.update([key], values=[0])
        return int(np.flatnonzero(probe._counts._cells[row])[0])

    def take(self, key: int, cost: int) -> int | None:
        """How many tuples are in the matrices that are told now, if they are."""
        self.events.append((key, cost))
        size = len(self.events)
        if size % self.window == 0:
            means = self.means()
            whole = sum(self.snapshot.values())
            moved = sum(abs(self.snapshot.get(cell, 0.0) - mean) for cell, mean in means.items())
            steady = moved <= self.tolerance * whole
            if self.state == "stabilizing" and steady:
                self.state, self.events, self.early = "start", [], 0
                self.stable += 1
                return size
            self.state, self.snapshot = "stabilizing", means
        if size == self.early:
            self.early *= 2
            return size
        return None


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=60),
    st.integers(1, 7),
    st.sampled_from([0.01, 0.2, 0.6]),
    st.integers(0, 3),
    st.integers(1, 20),
)
def test_a_learner_tells_what_the_listing_tells(
    tuples: list[tuple[int, int]], window: int, tolerance: float, first: int, cut: int
) -> None:
    learner = CostLearner.sized(width=3, depth=2, window=window, tolerance=tolerance, first=first)
    naive = NaiveLearner(window, tolerance, first, learner.costs)
    expected = [told for key, cost in tuples if (told := naive.take(key, cost)) is not None]
    found = []
    for start in range(0, len(tuples), cut):
        part = tuples[start : start + cut]
        found += learner.observe([key for key, _ in part], [cost for _, cost in part])
    assert [matrices.total().value for matrices in found] == expected
    assert (learner.state, learner.stable, learner.seen) == (naive.state, naive.stable, len(naive.events))
    again = CostLearner.from_bytes(learner.to_bytes())
    assert again == learner
    assert again.observe([1], [5]) == learner.observe([1], [5])


def test_what_a_learner_tells_is_the_estimator_of_the_same_events() -> None:
    rng = np.random.default_rng(1)
    keys, costs = rng.integers(0, 50, 3000), rng.integers(1, 100, 3000)
    learner = CostLearner(window=500, tolerance=0.9, first=0, seed=3)
    matrices = learner.observe(keys, costs)
    for number, told_ in enumerate(matrices):
        truth = ValueEstimator(0.05, 0.1, seed=3)
        truth.update(keys[1000 * number : 1000 * number + 1000], values=costs[1000 * number : 1000 * number + 1000])
        assert told_ == truth
    assert len(matrices) == 3


def test_the_operator_tells_the_same_however_its_tuples_are_cut() -> None:
    rng = np.random.default_rng(2)
    keys, costs, waits = rng.integers(0, 50, 400), rng.integers(1, 100, 400), rng.integers(0, 1000, 400)
    finished = np.cumsum(costs)
    marks = [(place, Mark(place, float(place))) for place in (0, 7, 8, 399)]

    def all_told(cut: int) -> list[Any]:
        operator = ShedOperator(CostLearner(window=50, tolerance=0.5), memory=20)
        found: list[Any] = []
        for start in range(0, 400, cut):
            part = slice(start, start + cut)
            mine = [(place - start, one) for place, one in marks if start <= place < start + cut]
            told_ = operator.executed(
                keys[part], costs[part], waits=waits[part], finished=finished[part], marks=mine
            )  # fmt: skip
            found += [
                (one.executed, one.finished, one.waited, one.served, one.costs.to_bytes())
                if isinstance(one, Learnt)
                else one
                for one in told_
            ]
        return found

    whole = all_told(400)
    assert whole == all_told(1) == all_told(33)
    replies = [one for one in whole if isinstance(one, Reply)]
    for reply in replies:
        place = reply.number
        fading = 0.95 ** np.arange(place, -1, -1)
        assert reply.delta == finished[place] - place
        assert math.isclose(reply.waited, float((fading * waits[: place + 1]).sum()), rel_tol=1e-9)
        assert math.isclose(reply.served, float(fading.sum()), rel_tol=1e-9)


def _used() -> list[Any]:
    shedder, operator = LoadShedder(5000, memory=100), ShedOperator(CostLearner(window=8), memory=100)
    rng = np.random.default_rng(5)
    now = free = 0
    for _ in range(60):
        now += 40
        key = int(rng.integers(0, 9))
        decision = shedder.shed([key], at=[now])
        if decision.kept[0]:
            wait = max(free - now, 0)
            free = max(free, now) + 10 * key
            for news in operator.executed([key], costs=[10 * key], waits=[wait], finished=[free], marks=decision.marks):
                shedder.hear(news)
    return [shedder, operator, operator.learner]


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["shedder", "operator", "learner"])
def test_bytes_bring_back_what_was_learnt_and_damage_is_named(kind: int) -> None:
    thing = _used()[kind]
    blob = thing.to_bytes()
    again = type(thing).from_bytes(blob)
    assert again.to_bytes() == blob
    draw = random.Random(7)
    family, _, payload = open_envelope(blob)
    body, head = bytes(payload.raw(payload.left)), 20
    parameters = blob[head : len(blob) - len(body) - 4]
    survivors = 0
    for _ in range(400):
        hurt = bytearray(body)
        for _ in range(draw.randint(1, 3)):
            hurt[draw.randrange(len(hurt))] = draw.randrange(256)
        if draw.random() < 0.3:
            hurt = hurt[: draw.randrange(len(hurt))]
        damaged = seal_envelope(family, parameters, bytes(hurt))
        try:
            read = type(thing).from_bytes(damaged)
        except BytesError:
            continue
        survivors += 1
        if isinstance(read, LoadShedder):
            assert read.shed([1, 2, 3], at=[2**53] * 3).kept.dtype == np.bool_
        elif isinstance(read, CostLearner):
            read.observe([1], [1])
    assert survivors < 400
    for cut in range(0, len(blob), 7):
        with pytest.raises(BytesError):
            type(thing).from_bytes(blob[:cut])
    for stranger in _used():
        if type(stranger) is not type(thing):
            with pytest.raises(BytesError):
                type(thing).from_bytes(stranger.to_bytes())


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)), max_size=40),
    st.integers(500, 700),
    st.integers(0, 400),
    st.sampled_from([1.0, 0.5, 0.25]),
    st.sampled_from([1.0, 2.0, 0.5]),
)
def test_a_micro_batch_waits_for_its_start_and_for_what_is_ahead(
    rows: list[tuple[int, int]], free: int, target: int, share: float, margin: float
) -> None:
    names = {str(cost): cost for _, cost in rows} or {"0": 0}
    shedder = knowing(target, names, constraint="absolute", margin=margin)
    decision = shedder.queued([str(cost) for _, cost in rows], [arrived for arrived, _ in rows], free=free, share=share)
    start = float(free)
    for (arrived, cost), kept, wait in zip(rows, decision.kept, decision.waits, strict=True):
        assert wait == start - arrived
        assert kept == (wait <= target)
        start += cost * share * margin if kept else 0
    assert decision.marks == ()
    again = shedder.queued(["0"], [free], free=free)
    assert again.waits.tolist() == [0.0]  # of an earlier batch nothing is left


def test_before_anything_is_learnt_a_cost_may_be_assumed() -> None:
    shedder = LoadShedder(100, constraint="absolute")
    shedder.assume(60)
    assert LoadShedder.from_bytes(shedder.to_bytes()).price(["a"]).tolist() == [60.0]
    assert shedder.queued(["a", "b", "c", "d"], [0] * 4, free=0).kept.tolist() == [True, True, False, False]
    shedder.hear(told_by_default({"a": 10}))
    shedder.assume(1000)
    assert shedder.price(["a", "b"]).tolist() == [10.0, 10.0]


def told_by_default(costs: dict[str, int]) -> Learnt:
    matrices = ValueEstimator(0.05, 0.1)
    matrices.update(list(costs), values=list(costs.values()))
    return Learnt(matrices, executed=1, finished=0.0, waited=0.0, served=1.0)


def test_what_it_is_asked_for_may_change_and_what_it_knows_stays() -> None:
    shedder, stricter = knowing(1000, {"a": 50}), LoadShedder(10, constraint="absolute", epsilon=0.001, delta=0.01)
    shedder.measured(500.0, 10.0)
    shedder.ask_for(stricter)
    assert (shedder.target, shedder.average) == (10, 50.0)
    assert shedder.price(["a"]).tolist() == [50.0]
    with pytest.raises(TimeError):
        shedder.queued(["a"], [11], free=10)
