"""What partitioner, scheduler and shedder have in common: the same names for the same things, whoever it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from catchment.balance import CostLearner, KeyLearner, LoadShedder, Partitioner, ShedOperator, ShedRecord, build_map
from catchment.balance.messages import Learnt, Mark, Reply
from catchment.balance.scheduler import CostModel, FullKnowledge, OperatorInstance, Scheduler, SchedulerSettings
from catchment.balance.stored import Stored
from catchment.errors import UnknownFormatError


def scheduler() -> Scheduler:
    made, settings = Scheduler(2, SchedulerSettings(window=2)), SchedulerSettings(window=2)
    for number in range(2):
        for message in OperatorInstance(number, settings).executed(["slow", "fast"] * 2, [900, 100] * 2):
            made.hear(message, at=0)
    return made


def shedder() -> LoadShedder:
    made = LoadShedder(2000, constraint="absolute")
    for message in ShedOperator(CostLearner()).executed(["a"], [1000], waits=[0], finished=[1000]):
        made.hear(message)
    made.shed(["a"] * 5, at=[1000] * 5)
    return made


def partitioner() -> Partitioner:
    made = Partitioner(2)
    made.learn(["a"] * 60 + ["b"] * 30)
    made.build()
    return made


MAKERS: dict[str, Callable[[], Any]] = {
    "learner": KeyLearner,
    "map": lambda: build_map(KeyLearner(), 3),
    "partitioner": partitioner,
    "instance": OperatorInstance,
    "scheduler": scheduler,
    "model": CostModel,
    "cost learner": CostLearner,
    "operator": ShedOperator,
    "shedder": shedder,
    "record": ShedRecord,
}


def test_every_family_is_there_once() -> None:
    kinds = [type(make()) for make in MAKERS.values()]
    assert set(kinds) == {kind for kind in Stored.__subclasses__() if kind.__module__.startswith("catchment.")}
    assert len({kind.family for kind in kinds}) == len(kinds)
    assert {kind.family for kind in kinds} <= set(range(40, 52))


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_equal_to_what_its_bytes_give_and_to_nothing_else(name: str) -> None:
    made = MAKERS[name]()
    assert type(made).from_bytes(made.to_bytes()) == made
    assert made != made.to_bytes()
    for other in MAKERS:
        if other != name:
            assert MAKERS[other]() != made
    stranger = MAKERS["model" if name != "model" else "record"]().to_bytes()
    with pytest.raises(UnknownFormatError, match=rf"bytes of family \d+.*give what {type(made).__name__}.to_bytes"):
        type(made).from_bytes(stranger)


@pytest.mark.parametrize("make", [partitioner, scheduler, shedder])
def test_each_has_a_report_to_print_and_to_count(make: Callable[[], Any]) -> None:
    made = make()
    before = made.to_bytes()
    report = made.report()
    assert made.to_bytes() == before
    assert all(isinstance(value, int | float) for value in report.metrics().values())
    assert len(str(report).splitlines()) >= 2


def test_the_reports_say_what_was_done() -> None:
    assert scheduler().report().metrics() == {
        "instances": 2, "epoch": 1, "known_instances": 2, "least_mean_cost": 500.0, "most_mean_cost": 500.0,
    }  # fmt: skip
    assert "in turn" in str(Scheduler(3).report())
    report = shedder().report()
    assert (report.state, report.admitted, report.dropped, report.dropped_share) == ("run", 3, 2, 0.4)
    # 0, 1,000 and 2,000 of those that it let through, and 0 of the one that the operator had executed before.
    assert (report.target, report.average_wait, report.mean_cost) == (2000, 750.0, 1000.0)
    assert LoadShedder(5).report().dropped_share == 0.0


def test_those_who_decide_and_those_who_execute_speak_alike() -> None:
    for kind, decide in ((Scheduler, "assign"), (LoadShedder, "shed"), (FullKnowledge, "assign")):
        assert "at" in inspect.signature(getattr(kind, decide)).parameters
    for executed in (OperatorInstance.executed, ShedOperator.executed):
        assert list(inspect.signature(executed).parameters)[:3] == ["self", "keys", "costs"]
        assert "marks" in inspect.signature(executed).parameters
    # One mark from a decision goes to either as it is, and either's answer is the same kind of message.
    mark = Mark(7, 100.0)
    (one, *_) = OperatorInstance().executed(["a"], [250], marks=[(0, mark)])
    (two, *more) = ShedOperator().executed(["a"], [250], waits=[0], finished=[250], marks=[(0, mark)])
    assert (one, two) == (Reply(7, 150.0), Reply(7, 150.0, waited=0.0, served=1.0))
    assert [type(message) for message in more] == [Learnt]


def test_both_price_keys_alike() -> None:
    """The scheduler by cells, the model and the shedder by hashes: one rule, of the cell that is shared least."""
    rng = np.random.default_rng(3)
    keys, costs = rng.integers(0, 400, 3000), rng.integers(1, 1000, 3000)
    model, guard = CostModel(0.05, 0.1), LoadShedder(1)
    part = model.blank()
    part.update(keys, values=costs)
    model.learn(part)
    guard.hear(Learnt(part))
    asked = np.arange(500)
    one = Scheduler(1, SchedulerSettings(measure="work"))
    one.hear(Learnt(part, number=1))
    prices = []
    for key in asked.tolist():
        before = float(one.loads[0])
        one.assign([key])
        prices.append(float(one.loads[0]) - before)
    assert model.estimate(asked).tolist() == guard.price(asked).tolist()
    assert prices == pytest.approx(guard.price(asked).tolist())
