"""Files into tables of micro-clouds: read in blocks, bad rows aside, dealt over clouds, a file whole or not at all."""

from __future__ import annotations

__all__: list[str] = []
