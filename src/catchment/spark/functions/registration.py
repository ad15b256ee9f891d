"""register: every function in the SQL of a session."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from catchment.spark.functions.analysis import register_checked
from catchment.spark.functions.catalog import FUNCTIONS, TABLE_FUNCTIONS
from catchment.spark.functions.partials import partials_udtf

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make every function known to this session's SQL; doing it again changes nothing.

    In a classic session a call is looked at while the query is analysed: wrong numbers of arguments, types and
    parameters raise `AnalysisException` from `spark.sql`. A Spark Connect server cannot call back: there
    the same errors are raised by the tasks, when the query runs.
    """
    session: Any = spark
    if hasattr(spark, "_jsparkSession"):
        register_checked(spark, FUNCTIONS)
    else:
        for name, function in FUNCTIONS.items():
            session.udf.register(name, function.udf())
    for name, table_function in TABLE_FUNCTIONS.items():
        session.udtf.register(name, partials_udtf(table_function.recipe))
