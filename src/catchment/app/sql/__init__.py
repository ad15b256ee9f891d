"""SQL over micro-clouds for people: statements out of a text, results on a terminal or in a file, the shell."""

from __future__ import annotations

__all__: list[str] = []
