"""What LAS keeps, in bytes of the first version: added once, never changed; a new layout is a new format version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.balance.cost_learner import CostLearner
from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shed_record import ShedRecord
from catchment.balance.shedder import LoadShedder

GOLDEN = Path(__file__).parent / "golden"


def learner() -> CostLearner:
    """In the middle of a window, after a snapshot in which some cells were never hit."""
    made = CostLearner(window=16, tolerance=0.01, epsilon=0.3, delta=0.25, seed=4)
    made.observe(np.arange(40) % 7, np.arange(40) % 5 * 100)
    assert made.state == "stabilizing"
    return made


def operator() -> ShedOperator:
    made = ShedOperator(CostLearner(window=8, epsilon=0.3, delta=0.25), memory=50)
    keys = np.arange(50) % 4
    made.executed(keys, keys * 100, waits=keys * 10, finished=np.cumsum(keys * 100))
    assert made.learner.stable > 0
    return made


def shedder() -> LoadShedder:
    made, behind = LoadShedder(100, memory=50, epsilon=0.3, delta=0.25), operator()
    keys = np.arange(20) % 4
    told = behind.executed(keys, keys * 100, waits=keys * 10, finished=behind.finished + np.cumsum(keys * 100))
    for news in told:
        made.hear(news)
    made.shed(keys, at=20_000 + np.arange(20) * 10)
    assert made.state == "run"
    assert made.dropped > 0
    return made


def record() -> ShedRecord:
    made = ShedRecord(pane=10, panes=4, epsilon=0.3, delta=0.25)
    made.add(["a", "b", "a"] * 20, at=range(60))
    made.add(["c"], weights=[5])
    return made


MAKERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "cost_learner": (learner, CostLearner),
    "shed_operator": (operator, ShedOperator),
    "shedder": (shedder, LoadShedder),
    "shed_record": (record, ShedRecord),
}


@pytest.mark.parametrize("name", MAKERS)
def test_bytes_are_for_ever(name: str) -> None:
    make, kind = MAKERS[name]
    golden = (GOLDEN / f"{name}.state").read_bytes()
    assert make().to_bytes() == golden
    assert kind.from_bytes(golden).to_bytes() == golden
