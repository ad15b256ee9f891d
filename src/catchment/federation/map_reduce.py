"""Map-reduce over clouds: plain Python functions go to the rows, and what they reduce to comes back.

In each cloud, every task maps its rows and reduces the pairs that they give; then each key is reduced once more over
all tasks of the cloud. Only that crosses a border, and the last reduce runs where the question was asked.

    map(row) -> pairs                         row is a dictionary by column; pairs are (key, value), any number
    local_reduce(key, values) -> value        of several values of a key, one; applied any number of times, in any order
    reduce(key, values) -> result             once for each key, with what is left of its values

So `local_reduce` must not care how often and in which order it is applied: sums, least and largest do not, averages do
(give sums with counts instead, and divide in `reduce`). Without it all pairs cross.
"""

from __future__ import annotations

import json
import pickle
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from sqlglot import exp

from catchment.errors import (
    CloudError,
    FunctionError,
    NameNotFoundError,
    ParameterError,
    StatementError,
    TooManyBytesError,
)
from catchment.federation.cloud import Cloud, Errand, Purpose, Table
from catchment.federation.ledger import Ledger
from catchment.federation.map_reduce_tasks import FAILED, NAMED, TOLD, grouped, reduced_columns
from catchment.federation.pairs import read_columns, read_pairs
from catchment.federation.statements import parse_query

__all__ = [
    "LIMIT", "BatchMapper", "Functions", "MapReduce", "Mapper", "ProgramCloud", "Progress", "Reduced", "Reducer",
    "map_clouds", "map_reduce",
]  # fmt: skip

Progress = Callable[[str, float], None]
"""Called with a cloud's name and the share of its tasks that are done, from 0 to 1."""
Mapper = Callable[[dict[str, Any]], Iterable[tuple[Any, Any]]]
BatchMapper = Callable[[pa.RecordBatch], Any]
Reducer = Callable[[Any, list[Any]], Any] | str
"""A function of a key and its values, or `"sum"`, `"min"`, `"max"`."""

_PLAIN = {"expressions", "from_", "where"}

LIMIT = 1 << 30
"""Bytes that may come back from all clouds together, if nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Functions:
    """What is sent: `map` or `map_batches`, and `local_reduce`."""

    map: Mapper | None = None
    map_batches: BatchMapper | None = None
    local_reduce: Reducer | None = None

    def __post_init__(self) -> None:
        if (self.map is None) == (self.map_batches is None):
            raise ParameterError("map and map_batches are both given, or none is", "give one of the two")
        for name, function in (("map", self.map), ("map_batches", self.map_batches)):
            if function is not None and not callable(function):
                raise ParameterError(f"{name}={function!r}", "give a function")
        _check_reducer("local_reduce", self.local_reduce)


@runtime_checkable
class ProgramCloud(Protocol):
    """A micro-cloud that runs Python beside its rows."""

    @property
    def name(self) -> str: ...

    def tables(self) -> Mapping[str, Table]: ...

    def run_functions(
        self, sql: str, functions: Functions, errand: Errand, progress: Callable[[float], None]
    ) -> pa.Table:
        """What the tasks give: (bucket, blob). Bytes that crossed are entered in the ledger."""

    def cancel(self, query: str) -> None: ...


@dataclass(frozen=True, slots=True)
class MapReduce:
    """A map-reduce of one table, checked."""

    table: str
    functions: Functions
    reduce: Reducer | None = None
    columns: Sequence[str] | None = None
    where: str | None = None
    """A condition in SQL that each cloud applies before any Python runs."""

    def __post_init__(self) -> None:
        _check_reducer("reduce", self.reduce)
        if self.where is not None:
            tree = parse_query(f"SELECT 1 FROM t WHERE {self.where}").tree
            if (
                not isinstance(tree, exp.Select)
                or len(list(tree.find_all(exp.Query))) > 1
                or set(_used(tree)) != _PLAIN
            ):
                raise StatementError(
                    f"where={self.where!r}", "give one condition on columns of the table, without a query in it"
                )

    def sql(self, cloud: str, table: Table) -> str:
        """The rows that are mapped in a cloud; `_cloud` is its name."""
        known = {column.name.lower(): column.name for column in table.columns}
        chosen = list(known.values()) if self.columns is None else list(self.columns)
        texts = []
        for name in chosen:
            if name.lower() == "_cloud":
                texts.append(f"{_literal(cloud)} AS _cloud")
            elif name.lower() in known:
                texts.append(_quoted(known[name.lower()]))
            else:
                raise NameNotFoundError(f"table {table.name} has no column {name!r}", f"there are {', '.join(known)}")
        condition = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {', '.join(texts)} FROM {_quoted(table.name)}{condition}"


@dataclass(frozen=True)
class Reduced:
    """What a map-reduce gave, and what it cost.

    `pairs` has the result of each key. `rows` were mapped to `map_pairs` pairs, of which `crossed_pairs` were left to
    cross a border after the local reduces.
    """

    rows: int
    map_pairs: int
    crossed_pairs: int
    ledger: Ledger = field(compare=False, repr=False)
    content: dict[Any, Any] | pa.Table = field(repr=False)

    @cached_property
    def pairs(self) -> dict[Any, Any]:
        """The results by key."""
        if isinstance(self.content, dict):
            return self.content
        return dict(zip(self.content.column("key").to_pylist(), self.content.column("value").to_pylist(), strict=True))

    def to_arrow(self, schema: pa.Schema | None = None) -> pa.Table:
        """The columns `key` and `value`, of the types that Arrow finds in them, or of those given."""
        if isinstance(self.content, pa.Table):
            return self.content if schema is None else self.content.cast(schema)
        columns = {"key": list(self.content), "value": list(self.content.values())}
        try:
            return pa.table(columns, schema=schema)
        except pa.ArrowInvalid as problem:
            raise ParameterError(
                f"the results have no one Arrow type ({problem})", "give schema=, or use pairs"
            ) from None


def map_clouds(clouds: Iterable[Cloud]) -> Iterator[ProgramCloud]:
    """The same clouds, as such that run Python; `CloudError` for one that does not."""
    for cloud in clouds:
        if not isinstance(cloud, ProgramCloud):
            raise CloudError(f"cloud {cloud.name} runs no Python", "ask it with SQL", cloud=cloud.name)
        yield cloud


def map_reduce(
    clouds: Sequence[ProgramCloud], job: MapReduce, *, progress: Progress | None = None, limit: int = LIMIT
) -> Reduced:
    """Run a map-reduce in all clouds that have the table, at the same time.

    Raises
    ------
    FunctionError
        A function failed; it is named, with the cloud, the row or key, and the traceback.
    CloudError
        A cloud is down, or has no Python of this release.
    TooManyBytesError
        More than `limit` bytes came back.
    """
    holders = [(cloud, cloud.tables().get(job.table.lower())) for cloud in clouds]
    work = [(cloud, job.sql(cloud.name, table)) for cloud, table in holders if table is not None]
    if not work:
        raise NameNotFoundError(
            f"no cloud has a table {job.table}", "`catchment clouds` shows the tables that there are"
        )
    ledger, query = Ledger(), f"map-reduce-{uuid.uuid4().hex[:12]}"
    errand = Errand(query, Purpose.PARTIAL, ledger)
    lock = threading.Lock()

    def one(cloud: ProgramCloud, sql: str) -> tuple[str, pa.Table]:
        def heard(share: float) -> None:
            if progress is not None:
                with lock:
                    progress(cloud.name, share)

        rows = cloud.run_functions(sql, job.functions, errand, heard)
        heard(1.0)
        return cloud.name, rows

    pool = ThreadPoolExecutor(len(work), thread_name_prefix="map-reduce")
    try:
        running = [pool.submit(one, cloud, sql) for cloud, sql in work]
        answers = []
        for done in as_completed(running):
            answers.append(done.result())
            _check_failures(*answers[-1])
            if ledger.bytes(outward=True) > limit:
                raise TooManyBytesError(
                    f"{ledger.bytes(outward=True):,} bytes of pairs came back, {limit:,} are allowed",
                    "reduce more in local_reduce, or raise limit=",
                )
    except BaseException:
        for cloud, _ in work:
            cloud.cancel(query)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return _combined(job, answers, ledger)


def _check_failures(cloud: str, rows: pa.Table) -> None:
    for bucket, blob in zip(rows.column("bucket").to_pylist(), rows.column("blob").to_pylist(), strict=True):
        if bucket == FAILED:
            told = json.loads(blob)
            raise FunctionError(
                f"{told['function']} failed in cloud {cloud} at {told['at']} ({told['problem']})",
                f"mend it; it was here:\n{told['traceback']}",
                cloud=cloud, function=told["function"], at=told["at"], traceback=told["traceback"],
            )  # fmt: skip


def _combined(job: MapReduce, answers: list[tuple[str, pa.Table]], ledger: Ledger) -> Reduced:
    """The last reduce; clouds in order of their names, so that the same rows give the same result."""
    rows = pairs = 0
    blobs: list[tuple[str, bytes]] = []
    for cloud, answer in sorted(answers, key=lambda named: named[0]):
        for bucket, blob in zip(answer.column("bucket").to_pylist(), answer.column("blob").to_pylist(), strict=True):
            if bucket == TOLD:
                told = json.loads(blob)
                rows, pairs = rows + told["rows"], pairs + told["pairs"]
            else:
                blobs.append((cloud, blob))
    last = job.reduce if job.reduce is not None else job.functions.local_reduce
    if job.functions.map_batches and (job.functions.local_reduce is None or job.functions.local_reduce in NAMED):
        columns = read_columns(blob for _, blob in blobs)
        if columns is None:
            return Reduced(rows, pairs, 0, ledger, {})
        if isinstance(last, str):
            return Reduced(rows, pairs, columns.num_rows, ledger, reduced_columns(columns, last))
        found = grouped(zip(columns.column("key").to_pylist(), columns.column("value").to_pylist(), strict=True))
    else:
        found = grouped(pair for cloud, blob in blobs for pair in _read(cloud, blob))
    crossed = sum(map(len, found.values()))
    return Reduced(rows, pairs, crossed, ledger, {key: _last(last, key, values) for key, values in found.items()})


def _read(cloud: str, blob: bytes) -> Iterable[tuple[Any, Any]]:
    try:
        return read_pairs(blob)
    except (pickle.UnpicklingError, pa.ArrowException) as problem:
        raise FunctionError(
            f"what cloud {cloud} sent are no plain pairs ({problem})",
            "give keys and values of plain Python types",
            cloud=cloud,
        ) from None


def _last(reduce: Reducer | None, key: Any, values: list[Any]) -> Any:
    if reduce is None:
        return values
    if isinstance(reduce, str):
        return NAMED[reduce](values)
    try:
        return reduce(key, values)
    except Exception as problem:
        name = getattr(reduce, "__qualname__", repr(reduce))
        raise FunctionError(
            f"{name} failed at {key!r} ({type(problem).__name__}: {problem})", "mend it", function=name, at=repr(key)
        ) from problem


def _check_reducer(name: str, given: Reducer | None) -> None:
    if given is not None and not callable(given) and given not in NAMED:
        raise ParameterError(
            f"{name}={given!r}", f"give a function of a key and its values, or one of {', '.join(NAMED)}"
        )


def _used(tree: exp.Select) -> Iterable[str]:
    return (clause for clause, value in tree.args.items() if value)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
