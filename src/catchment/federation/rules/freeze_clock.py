"""The time of a query is one: every mention of the clock becomes the moment at which the query was asked.

SELECT a FROM t WHERE at > current_timestamp() - INTERVAL 1 DAY
SELECT a FROM t WHERE at > timestamp_micros(1767225600000000) - INTERVAL 1 DAY
"""

from __future__ import annotations

from sqlglot import exp, parse_one

from catchment.federation.dialect import DIALECT
from catchment.federation.grants import function_name

__all__ = ["freeze_clock"]

_MOMENTS = {
    "current_timestamp": "timestamp_micros({})",
    "now": "timestamp_micros({})",
    "localtimestamp": "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)",
    "current_date": "CAST(timestamp_micros({}) AS DATE)",
    "curdate": "CAST(timestamp_micros({}) AS DATE)",
    "unix_timestamp": "unix_seconds(timestamp_micros({}))",
}


def freeze_clock(tree: exp.Query, microseconds: int) -> exp.Query:
    """The query with the clock at `microseconds` since 1970; days begin where each cloud's session says."""

    def frozen(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Func):
            name = function_name(node)
            if name in _MOMENTS and not any(True for _ in node.iter_expressions()):
                return parse_one(_MOMENTS[name].format(microseconds), dialect=DIALECT)
        return node

    made = tree.transform(frozen, copy=False)
    assert isinstance(made, exp.Query)
    return made
