"""How long a fresh process takes to its first answer, with the compiled kernels in the cache."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from catchment.app.report import Progress, Report

ROOT = Path(__file__).parents[1]

WORK = {
    "import numpy": "import numpy",
    "import numba": "import numba",
    "import catchment": "import catchment",
    "Count-Min: update, estimate": "from catchment import CountMin as S; s = S(); s.update(['a']); s.estimate('a')",
    "Space Saving: update, top": "from catchment import SpaceSaving as S; s = S(); s.update(['a', 'b']); s.top(1)",
    "UltraLogLog: update, estimate": "from catchment import UltraLogLog as S; s = S(); s.update([1]); s.estimate()",
    "every family read from bytes": (
        "from catchment import Sketch; from pathlib import Path\n"
        "for path in Path('tests/golden/v1').glob('*.sketch'): Sketch.from_bytes(path.read_bytes())"
    ),
}


def run(*, quick: bool, progress: Progress) -> Report:
    repeats = 1 if quick else 7
    rows = []
    for step, (name, code) in enumerate(WORK.items()):
        progress(name, step / len(WORK))
        _seconds(code)  # the first run fills the cache
        rows.append((name, min(_seconds(code) for _ in range(repeats))))
    numpy_alone = rows[0][1]
    figures = {
        "first_answer_seconds": max(seconds for name, seconds in rows if "update" in name),
        "first_answer_over_import_numpy": max(seconds for name, seconds in rows if "update" in name) / numpy_alone,
    }
    table = [(name, seconds, seconds / numpy_alone) for name, seconds in rows]
    return Report("A fresh process, kernels cached", ("work", "seconds", "over import numpy"), table, figures)


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    return time.perf_counter() - start
