"""Run the benchmarks and write their figures into README.md: `make figures`.

The README's tables stand between `<!-- figures: NAME -->` and `<!-- end -->` and are never typed; a test holds them
equal to the JSON that the last run left in `benchmarks/figures/`. `<!-- notes: NAME -->` has the notes without the
table, where that is long.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from catchment.app.report import shown

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks/figures"
NAMES = ("sketches", "startup", "windows", "spark", "monitors", "balance", "amplab")


def rendered(report: dict[str, Any], *, notes_only: bool = False) -> str:
    """A report as Markdown: its table, its notes, and the command that made it."""
    table = [
        "| " + " | ".join(report["columns"]) + " |",
        "|" + "---|" * len(report["columns"]),
        *("| " + " | ".join(map(shown, row)) + " |" for row in report["rows"]),
        "",
    ]
    notes = [*(f"{note}  " for note in report["notes"]), f"Made by `catchment bench {report['name']}`."]
    return "\n".join(notes if notes_only else table + notes)


def with_figures(text: str) -> str:
    """The README with each marked place filled from the JSON of that name."""

    def fill(place: re.Match[str]) -> str:
        report = json.loads((FIGURES / f"{place['name']}.json").read_text())
        text = rendered(report, notes_only=place["what"] == "notes")
        return f"<!-- {place['what']}: {place['name']} -->\n{text}\n<!-- end -->"

    return re.sub(r"<!-- (?P<what>figures|notes): (?P<name>\S+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main() -> None:
    for name in NAMES:
        command = [sys.executable, "-m", "catchment.app", "bench", name, "--json", str(FIGURES / f"{name}.json")]
        subprocess.run(command, check=True)
    readme = ROOT / "README.md"
    readme.write_text(with_figures(readme.read_text()))


if __name__ == "__main__":
    main()
