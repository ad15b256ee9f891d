"""The door to Spark: sketches of DataFrames, in batch and in streams, and in SQL.

from catchment import ECMSketch, spark as cs

hits = cs.sketch(df, keys="url", time="at", by="site", using=ECMSketch(0.05, 0.05, window=3600))
"""

from __future__ import annotations

from catchment.spark.batch import sketch
from catchment.spark.plan import SketchOf
from catchment.spark.stream import sketch_stream

__all__ = ["SketchOf", "sketch", "sketch_stream"]
