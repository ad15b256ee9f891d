"""Quantities: what of everyone's events a watch follows."""

from __future__ import annotations

from catchment.monitor.quantities.counts import Frequency, RangeSum, Total
from catchment.monitor.quantities.distinct import Distinct
from catchment.monitor.quantities.joins import InnerProduct, SelfJoin

__all__ = ["Distinct", "Frequency", "InnerProduct", "RangeSum", "SelfJoin", "Total"]
