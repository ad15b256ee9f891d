"""Many Spark clusters as one: SQL and map-reduce planned over micro-clouds. Text, plans and Arrow; no engine."""

from __future__ import annotations

from catchment.federation.catalog import Catalog, LogicalTable
from catchment.federation.cloud import Cloud, Column, Errand, Index, Purpose, Table
from catchment.federation.federation import Federation, Outcome
from catchment.federation.ledger import Ledger
from catchment.federation.plan import Plan

__all__ = [
    "Catalog",
    "Cloud",
    "Column",
    "Errand",
    "Federation",
    "Index",
    "Ledger",
    "LogicalTable",
    "Outcome",
    "Plan",
    "Purpose",
    "Table",
]
