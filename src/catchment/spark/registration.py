"""register: everything that catchment adds to SQL, in one call."""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Add the SQL functions over sketches, bounds for Spark's own sketches, and the sources, to a session.

    Calling it again changes nothing. `docs/sql.md` lists the functions.
    """
    # Not at the top: Python workers import this room for every task, and need none of these.
    from catchment.spark.builtin import register_builtin
    from catchment.spark.functions import register as register_functions
    from catchment.spark.source import register_sources

    register_functions(spark)
    register_builtin(spark)
    register_sources(spark)
