"""Report: what an experiment or a benchmark found, as a table, as JSON and as a plot."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from catchment.answer import plain

__all__ = ["Progress", "Report"]

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of all work that is behind it, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Report:
    """One table, the figures that matter by name, and for experiments an Altair chart."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    figures: Mapping[str, float]
    notes: Sequence[str] = ()
    chart: Any = field(default=None, compare=False)

    def table(self) -> Table:
        """The rows, formatted for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for place, column in enumerate(self.columns):
            number = bool(self.rows) and isinstance(self.rows[0][place], int | float)
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*(shown(cell) for cell in row))
        return table

    def to_json(self, name: str, *, quick: bool) -> str:
        """Everything but the chart, with what it ran on."""
        content = {
            "name": name,
            "quick": quick,
            "title": self.title,
            "figures": dict(self.figures),
            "columns": self.columns,
            "rows": self.rows,
            "notes": self.notes,
            "machine": {"python": platform.python_version(), "processor": platform.machine()},
        }
        return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"

    def save_chart(self, path: Path) -> None:
        """Write the plot; the file's ending chooses PNG or SVG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.chart.save(str(path), **({"scale_factor": 2} if path.suffix == ".png" else {}))


def shown(cell: Any) -> str:
    """A number as a person writes it.

    >>> shown(1234567), shown(0.012345), shown(12.3456), shown("x"), shown(2e7)
    ('1,234,567', '0.0123', '12.3', 'x', '20,000,000')
    """
    if cell is None:
        return "-"
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"
