"""A plan: what runs where, what is put where, and why; a DAG of steps that can be printed and is run elsewhere.

There are three kinds of step. `Run` asks one cloud for what one SELECT gives. `Put` makes the rows of some runs a view
in one cloud. `Keep` has a cloud keep what a SELECT gives there as a view, so that nothing crosses a border. Each waits
for the views that it names. The answer is the rows of the last runs, one after the other; a plan needs no step more if
the clouds' answers are simply to be put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from catchment.federation.cloud import Purpose, Table

__all__ = ["Asked", "Keep", "Plan", "Probe", "Put", "Run", "Step"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A table that a step may read by an index once the keys are known that it is joined with."""

    mark: str
    """What stands in the step's template for the SELECT over the table."""
    leaf: exp.Select
    table: Table
    alias: str
    column: str
    runs: tuple[str, ...]
    """Those whose rows hold the keys."""
    place: int
    """Of the key among their columns."""
    choose: Callable[..., Any]
    """The rule that weighs the index against the scan (`rules/use_index.py`)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A SELECT that a cloud runs."""

    name: str
    cloud: str
    sql: str
    purpose: Purpose
    needs: tuple[str, ...] = ()
    """The `Put`s and `Keep`s that must be there first, and the `Run`s of which probes take keys."""
    why: str = ""
    rows: float = 0.0
    """As estimated, like `bytes`."""
    bytes: float = 0.0
    template: str = ""
    """The statement, with marks for its probes; `sql` is what it is without them."""
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class Run(Asked):
    """Ask a cloud for what a SELECT gives."""


@dataclass(frozen=True, slots=True)
class Put:
    """Make the rows of some runs a view in a cloud."""

    name: str
    cloud: str
    view: str
    needs: tuple[str, ...]
    """The `Run`s whose rows it holds, in order."""
    purpose: Purpose
    why: str = ""
    merge: str = "rows"
    """How several runs become one view: `rows` one after the other, or `bits words k`: Bloom filters OR-ed."""


@dataclass(frozen=True, slots=True)
class Keep(Asked):
    """Make what a SELECT gives a view in its own cloud."""

    view: str = ""


Step = Run | Put | Keep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which each stands after those that it needs."""

    steps: tuple[Step, ...]
    results: tuple[str, ...]
    """The runs whose rows are the answer, one after the other."""
    home: str
    limit: int | None = None
    """How many of the concatenated rows are the answer, after the first `offset`."""
    offset: int = 0
    notes: tuple[str, ...] = field(default=())
    """What was decided for the plan as a whole, and why."""

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @property
    def views(self) -> dict[str, list[str]]:
        """The views that are put or kept, by cloud."""
        found: dict[str, list[str]] = {}
        for step in self.steps:
            if isinstance(step, Put | Keep):
                found.setdefault(step.cloud, []).append(step.view)
        return found

    @property
    def moved(self) -> float:
        """The bytes that cross borders before the answer does, as estimated: out of a cloud, and into each other."""
        sizes = {step.name: step.bytes for step in self.steps if isinstance(step, Run)}
        inward = sum(sizes[need] for step in self.steps if isinstance(step, Put) for need in step.needs)
        return sum(size for name, size in sizes.items() if name not in self.results) + inward
