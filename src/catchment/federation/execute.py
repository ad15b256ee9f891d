"""Run a plan: each cloud's steps in a thread of its own, every step as soon as what it needs is there.

Whatever happens, the views that were put are forgotten and no thread is left. If one step fails the others are told to
stop, and the first failure is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

import pyarrow as pa

from catchment.errors import CatchmentError
from catchment.federation.bloom import BloomShape, as_row, merge
from catchment.federation.cloud import Cloud, Errand
from catchment.federation.index_manifest import HIDDEN
from catchment.federation.ledger import Ledger
from catchment.federation.plan import Keep, Plan, Put, Run, Step
from catchment.federation.probe import probed_text

__all__ = ["Execution", "concatenate", "execute"]


@dataclass(slots=True)
class Execution:
    """What running a plan gave: the rows, and for each step the truth beside the estimate."""

    rows: pa.Table | None = None
    true_rows: dict[str, int] = field(default_factory=dict)
    true_bytes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    """Of steps that chose under way: what."""
    read_index: bool = False
    """Whether a statement that was sent reads one."""


def execute(plan: Plan, clouds: Mapping[str, Cloud], query: str, ledger: Ledger) -> Execution:
    """Run every step; raises the first failure after everything was cleaned up."""
    done = Execution()
    found: dict[str, pa.Table] = {}
    pools = {name: ThreadPoolExecutor(1, f"catchment-{name}") for name in {step.cloud for step in plan}}
    try:
        _run_steps(plan, clouds, query, ledger, pools, found, done)
        done.rows = concatenate([found[name] for name in plan.results])
        if plan.limit is not None or plan.offset:
            done.rows = done.rows.slice(plan.offset, plan.limit)
        return done
    finally:
        for name, views in plan.views.items():
            with suppress(CatchmentError):
                pools[name].submit(clouds[name].forget, views).result()
        for pool in pools.values():
            pool.shutdown()


def concatenate(tables: list[pa.Table]) -> pa.Table:
    """Rows one after the other; columns that only differ in whether they may hold nulls are one column.

    Batches without a row are left out: PySpark 4.3 makes an empty frame of a table that begins with one.
    """
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    batches = table.to_batches()
    if all(batch.num_rows for batch in batches):
        return table
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], table.schema)


def _run_steps(
    plan: Plan,
    clouds: Mapping[str, Cloud],
    query: str,
    ledger: Ledger,
    pools: Mapping[str, ThreadPoolExecutor],
    found: dict[str, pa.Table],
    done: Execution,
) -> None:
    waiting: dict[str, Step] = {step.name: step for step in plan}
    running: dict[Future[pa.Table | None], Step] = {}
    finished: set[str] = set()
    failure: BaseException | None = None
    try:
        while waiting or running:
            if failure is None:
                for step in [step for step in waiting.values() if finished.issuperset(step.needs)]:
                    del waiting[step.name]
                    errand = Errand(query, step.purpose, ledger)
                    running[pools[step.cloud].submit(_step, step, clouds[step.cloud], errand, found, done)] = step
            elif not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                step = running.pop(future)
                problem = future.exception()
                if problem is None:
                    finished.add(step.name)
                elif failure is None:
                    failure = problem
                    _stop(clouds, {other.cloud for other in running.values()}, query)
    except BaseException:  # Ctrl-C: the clouds are told before the threads are waited for
        _stop(clouds, {step.cloud for step in running.values()}, query)
        wait(running)
        raise
    if failure is not None:
        raise failure


def _step(step: Step, cloud: Cloud, errand: Errand, found: dict[str, pa.Table], done: Execution) -> None:
    start = perf_counter()
    if isinstance(step, Put):
        cloud.put(step.view, _merged(step, [found[name] for name in step.needs]), errand)
    else:
        _ask(step, cloud, errand, found, done)
    done.seconds[step.name] = perf_counter() - start


def _ask(step: Run | Keep, cloud: Cloud, errand: Errand, found: dict[str, pa.Table], done: Execution) -> None:
    sql = step.sql
    if step.probes:
        sql, done.said[step.name] = probed_text(step, found)
    if HIDDEN in sql:
        done.read_index = True
    if isinstance(step, Keep):
        cloud.keep(step.view, sql, errand)
        return
    rows = cloud.run(sql, errand)
    found[step.name] = rows
    done.true_rows[step.name] = rows.num_rows
    done.true_bytes[step.name] = rows.nbytes


def _merged(step: Put, parts: list[pa.Table]) -> pa.Table:
    """What a view holds: rows one after the other, or the bits of Bloom filters OR-ed."""
    kind, *sizes = step.merge.split()
    if kind == "rows":
        return concatenate(parts)
    return as_row(merge(BloomShape(*map(int, sizes)), parts))


def _stop(clouds: Mapping[str, Cloud], names: set[str], query: str) -> None:
    for name in names:
        with suppress(CatchmentError):
            clouds[name].cancel(query)
