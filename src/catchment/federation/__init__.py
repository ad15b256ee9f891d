"""Many Spark clusters as one: SQL and map-reduce planned over micro-clouds. Text, plans and Arrow; no engine."""

from __future__ import annotations

__all__: list[str] = []
