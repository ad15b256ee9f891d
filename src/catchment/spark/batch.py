"""Sketches of a DataFrame: rows become exact events in Arrow batches, and all events of a group one sketch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType

from catchment.errors import ParameterError
from catchment.sketch.base import Sketch
from catchment.spark.packed import packed, unpacked
from catchment.spark.plan import Measure, Plan, SketchOf
from catchment.spark.scan import Scan, plain_scan
from catchment.spark.tasks import Gathering, big_batches, parts_of
from catchment.window.gather import kind_of

__all__ = ["sketch"]

LANES = ("auto", "scan", "rows")


def sketch(
    df: DataFrame,
    *,
    using: Sketch | Mapping[str, Sketch | SketchOf],
    keys: str | None = None,
    time: str | None = None,
    by: str | Iterable[str] = (),
    weights: str | None = None,
    values: str | None = None,
    attributes: str | None = None,
    tick: str = "1 second",
    lane: str = "auto",
) -> DataFrame:
    """One sketch for each group of rows, in a BINARY column `sketch`.

    Rows may come in any order. A sketch in time is built from exact counts of all rows, put in order, so that it has
    the bytes, and the error, of one that saw the whole stream in order at one place: nothing is merged with loss. So
    are linear sketches. A `SpaceSaving` and a conservative `CountMin`, alone or in panes, are merged from one of each
    task, which keeps their guarantee.

    A row with a null among the columns that a sketch needs is no event of it, as in Spark's own aggregates. A null in
    `by` is a group. Without `by` there is one row, also where there are no events; with it, groups without events have
    no row. What is wrong with parameters, columns and types is raised here, before any task runs.

    **Two lanes.** A plain scan of local Parquet files takes the fast one: tasks read the row groups themselves with
    Arrow, and rows never pass the JVM. Anything else is projected and hashed on the JVM and passed on in Arrow batches.
    Both give the same bytes (`SpaceSaving`: the same guarantee).

    Parameters
    ----------
    df
        The rows.
    using
        An empty sketch, such as `ECMSketch(0.05, 0.05, window=3600)`: its parameters are those of all. Or a mapping
        from names to such sketches, or to `SketchOf` with columns of its own: then the result has a column `name`.
    keys, weights, values, attributes
        Columns of what the sketch takes: keys of integers, strings or binary, the rest integers.
    time
        A column of timestamps, counted in ticks, or of integers, which are ticks.
    by
        The columns to group by.
    tick
        The unit of time: windows and questions are in ticks. Events of one tick are at the same time to the sketch.
        Fewer ticks in a window are fewer counts to move: a thousandth of the window is a good choice.
    lane
        "auto", "scan" to insist on the fast lane, or "rows" to avoid it.

    Examples
    --------
    ::

        hits = sketch(clicks, keys="url", time="at", by="site", using=ECMSketch(0.05, 0.05, window=3600))
        hits.selectExpr("site", "ecm_sketch_estimate(sketch, '/index.html', 600)")
    """
    if lane not in LANES:
        raise ParameterError(f"lane={lane!r}", f"choose one of {', '.join(LANES)}")
    plan, rows = Plan.of(
        df, using, keys=keys, time=time, by=by, weights=weights, values=values, attributes=attributes, tick=tick
    )
    scan = plain_scan(df, plan) if lane != "rows" else "it was not asked for"
    if isinstance(scan, Scan):
        parts = scan.parts(df.sparkSession, _Scanning(plan.unhashed(), scan))
    elif lane == "scan":
        raise ParameterError("lane='scan' for a DataFrame that it does not fit", f"{scan}: use lane='auto'")
    else:
        parts = _rows_parts(rows, plan)
    if not plan.by:
        return parts.repartition(1).mapInArrow(_merge_all(plan), plan.result_schema())
    grouped = parts.groupBy(*(name for name in plan.parts_schema().names if name != "part"))
    return grouped.applyInArrow(_merge(plan), plan.result_schema())


def _rows_parts(rows: DataFrame, plan: Plan) -> DataFrame:
    """What tasks make of rows that the JVM gives them."""
    gather = _Gather(plan)
    values = rows.schema.fields[len(plan.by) :]  # what groups are called is taken to be short
    way = packed(rows, short=not any(isinstance(field.dataType, StringType | BinaryType) for field in values))
    if way is None:
        return rows.mapInArrow(gather, plan.parts_schema())
    batches, schema = way

    def parts(task: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
        for batch in gather(unpacked(task, schema)):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    return rows.sparkSession.createDataFrame(batches.mapPartitions(parts), plan.parts_schema(), verifySchema=False)


class _Gather:
    """Batches of rows in, parts out; one for each task."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.gather(big_batches(batches))

    def gather(self, tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        gathering = Gathering(self.plan, merging=True)

        def parts() -> Iterator[Any]:
            for table in tables:
                yield from gathering.add(table)
            yield from gathering.flush()

        schema = to_arrow_schema(self.plan.parts_schema(), timezone="UTC")
        return parts_of(self.plan, gathering.groups, parts(), schema)


class _Scanning(_Gather):
    """The same where the batches say which row groups to read."""

    def __init__(self, plan: Plan, scan: Scan) -> None:
        super().__init__(plan)
        self.scan = scan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = [number for batch in batches for number in batch.column(0).to_pylist()]
        return self.gather(table for number in chosen for table in self.scan.read(number))


def _merge_all(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """All parts become one sketch for each measure, also where there is no part."""
    schema = to_arrow_schema(plan.result_schema(), timezone="UTC")

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wholes = {measure.name: _Whole(measure) for measure in plan.measures}
        for batch in batches:
            for name, whole in wholes.items():
                mine = batch.filter(pc.equal(batch.column(0), name)) if plan.named else batch
                whole.add(mine.column("part").to_pylist())
        for name, whole in wholes.items():
            yield _row([name, whole.built()] if plan.named else [whole.built()], schema)

    return merge


def _merge(plan: Plan) -> Callable[..., Iterator[pa.RecordBatch]]:
    """All parts of one group and measure become its sketch."""
    measures = {measure.name: measure for measure in plan.measures}
    schema = to_arrow_schema(plan.result_schema(), timezone="UTC")
    named = plan.named

    def merge(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = [scalar.as_py() for scalar in key]
        whole = _Whole(measures[values[-1]] if named else next(iter(measures.values())))
        for batch in batches:
            whole.add(batch.column("part").to_pylist())
        yield _row([*values, whole.built()], schema)

    # Spark tells the forms of this function apart by its annotations, which must be types, not text.
    merge.__annotations__ = {
        "key": tuple[pa.Scalar, ...],
        "batches": Iterator[pa.RecordBatch],
        "return": Iterator[pa.RecordBatch],
    }
    return merge


class _Whole:
    """The events of all parts of one measure, on their way to its sketch."""

    def __init__(self, measure: Measure) -> None:
        self._using = measure.using
        self._kind = kind_of(measure.using, merging=True).events
        self._events = self._kind(measure.using)

    def add(self, parts: list[bytes]) -> None:
        self._events.add([self._kind.from_bytes(self._using, part) for part in parts])

    def built(self) -> bytes:
        built = self._using.copy()
        self._events.replay(built)
        return built.to_bytes()


def _row(values: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array([value], type=field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
