"""The numbers that a benchmark must reach, as data in `benchmarks/targets.toml`.

[sketches]
count_min_int64_over_datasketches = { min = 10 }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from catchment.errors import ParameterError

__all__ = ["shortfalls"]


def shortfalls(path: Path, name: str, figures: Mapping[str, float]) -> list[str]:
    """A line for each target of that benchmark which the figures miss; a figure that is not there misses it too."""
    found = []
    for figure, target in tomllib.loads(path.read_text()).get(name, {}).items():
        unknown = set(target) - {"min", "max"}
        if unknown or not target:
            raise ParameterError(f"target {figure} = {target!r} in {path.name}", "give min, max or both")
        value = figures.get(figure)
        if value is None:
            found.append(f"{figure}: not measured")
        elif value < target.get("min", value):
            found.append(f"{figure}: {value:.3g}, at least {target['min']} is asked for")
        elif value > target.get("max", value):
            found.append(f"{figure}: {value:.3g}, at most {target['max']} is asked for")
    return found
