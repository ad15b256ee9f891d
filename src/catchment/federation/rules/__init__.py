"""How a block that is placed in several clouds becomes a relation: the first rule that fits.

Read from top to bottom this is the planner's design. A rule takes the planner and the block, and returns a relation, or
None if it does not fit.
"""

from __future__ import annotations

from catchment.federation.rules.distinct import distinct
from catchment.federation.rules.limit import limit
from catchment.federation.rules.rows import rows
from catchment.federation.rules.split_aggregates import split_aggregates
from catchment.federation.rules.top_n import top_n
from catchment.federation.rules.whole import whole
from catchment.federation.rules.windows import windows

__all__ = ["RULES"]

RULES = (
    whole,  # one cloud has all: it answers alone
    split_aggregates,  # partial aggregates in each cloud, the final ones in one
    windows,  # rows go to one cloud
    distinct,  # distinct rows of each cloud, then of all
    top_n,  # the first n of each cloud, then of all
    limit,  # n rows of each cloud, the first n of them
    rows,  # nothing but rows: the clouds' answers one after the other
)
