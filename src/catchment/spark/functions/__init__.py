"""Functions over BINARY columns of sketches, in SQL after `register(spark)` and as Python functions of columns.

    from catchment.spark.functions import ecm_sketch_agg, ecm_sketch_estimate, register

    register(spark)
    spark.sql("SELECT site, ecm_sketch_agg(page, time, 0.05, 0.01, 3600) AS sketch FROM views GROUP BY site")
    views.groupBy("site").agg(ecm_sketch_agg("page", "time", using=ECMSketch(0.05, 0.01, window=3600)))

Names are regular: `<kind>_sketch_agg` and `<kind>_panes_agg` build, `<kind>_union`, `<kind>_union_agg` merge,
`<kind>_sketch_<question>` asks, and `…_with_error_bounds` gives the whole answer as a struct. SQL also has table
functions, `<kind>_sketch_partials` and `<kind>_panes_partials`. `docs/sql.md` lists them all.
Strings are names of columns, as in Spark's own functions: a key that is a constant is `lit("a")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catchment.spark.functions.columns import column_functions
from catchment.spark.functions.registration import register

_column_functions = column_functions()
globals().update(_column_functions)

__all__ = ["register", *_column_functions]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
