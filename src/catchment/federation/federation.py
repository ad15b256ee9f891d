"""Many clouds as one: a statement goes in, Arrow comes out, and only what must cross a border crosses it."""

from __future__ import annotations

import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, time_ns
from typing import NoReturn, Self

import pyarrow as pa

from catchment.errors import (
    CancelledQueryError,
    CatchmentError,
    CloudError,
    NameNotFoundError,
    ParameterError,
    QueryError,
    TooManyBytesError,
)
from catchment.federation.catalog import Catalog, columns_table, tables_table
from catchment.federation.cloud import Cloud, Errand, Purpose, Table
from catchment.federation.execute import Execution, execute
from catchment.federation.explain import explain
from catchment.federation.grants import check_names
from catchment.federation.index import create_index, drop_index, refresh_index, show_indexes
from catchment.federation.index_belief import IndexBelief, may_read_index
from catchment.federation.index_catalog import IndexCatalog, with_indexes
from catchment.federation.index_manifest import HIDDEN
from catchment.federation.ledger import Ledger
from catchment.federation.map_reduce import (
    LIMIT,
    BatchMapper,
    Functions,
    Mapper,
    MapReduce,
    Progress,
    Reduced,
    Reducer,
    map_clouds,
)  # fmt: skip
from catchment.federation.map_reduce import map_reduce as run_map_reduce
from catchment.federation.plan import Plan
from catchment.federation.planner import Planner
from catchment.federation.relation import Unplanned
from catchment.federation.rules.faithful import check_faithful
from catchment.federation.rules.freeze_clock import freeze_clock
from catchment.federation.rules.qualify import qualify
from catchment.federation.rules.ship_all import ship_all
from catchment.federation.rules.use_index import Replacement, no_index, use_index
from catchment.federation.shape import base_tables, shape_of, shaped, spark_type
from catchment.federation.statements import (
    CreateIndex,
    Describe,
    DropIndex,
    Explain,
    Query,
    RefreshIndex,
    ShowIndexes,
    ShowTables,
    Statement,
    parse_statement,
)

__all__ = ["Federation", "Outcome"]

BYTE_LIMIT = 4 * 2**30
"""The bytes that one query may move, as estimated, if nothing else is said."""
INDEX_AGE = 1.0
"""Spark's own sessions go on for longer with the files of a table that they have seen."""
_SHAPES_KEPT = 1000
INDEX_RULES: Mapping[str, Callable[..., Replacement | None]] = {
    "choose": use_index,
    "never": no_index,
    "always": partial(use_index, always=True),
}
"""How a plan takes indexes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, and how it came about."""

    table: pa.Table
    plan: Plan | None
    ledger: Ledger
    missing: dict[str, str] = field(default_factory=dict)
    """The clouds whose rows are not in the answer, each with the reason; empty unless `partial` was asked for."""
    seconds: float = 0.0
    execution: Execution | None = None


class Federation:
    """Clouds that are asked as one.

    Parameters
    ----------
    clouds
        The micro-clouds, each with a name of its own.
    byte_limit
        A query whose plan would move more bytes over borders, as estimated, is refused with the reason.
    indexes
        `"choose"` reads an index where the statistics say that it pays, `"never"` and `"always"` are to compare with.
    index_age
        How old the list of a table's files may be that an answer from an index rests on, in seconds. With 0 every
        query that reads an index has the files listed, and its answer is of a moment within the query.

    Every method may be called by any thread. `partial=True` gives an answer without the clouds that fail, and names
    them; otherwise a cloud that fails ends the query with `CloudError`, which names it. Either way nothing is left
    behind in a cloud that can be reached.
    """

    def __init__(
        self,
        clouds: Iterable[Cloud],
        *,
        byte_limit: float = BYTE_LIMIT,
        indexes: str = "choose",
        index_age: float = INDEX_AGE,
    ) -> None:
        self._clouds = {cloud.name: cloud for cloud in clouds}
        if not self._clouds:
            raise ParameterError("a federation of no clouds", "name at least one")
        if indexes not in INDEX_RULES:
            raise ParameterError(f"indexes={indexes!r}", f"give one of {', '.join(INDEX_RULES)}")
        if not 0 <= index_age < math.inf:
            raise ParameterError(f"index_age={index_age!r}", "give seconds, 0 or more")
        self._byte_limit = byte_limit
        self._index_rule = INDEX_RULES[indexes]
        self._shapes: OrderedDict[str, pa.Schema] = OrderedDict()
        self._lock = threading.Lock()
        self._running: dict[str, set[str]] = {}
        self._indexes = {name: IndexCatalog(cloud, age=index_age) for name, cloud in self._clouds.items()}
        self._helpers = ThreadPoolExecutor(2 * len(self._clouds) + 2, "catchment-federation")

    def sql(self, text: str, *, partial: bool = False) -> pa.Table:
        """The answer to a statement."""
        return self.query(text, partial=partial).table

    def query(self, text: str, *, partial: bool = False, query_id: str | None = None) -> Outcome:
        """The answer to a statement, its plan, its books and what is missing; `query_id` is what `cancel` takes."""
        start = perf_counter()
        statement = parse_statement(text)
        name = query_id or uuid.uuid4().hex[:12]
        if isinstance(statement, Query):
            return self._answer(statement, partial, name, start)
        ledger = Ledger()
        errand = Errand(name, Purpose.STATISTICS, ledger)
        return Outcome(self._other(statement, errand), None, ledger, seconds=perf_counter() - start)

    def explain(self, text: str, run: bool = False) -> str:
        """How a query is planned; with `run`, also what was true when it ran."""
        statement = parse_statement(text)
        if isinstance(statement, Query):
            statement = Explain(statement, run)
        if not isinstance(statement, Explain):
            raise QueryError("only a query has a plan", "write EXPLAIN SELECT …")
        return self._explained(Explain(statement.query, run or statement.run))

    def _explained(self, asked: Explain) -> str:
        name = uuid.uuid4().hex[:12]
        if asked.run:
            outcome = self._answer(asked.query, False, name, perf_counter())
            assert outcome.plan is not None
            return explain(outcome.plan, outcome.execution, outcome.ledger, outcome.seconds)
        errand = Errand(name, Purpose.STATISTICS, Ledger())
        catalog = self._catalog(self._clouds, self._belief(asked.query, self._clouds, errand))
        plan, shape = self._plan(asked.query, catalog, errand)
        shape.result()
        return explain(plan)

    def map_reduce(
        self,
        table: str,
        map: Mapper | None = None,  # noqa: A002 (the word that everybody knows)
        local_reduce: Reducer | None = None,
        reduce: Reducer | None = None,
        *,
        map_batches: BatchMapper | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        progress: Progress | None = None,
        limit: int = LIMIT,
    ) -> Reduced:
        """Map the rows of a table with Python functions in every cloud that has some, and reduce what they give.

        Parameters
        ----------
        table, columns, where
            The rows: of a table, all columns or some, where a condition in SQL holds. `_cloud` is a column too.
        map
            A function of a row, a dictionary, that gives pairs of a key and a value.
        map_batches
            Instead of it, one of an Arrow record batch that gives Arrow columns `key` and `value`: far faster.
        local_reduce
            A function of a key and some of its values that makes one value of them, or `"sum"`, `"min"`, `"max"`. It
            runs in each cloud, any number of times, before anything crosses a border.
        reduce
            The last one, of a key and what is left of its values; `local_reduce` if it is left out.
        progress
            Called with a cloud's name and the share of its tasks that are done.
        limit
            The most bytes that may come back.

        Raises
        ------
        FunctionError
            A function failed: its name, the cloud, the row or key, and the traceback from there.
        CloudError
            A cloud is down, or has no Python of this release.

        The functions, what they close over and the modules of yours that they need go along; packages do not.
        """
        job = MapReduce(table, Functions(map, map_batches, local_reduce), reduce, columns, where)
        return run_map_reduce(list(map_clouds(self.clouds)), job, progress=progress, limit=limit)

    def catalog(self) -> Catalog:
        """The tables of all clouds as they are now."""
        return Catalog.of(self._clouds.values())

    @property
    def clouds(self) -> tuple[Cloud, ...]:
        return tuple(self._clouds.values())

    def cancel(self, query_id: str) -> None:
        """Stop a query; who waits for it gets `CancelledQueryError`."""
        with self._lock:
            names = self._running.get(query_id)
            attempts = set(names) if names else {query_id}
            if names is not None:
                names.add("")
        for attempt in attempts - {""}:
            for cloud in self._clouds.values():
                with suppress(CatchmentError):
                    cloud.cancel(attempt)

    def close(self) -> None:
        """Stop all queries."""
        with self._lock:
            names = list(self._running)
        for name in names:
            self.cancel(name)
        self._helpers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, query: Query, partial: bool, name: str, start: float) -> Outcome:
        """Try with all clouds; with `partial`, once more without each that fails."""
        missing: dict[str, str] = {}
        ledger = Ledger()
        with self._lock:
            self._running[name] = set()
        try:
            while True:
                try:
                    table, plan, done = self._attempt(query, name, ledger, missing)
                    return Outcome(table, plan, ledger, missing, perf_counter() - start, done)
                except CloudError as problem:
                    if not partial or problem.cloud in missing or problem.cloud not in self._clouds:
                        raise
                    missing[problem.cloud] = str(problem)
                    if len(missing) == len(self._clouds):
                        raise
        finally:
            with self._lock:
                del self._running[name]

    def _label(self, name: str) -> str:
        """A name for one thing tried for a query: a cloud that was told to stop it does what is tried next.

        It is nobody else's, whatever the query is called; views carry it too.
        """
        with self._lock:
            taken = self._running[name]
            if "" in taken:
                raise CancelledQueryError(f"query {name} was stopped", "ask again")
            label = uuid.uuid4().hex[:12]
            taken.add(label)
            return label

    def _attempt(
        self, query: Query, name: str, ledger: Ledger, missing: dict[str, str], *, tries: int = 2
    ) -> tuple[pa.Table, Plan, Execution]:
        """Plan and run; with indexes unless they have changed under way as often as there were tries."""
        clouds = {cloud: door for cloud, door in self._clouds.items() if cloud not in missing}
        errand = Errand(self._label(name), Purpose.STATISTICS, ledger)
        belief = self._belief(query, clouds if tries else (), errand)
        catalog = self._catalog(clouds, belief)
        try:
            plan, shape = self._plan(query, catalog, errand)
        except QueryError as problem:
            if missing:
                lost = ", ".join(missing)
                raise CloudError(
                    f"without {lost} there is no answer ({problem.problem})", problem.cure, cloud=next(iter(missing))
                ) from None
            raise
        indexed = self._index_rule is not no_index and may_read_index(plan)
        if indexed:
            belief.check()
        try:
            done = execute(plan, clouds, self._label(name), ledger)
        except QueryError as problem:
            if indexed and (HIDDEN in problem.problem or not belief.holds_now()):  # an index went while it was read
                for cloud in clouds:
                    self._indexes[cloud].forget()
                return self._attempt(query, name, ledger, missing, tries=tries - 1)
            shape.result()  # Spark's words about the user's own text are better than those about a fragment
            raise
        if done.read_index and not belief.holds():
            return self._attempt(query, name, ledger, missing, tries=tries - 1)
        assert done.rows is not None
        return shaped(done.rows, shape.result()), plan, done

    def _belief(self, query: Query, clouds: Iterable[str], errand: Errand) -> IndexBelief:
        names = {table.name.lower() for table in base_tables(query.tree)}
        return IndexBelief({cloud: self._indexes[cloud] for cloud in clouds}, names, errand, self._helpers.submit)

    def _catalog(self, clouds: Mapping[str, Cloud], belief: IndexBelief) -> Catalog:
        """The tables now, those of the query with their indexes; the clouds are asked side by side."""

        def tables(cloud: Cloud) -> Mapping[str, Table]:
            there = {name.lower(): table for name, table in cloud.tables().items()}
            return with_indexes(there, belief.indexes.get(cloud.name, {}))

        asked = {name: self._helpers.submit(tables, cloud) for name, cloud in clouds.items()}
        wait(asked.values())
        return Catalog({name: future.result() for name, future in asked.items()})

    def _plan(self, query: Query, catalog: Catalog, errand: Errand) -> tuple[Plan, Future[pa.Schema]]:
        """A plan, and the shape of its answer, which a cloud works out while the plan is made and run."""
        clouds = [self._clouds[cloud] for cloud in catalog.clouds]
        prices = {cloud.name: (cloud.cost_in, cloud.cost_out) for cloud in clouds}
        home = min(clouds, key=lambda cloud: cloud.cost_in + cloud.cost_out)
        name = errand.query
        tables = base_tables(query.tree)
        check_names(query.tree, {name for table in tables for name in catalog.table(table.name).columns})
        wanted = shape_of(query.text, query.tree, catalog)
        shape = self._shape(home, wanted, errand)

        def types_of(sql: str) -> Sequence[str]:
            return [spark_type(field.type) for field in self._shape(home, sql + " LIMIT 0", errand).result()]

        def sample(cloud: str, sql: str) -> Sequence[int]:
            numbers: list[int] = self._clouds[cloud].run(sql, errand).column(0).to_pylist()
            return numbers

        try:
            planner = Planner(catalog, prices, name, types_of, self._index_rule, sample)
            try:
                check_faithful(query.tree)
                tree = qualify(query.tree, catalog)
                plan = planner.plan(freeze_clock(tree, time_ns() // 1000))
            except Unplanned as reason:
                planner = Planner(catalog, prices, name, types_of, self._index_rule)
                plan = planner.finish_text(*ship_all(planner, query, str(reason)), Purpose.RESULT, str(reason))
        except Exception:
            shape.result()  # what Spark says of the statement is said before what we say
            raise
        if plan.moved > self._byte_limit:
            shape.result()
            _refuse(plan, self._byte_limit)
        return plan, shape

    def _shape(self, cloud: Cloud, sql: str, errand: Errand) -> Future[pa.Schema]:
        with self._lock:
            known = self._shapes.get(sql)
            if known is not None:
                self._shapes.move_to_end(sql)
                ready: Future[pa.Schema] = Future()
                ready.set_result(known)
                return ready
        return self._helpers.submit(self._ask_shape, cloud, sql, errand)

    def _ask_shape(self, cloud: Cloud, sql: str, errand: Errand) -> pa.Schema:
        schema = cloud.run(sql, errand).schema
        with self._lock:
            self._shapes[sql] = schema
            while len(self._shapes) > _SHAPES_KEPT:
                self._shapes.popitem(last=False)
        return schema

    def _other(self, statement: Statement, errand: Errand) -> pa.Table:
        """What is no query: explanations, tables, indexes."""
        indexes = list(self._indexes.values())
        match statement:
            case Explain():
                lines = self._explained(statement).split("\n")
                return pa.table({"plan": pa.array(lines, pa.string())})
            case ShowTables():
                return tables_table(self.catalog())
            case Describe():
                return columns_table(self.catalog().table(statement.table))
            case CreateIndex():
                if statement.if_not_exists:
                    there = show_indexes(indexes, statement.table, errand, only=statement.name)
                    if there.num_rows:
                        return there
                include = statement.include or ()
                return create_index(indexes, statement.name, statement.table, statement.column, include, errand)
            case DropIndex():
                with suppress(NameNotFoundError) if statement.if_exists else nullcontext():
                    drop_index(indexes, statement.name, errand)
                return show_indexes(indexes, statement.table, errand, only=statement.name)
            case RefreshIndex():
                return refresh_index(indexes, statement.name, errand)
            case ShowIndexes():
                return show_indexes(indexes, statement.table, errand)
        raise AssertionError(statement)


def _refuse(plan: Plan, limit: float) -> NoReturn:
    reasons = "; ".join(plan.notes) or "its answer is that large"
    raise TooManyBytesError(
        f"the query would move about {plan.moved / 2**20:,.0f} MiB, more than {limit / 2**20:,.0f} MiB ({reasons})",
        "filter or aggregate more, or raise byte_limit",
    )
