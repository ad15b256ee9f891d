"""Lengths of time, where tasks on Spark look for them; they are read without Spark, too."""

from __future__ import annotations

from catchment.window.durations import as_ticks, microseconds

__all__ = ["as_ticks", "microseconds"]
