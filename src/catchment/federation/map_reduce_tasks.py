"""What a map-reduce does in a cloud: `map_task` on each part of the rows, then `reduce_task` on each bucket of keys.

Both give rows of (bucket, blob). A blob of a bucket from 0 on holds pairs; what a task has to tell beside them has a
bucket of its own below 0. A function that fails is told about, not raised: Spark would try the task again, which helps
nothing, and cut the traceback short.

This file is sent to clouds together with the functions, which need not have this package: it imports nothing of it but
`pairs`, which goes along.
"""

from __future__ import annotations

import json
import pickle
import reprlib
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catchment.federation.pairs import read_columns, read_pairs, write_columns, write_pairs

__all__ = ["FAILED", "NAMED", "REDUCED", "TOLD", "Program", "grouped", "map_task", "reduce_task", "reduced_columns"]

FAILED, TOLD = -1, -2
"""Buckets of what is no pair: a function that failed, and the numbers of a task."""

REDUCED = pa.schema([("bucket", pa.int32()), ("blob", pa.binary())])
"""What a task gives."""

NAMED: Mapping[str, Callable[[Iterable[Any]], Any]] = {"sum": sum, "min": min, "max": max}
"""Reductions that have a name; of Arrow columns they are computed by Arrow."""

PAIRS_AT_ONCE = 1 << 18
"""Pairs that a task gathers before it reduces them, and sends on if they are still many."""


@dataclass(frozen=True, slots=True)
class Program:
    """What goes to a cloud: pickled functions, sources of their modules, how many buckets keys fall into."""

    functions: bytes
    """`{"map": …, "map_batches": …, "local_reduce": …}`."""
    modules: Mapping[str, tuple[str, str | None]]
    """By its name, where a module's source stood, and its text; no text for a folder that has only modules in it."""
    buckets: int = 1

    def load(self) -> dict[str, Any]:
        """The functions, in a process that has none of their modules."""
        try:
            _install(self.modules)
            loaded: dict[str, Any] = pickle.loads(self.functions)
        except Exception as problem:
            raise _FunctionFailedError("the import of the functions", "the start", problem) from None
        return loaded


class _FunctionFailedError(Exception):
    """A function of the user's did not do: which, at what, and how."""

    def __init__(self, function: Any, at: object, problem: BaseException) -> None:
        lines = traceback.format_exception(problem)
        told = {
            "function": function if isinstance(function, str) else getattr(function, "__qualname__", repr(function)),
            "at": reprlib.repr(at),
            "problem": f"{type(problem).__name__}: {problem}",
            "traceback": "".join(lines),
        }
        super().__init__(json.dumps(told))


def map_task(program: Program, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Map rows, and reduce what they give as far as this task sees."""
    told = {"rows": 0, "pairs": 0}
    try:
        functions = program.load()
        mapper = _map_columns if functions["map_batches"] else _map_rows
        for bucket, blob in mapper(program, functions, batches, told):
            yield _row(bucket, blob)
    except _FunctionFailedError as failed:
        yield _row(FAILED, str(failed).encode())
    yield _row(TOLD, json.dumps(told).encode())


def reduce_task(program: Program, rows: pa.Table) -> pa.Table:
    """Reduce the blobs of one bucket to one."""
    bucket = rows.column("bucket")[0].as_py()
    blobs = [blob.as_py() for blob in rows.column("blob")]
    if bucket < 0:
        return rows
    try:
        functions = program.load()
        if functions["map_batches"] and functions["local_reduce"] in NAMED:
            columns = read_columns(blobs)
            assert columns is not None
            blob = write_columns(reduced_columns(columns, functions["local_reduce"]))
        else:
            pairs = (pair for blob in blobs for pair in read_pairs(blob))
            blob = _written(_reduced(functions["local_reduce"], grouped(pairs)), functions["local_reduce"])
    except _FunctionFailedError as failed:
        bucket, blob = FAILED, str(failed).encode()
    return pa.Table.from_batches([_row(bucket, blob)])


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """The values of each key, in order of arrival."""
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def reduced_columns(columns: pa.Table, how: str) -> pa.Table:
    """Columns with each key once, its values reduced by a reduction that has a name."""
    made = columns.group_by("key").aggregate([("value", how)])
    return made.select(["key", f"value_{how}"]).rename_columns(["key", "value"])


def _map_rows(
    program: Program, functions: dict[str, Any], batches: Iterable[pa.RecordBatch], told: dict[str, int]
) -> Iterator[tuple[int, bytes]]:
    mapping, reduce = functions["map"], functions["local_reduce"]
    gathered: dict[Any, list[Any]] = {}
    waiting = 0
    for batch in batches:
        told["rows"] += batch.num_rows
        for row in batch.to_pylist():
            try:
                for key, value in mapping(row):
                    gathered.setdefault(key, []).append(value)
                    waiting += 1
                    told["pairs"] += 1
            except Exception as problem:
                raise _FunctionFailedError(mapping, row, problem) from None
        if waiting >= PAIRS_AT_ONCE:
            gathered = _reduced(reduce, gathered)
            waiting = sum(map(len, gathered.values()))
            if waiting >= PAIRS_AT_ONCE // 2:  # many keys: gathering them further would take memory and save little
                yield from _buckets(gathered, program.buckets, mapping)
                gathered, waiting = {}, 0
    yield from _buckets(_reduced(reduce, gathered), program.buckets, mapping)


def _map_columns(
    program: Program, functions: dict[str, Any], batches: Iterable[pa.RecordBatch], told: dict[str, int]
) -> Iterator[tuple[int, bytes]]:
    mapping, reduce = functions["map_batches"], functions["local_reduce"]
    gathered: list[pa.Table] = []
    waiting = 0

    def emptied() -> Iterator[tuple[int, bytes]]:
        whole = pa.concat_tables(gathered, promote_options="permissive")
        if reduce is None:
            yield 0, write_columns(whole)
        elif reduce in NAMED:
            whole = reduced_columns(whole, reduce)
            places = pa.array(
                [zlib.crc32(repr(key).encode()) % program.buckets for key in whole.column("key").to_pylist()],
                pa.int32(),
            )
            for bucket in range(program.buckets):
                part = whole.filter(pc.equal(places, bucket))
                if part.num_rows:
                    yield bucket, write_columns(part)
        else:
            pairs = zip(whole.column("key").to_pylist(), whole.column("value").to_pylist(), strict=True)
            yield from _buckets(_reduced(reduce, grouped(pairs)), program.buckets, mapping)

    for batch in batches:
        told["rows"] += batch.num_rows
        try:
            made = mapping(batch)
            table = pa.table(made) if isinstance(made, dict) else made
            table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
            gathered.append(table.select(["key", "value"]))
        except Exception as problem:
            raise _FunctionFailedError(mapping, f"a batch of {batch.num_rows} rows", problem) from None
        told["pairs"] += gathered[-1].num_rows
        waiting += gathered[-1].num_rows
        if waiting >= 4 * PAIRS_AT_ONCE:
            yield from emptied()
            gathered, waiting = [], 0
    if waiting:
        yield from emptied()


def _reduced(reduce: Any, gathered: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    """The same with one value a key, where a local reduce was given."""
    if reduce is None:
        return gathered
    named = NAMED.get(reduce) if isinstance(reduce, str) else None
    for key, values in gathered.items():
        if len(values) > 1:
            try:
                gathered[key] = [named(values) if named else reduce(key, values)]
            except Exception as problem:
                raise _FunctionFailedError(reduce, key, problem) from None
    return gathered


def _buckets(gathered: dict[Any, list[Any]], buckets: int, source: Any) -> Iterator[tuple[int, bytes]]:
    parts: list[dict[Any, list[Any]]] = [{} for _ in range(buckets)]
    for key, values in gathered.items():
        # Not hash(): it differs between processes. Keys that are equal and look different (1 and 1.0) may fall apart
        # here and are united where the last reduce runs.
        parts[zlib.crc32(repr(key).encode()) % buckets][key] = values
    for bucket, part in enumerate(parts):
        if part:
            yield bucket, _written(part, source)


def _written(gathered: dict[Any, list[Any]], source: Any) -> bytes:
    try:
        return write_pairs([(key, value) for key, values in gathered.items() for value in values])
    except Exception as problem:
        raise _FunctionFailedError(source, "the types of its keys and values", problem) from None


def _row(bucket: int, blob: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([bucket], pa.int32()), pa.array([blob], pa.binary())], schema=REDUCED)


class _Sent:
    """Imports modules from the texts that came with a program; its copy goes before any that the machine has."""

    def __init__(self, modules: Mapping[str, tuple[str, str | None]]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        origin, text = self.modules[name]
        package = text is None or origin.endswith("__init__.py")
        return spec_from_loader(name, self, origin=origin, is_package=package)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        origin, text = self.modules[module.__name__]
        module.__sent__ = (origin, text)
        exec(compile(text or "", origin, "exec"), module.__dict__)

    def get_source(self, name: str) -> str:
        """For tracebacks, which show lines."""
        return self.modules[name][1] or ""


def _install(modules: Mapping[str, tuple[str, str | None]]) -> None:
    """Make the modules importable. A worker lives on, so one that was sent before with another text is forgotten."""
    same = {name for name, sent in modules.items() if getattr(sys.modules.get(name), "__sent__", None) == sent}
    if same == set(modules):
        return
    for name in modules:
        sys.modules.pop(name, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != _Sent.__name__]
    sys.meta_path.insert(0, _Sent(modules))
