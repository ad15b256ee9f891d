"""In which state a coordinator says that a query is."""

from __future__ import annotations

__all__ = ["ASKING", "COLLECTING", "HOLDING"]

COLLECTING, ASKING, HOLDING = "collecting", "asking", "holding"
