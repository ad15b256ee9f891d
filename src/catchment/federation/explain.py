"""A plan for people: each cloud's fragment, what is expected to cross, why, and after a run what did."""

from __future__ import annotations

from collections.abc import Iterator

from catchment.federation.dialect import readable
from catchment.federation.execute import Execution
from catchment.federation.ledger import Ledger
from catchment.federation.plan import Keep, Plan, Put, Step

__all__ = ["explain"]


def explain(
    plan: Plan, execution: Execution | None = None, ledger: Ledger | None = None, seconds: float | None = None
) -> str:
    """The steps in order; with an execution, the truth beside each estimate."""
    return "\n".join(_lines(plan, execution, ledger, seconds))


def _lines(plan: Plan, execution: Execution | None, ledger: Ledger | None, seconds: float | None) -> Iterator[str]:
    yield f"home: {plan.home}; about {_size(plan.moved)} over borders"
    for note in plan.notes:
        yield f"note: {note}"
    for step in plan:
        yield from _step(step, execution)
    cut = f", rows {plan.offset} to {plan.offset + plan.limit}" if plan.limit is not None else ""
    yield (
        f"answer: {', '.join(plan.results)} one after the other{cut}"
        if len(plan.results) > 1
        else (f"answer: {plan.results[0]}{cut}")
    )
    if ledger is not None:
        for entry in ledger:
            way = "out of" if entry.outward else "into"
            yield f"moved: {entry.bytes:,} bytes, {entry.rows:,} rows {way} {entry.cloud} as {entry.purpose}"
    if seconds is not None:
        yield f"took: {seconds:.3f} s"


def _step(step: Step, execution: Execution | None) -> Iterator[str]:
    after = f" after {', '.join(step.needs)}" if step.needs else ""
    why = f" ({step.why})" if step.why else ""
    if isinstance(step, Put):
        yield f"{step.name}: put {', '.join(step.needs)} into {step.cloud} as {step.view}{why}"
        return
    what = f"keep in {step.cloud} as {step.view}" if isinstance(step, Keep) else f"ask {step.cloud}"
    yield f"{step.name}: {what}{after}{why}"
    yield f"    {readable(step.sql)}"
    if execution is not None:
        for said in execution.said.get(step.name, ()):
            yield f"    read {said}"
    line = f"    estimated: {step.rows:,.0f} rows, {_size(step.bytes)}"
    if execution is not None and step.name in execution.true_rows:
        line += f"; true: {execution.true_rows[step.name]:,} rows, {_size(execution.true_bytes[step.name])}"
    if execution is not None and step.name in execution.seconds:
        line += f", {execution.seconds[step.name]:.3f} s"
    yield line


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError
