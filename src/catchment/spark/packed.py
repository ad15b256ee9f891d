"""Rows in Arrow batches that the JVM packs as it does for `DataFrame.toArrow`, passed on to Python as they are.

`mapInArrow` wraps each row in another, and writes it as a struct, before Python unwraps the batch: of three columns
that costs as much as packing them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import FramedSerializer
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

__all__ = ["packed", "unpacked"]

ROWS = 10_000
"""Rows in a batch of short ones, as many as Spark's own default: more gain nothing."""

_LIMIT = "spark.sql.execution.arrow.maxRecordsPerBatch"
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


class _AsTheyAre(FramedSerializer):
    """Bytes are passed as bytes."""

    def dumps(self, obj: bytes) -> bytes:
        return obj

    def loads(self, obj: bytes) -> bytes:
        return obj


def packed(rows: DataFrame, *, short: bool) -> tuple[RDD[bytes], pa.Schema] | None:
    """The rows as batches and their schema, or None where Spark has no such way.

    Rows that may be long come in batches of as many as the session allows, since Arrow holds 2 GiB in one.

    Spark Connect has none. Neither has a plan that is adapted while it runs: to get at its rows is to run its shuffles,
    and nothing may run before an action does. A shuffle costs more than is saved here.
    """
    if not hasattr(rows, "_jdf"):
        return None
    plan = rows._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        return None
    spark = rows.sparkSession
    before = spark.conf.get(_LIMIT)
    spark.conf.set(_LIMIT, str(ROWS if short else before))  # is read when the batches are planned, and only then
    try:
        batches = rows._jdf.toArrowBatchRdd(plan).toJavaRDD()
    except Py4JError:  # not a public method: it may go, and some platforms forbid it
        return None
    finally:
        spark.conf.set(_LIMIT, str(before))
    large = spark.conf.get(_LARGE) == "true"
    schema = to_arrow_schema(rows.schema, timezone="UTC", prefers_large_types=large)
    return RDD(batches, spark.sparkContext, _AsTheyAre()), schema


def unpacked(batches: Iterable[bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches as Arrow's; `schema` is the one that `packed` gave."""
    return (pa.ipc.read_record_batch(pa.py_buffer(batch), schema) for batch in batches)
