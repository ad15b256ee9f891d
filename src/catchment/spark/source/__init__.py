"""Where events come from: sources that Spark does not have, and what becomes of events that cannot be used.

JSON, Parquet, CSV and Kafka are read by Spark itself; `split_bad` takes the bad rows out of any of them.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from catchment.spark.source.dead_letters import (
    REASONS,
    Checks,
    count_reasons,
    read_dead_letters,
    split_bad,
    write_dead_letters,
)
from catchment.spark.source.generator import EventSource
from catchment.spark.source.netflow import FLOW_CHECKS, read_netflow
from catchment.spark.source.wc98 import WebLogSource

__all__ = [
    "FLOW_CHECKS",
    "REASONS",
    "Checks",
    "EventSource",
    "WebLogSource",
    "count_reasons",
    "read_dead_letters",
    "read_netflow",
    "register_sources",
    "split_bad",
    "write_dead_letters",
]


def register_sources(spark: SparkSession) -> None:
    """Make the formats `catchment_events` and `wc98` known to this session; doing so again changes nothing."""
    for source in (EventSource, WebLogSource):
        spark.dataSource.register(source)
