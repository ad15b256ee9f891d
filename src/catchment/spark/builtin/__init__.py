"""Bounds for the sketches that Spark 4.3 already has, and what it lacks around them.

| Spark's sketch | in Python | in SQL, after `register_builtin(spark)` |
|---|---|---|
| `hll_sketch_agg` | `hll_answer` | `hll_sketch_estimate_with_error_bounds` |
| `theta_sketch_agg` | `theta_answer` | `theta_sketch_estimate_with_error_bounds` |
| `tuple_sketch_agg_…` | `tuple_answer` | `tuple_sketch_estimate_…_with_error_bounds` |
| `kll_sketch_agg_…` | `kll_quantile_answer` | `kll_sketch_get_quantile_…_with_error_bounds` |
| | `kll_rank_answer` | `kll_sketch_get_rank_…_with_error_bounds` |
| `approx_top_k_accumulate`, `…_combine` | `items_ranking` | `approx_top_k_estimate_with_error_bounds` |
| `count_min_sketch` | `SparkCountMin` | `count_min_sketch_estimate`, `count_min_sketch_estimate_with_error_bounds` |
| | `SparkCountMin.merge` | `count_min_sketch_union_agg` |

All of them are functions of columns as well. `approx_top_k` and its parts, which Spark has in SQL only, are Python
functions here.
"""

from __future__ import annotations

from catchment.spark.builtin.columns import (
    approx_top_k_estimate_with_error_bounds,
    count_min_sketch_estimate,
    count_min_sketch_estimate_with_error_bounds,
    count_min_sketch_union_agg,
    hll_sketch_estimate_with_error_bounds,
    kll_sketch_get_quantile_with_error_bounds,
    kll_sketch_get_rank_with_error_bounds,
    register_builtin,
    theta_sketch_estimate_with_error_bounds,
    tuple_sketch_estimate_with_error_bounds,
)
from catchment.spark.builtin.confidence import standard_deviations
from catchment.spark.builtin.count_min import SparkCountMin
from catchment.spark.builtin.hll import hll_answer
from catchment.spark.builtin.items import items_ranking
from catchment.spark.builtin.kll import kll_quantile_answer, kll_rank_answer
from catchment.spark.builtin.theta import theta_answer, tuple_answer
from catchment.spark.builtin.top_k import (
    approx_top_k,
    approx_top_k_accumulate,
    approx_top_k_combine,
    approx_top_k_estimate,
)

__all__ = [
    "SparkCountMin",
    "approx_top_k",
    "approx_top_k_accumulate",
    "approx_top_k_combine",
    "approx_top_k_estimate",
    "approx_top_k_estimate_with_error_bounds",
    "count_min_sketch_estimate",
    "count_min_sketch_estimate_with_error_bounds",
    "count_min_sketch_union_agg",
    "hll_answer",
    "hll_sketch_estimate_with_error_bounds",
    "items_ranking",
    "kll_quantile_answer",
    "kll_rank_answer",
    "kll_sketch_get_quantile_with_error_bounds",
    "kll_sketch_get_rank_with_error_bounds",
    "register_builtin",
    "standard_deviations",
    "theta_answer",
    "theta_sketch_estimate_with_error_bounds",
    "tuple_answer",
    "tuple_sketch_estimate_with_error_bounds",
]
