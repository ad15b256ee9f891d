"""Spark's `count_min_sketch` outside the JVM; the class needs no Spark and so lives among the sketches."""

from __future__ import annotations

from catchment.sketch.spark_count_min import SparkCountMin

__all__ = ["SparkCountMin"]
