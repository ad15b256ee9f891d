"""Map-reduce inside one Spark: plain Python functions over the rows of a SELECT, as a frame of reduced pairs.

The functions are pickled with cloudpickle, and the sources of the user's modules that they need go along. So does our
own code that calls them, by value: a cluster needs a Python of this release with PyArrow, which PySpark itself asks
for, and nothing of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyspark.cloudpickle

from catchment.errors import CatchmentError, CloudError, ParameterError
from catchment.federation import map_reduce_tasks, pairs
from catchment.federation.cloud import Errand, Purpose
from catchment.federation.ledger import Ledger
from catchment.federation.map_reduce import Functions
from catchment.federation.map_reduce_tasks import REDUCED, Program, map_task, reduce_task
from catchment.federation.modules import modules_needed, texts_in
from catchment.spark.cloud_line import Line

__all__ = ["over_line", "packed", "python_trouble", "reduced_frame", "told_of_tasks", "weight"]

_SCHEMA = "bucket int, blob binary"
_MOST_BUCKETS = 64

cloudpickle: Any = pyspark.cloudpickle  # it has no types
cloudpickle.register_pickle_by_value(map_reduce_tasks)
cloudpickle.register_pickle_by_value(pairs)


def packed(functions: Functions, buckets: int = 1) -> Program:
    """Functions, ready to go: pickled, with their modules.

    What cannot be pickled, an open file or a connection that a function uses, is a `ParameterError`.
    """
    named = {"map": functions.map, "map_batches": functions.map_batches, "local_reduce": functions.local_reduce}
    try:
        pickled = cloudpickle.dumps(named)
    except Exception as problem:
        raise ParameterError(
            f"the functions of this map-reduce cannot be sent ({type(problem).__name__}: {problem})",
            "let them use only what can be pickled; open files and connections inside of them",
        ) from problem
    return Program(pickled, modules_needed(texts_in(pickled)), buckets)


def weight(functions: Functions) -> int:
    """The bytes of what goes to a cloud: the functions with their modules, and our code that calls them."""
    return len(bytes(cloudpickle.dumps(_mapping(packed(functions)))))


def reduced_frame(spark: Any, sql: str, functions: Functions) -> Any:
    """The frame of (bucket, blob) that a map-reduce makes of the rows of a SELECT, not yet run."""
    reducing = functions.local_reduce is not None
    buckets = min(_MOST_BUCKETS, int(spark.conf.get("spark.sql.shuffle.partitions"))) if reducing else 1
    program = packed(functions, buckets)
    mapped = spark.sql(sql).mapInArrow(_mapping(program), _SCHEMA)
    return mapped.groupBy("bucket").applyInArrow(_reducing(program), _SCHEMA) if reducing else mapped


def over_line(
    line: Line, cloud: str, sql: str, functions: Functions, errand: Errand, progress: Callable[[float], None]
) -> pa.Table:
    """What the tasks give in a cloud behind Spark Connect; what goes in is entered as the program."""
    books = Ledger()
    batches: list[pa.RecordBatch] = []
    try:
        plan = line.ask(lambda session: reduced_frame(session, sql, functions)._plan.to_proto(session.client))
        with told_of_tasks(line.session(), progress):
            asked = replace(errand, ledger=books)
            for part in line.answers(lambda client: client.to_table_as_iterator(plan, {}), asked):
                batches += part.to_batches() if isinstance(part, pa.Table) else []
    except CatchmentError as problem:
        trouble = python_trouble(problem.__cause__ or problem, cloud)
        if trouble is None:
            raise
        raise trouble from problem
    finally:
        for entry in books:
            purpose = errand.purpose if entry.outward else Purpose.PROGRAM
            errand.ledger.add(cloud, purpose, outward=entry.outward, size=entry.bytes, rows=entry.rows)
    return pa.Table.from_batches(batches, REDUCED)


@contextmanager
def told_of_tasks(session: Any, progress: Callable[[float], None]) -> Iterator[None]:
    """Call with the share of a Connect session's tasks that are done, as often as the server tells."""

    def hear(stages: Any, **_more: Any) -> None:
        tasks = sum(stage.num_tasks for stage in stages or ())
        if tasks:
            progress(min(1.0, sum(stage.num_completed_tasks for stage in stages) / tasks))

    session.registerProgressHandler(hear)
    try:
        yield
    finally:
        session.removeProgressHandler(hear)


def python_trouble(problem: BaseException, cloud: str) -> CloudError | None:
    """The error for a cloud that cannot run our Python; None if a problem is another one."""
    said = str(problem)
    signs = ("PYTHON_VERSION_MISMATCH", "Cannot run program", "No module named 'pyarrow'", "PACKAGE_NOT_INSTALLED")
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not any(sign in said for sign in signs):
        return None
    line = next((line.strip() for line in said.splitlines() if any(sign in line for sign in signs)), "")
    return CloudError(
        f"cloud {cloud} cannot run functions of Python {release} ({line[:300]})",
        f"let its Spark have a Python {release} with PyArrow (spark.pyspark.python), or ask from the release it has",
        cloud=cloud,
    )


def _mapping(program: Program) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    task = map_task

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(program, batches)

    return run


def _reducing(program: Program) -> Callable[[pa.Table], pa.Table]:
    task = reduce_task

    def run(rows: pa.Table) -> pa.Table:
        return task(program, rows)

    return run
