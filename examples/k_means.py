"""k-means: centres of points that lie in several clouds. Only sums and counts cross a border, k of each a round.

    python -m examples.k_means points x y --k 3

The centres of a round go out with the functions: `nearest` holds them. Lloyd's algorithm, as in any textbook.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


class Nearest:
    """Maps a row to its nearest centre, with its place and a count of one."""

    def __init__(self, centres: Points, columns: Sequence[str]) -> None:
        self.centres = centres
        self.columns = columns

    def __call__(self, batch: Any) -> dict[str, Any]:
        """All rows of a batch at once: a sum and a count for each centre."""
        places = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in self.columns])
        distances = ((places[:, None, :] - self.centres[None, :, :]) ** 2).sum(axis=2)
        chosen = distances.argmin(axis=1)
        used = np.unique(chosen)
        sums = [[*places[chosen == centre].sum(axis=0), np.sum(chosen == centre)] for centre in used]
        return {"key": used, "value": sums}


def added(_centre: int, parts: list[list[float]]) -> list[float]:
    """Sums and counts of several parts as one."""
    return [float(number) for number in np.sum(parts, axis=0)]


def middle(centre: int, parts: list[list[float]]) -> list[float]:
    """The mean of a centre's points."""
    *sums, count = added(centre, parts)
    return [number / count for number in sums]


def k_means(federation: Any, table: str, columns: Sequence[str], start: Points, rounds: int = 20) -> Points:
    """The centres after some rounds, or as soon as they stay; a centre without points stays where it is."""
    centres = np.array(start, dtype=np.float64)
    for _ in range(rounds):
        moved = federation.map_reduce(
            table, map_batches=Nearest(centres, columns), local_reduce=added, reduce=middle, columns=columns
        )
        before = centres.copy()
        for centre, place in moved.pairs.items():
            centres[centre] = place
        if np.array_equal(before, centres):
            break
    return centres


def main() -> None:
    from catchment.spark.cloud import federation

    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("table")
    asked.add_argument("columns", nargs="+")
    asked.add_argument("--k", type=int, default=3)
    given = asked.parse_args()
    with federation() as clouds:
        listed = ", ".join(given.columns)
        first = clouds.sql(f"SELECT DISTINCT {listed} FROM {given.table} ORDER BY {listed} LIMIT {given.k}")
        start = np.column_stack([first.column(name).to_numpy() for name in given.columns])
        print(k_means(clouds, given.table, given.columns, start))


if __name__ == "__main__":
    main()
