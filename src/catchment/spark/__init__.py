"""The door to Spark: sketches of DataFrames, in batch and in streams, and in SQL.

    from catchment import ECMSketch
    from catchment.spark import register, sketch, sketch_stream
    from catchment.spark.session import session

    spark = session()
    hits = sketch(df, keys="url", time="at", by="site", using=ECMSketch(0.05, 0.05, window=3600))

Further doors by name: `session`, `functions` (columns and SQL), `builtin` (Spark's own sketches), `source`, `pipeline`,
`kafka`; load: `partition`, `keyed_state`, `balanced_map`, `shed`.
"""

from __future__ import annotations

from catchment.spark.balanced_map import BalancedMap, balanced_map
from catchment.spark.batch import sketch
from catchment.spark.keyed_state import balanced_state
from catchment.spark.partition import balanced_repartition
from catchment.spark.plan import SketchOf
from catchment.spark.registration import register
from catchment.spark.savepoint import export_savepoint, read_savepoint
from catchment.spark.shed import shed
from catchment.spark.stream import sketch_stream

__all__ = [
    "BalancedMap",
    "SketchOf",
    "balanced_map",
    "balanced_repartition",
    "balanced_state",
    "export_savepoint",
    "read_savepoint",
    "register",
    "shed",
    "sketch",
    "sketch_stream",
]
