"""Tally: a site's Count-Min as this protocol needs it: upper bounds, and one number for how much too high they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.count_min import add_ones, look_up_smallest
from catchment.kernel.hashing import column_draws
from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.sketch.bounds import empirical_slack
from catchment.sketch.checks import MASS_LIMIT
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.keys import KeyBatch

__all__ = ["Tally"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class Tally:
    """Counters in rows; unlike `CountMin` it can take a part away again, for windows.

    A count is never below the truth. It is above it by more than `slack(sites)` with probability at most
    delta/(2 sites), by Ting's argument (see `CountMin`), so that all sites' slacks hold together but for delta/2.
    """

    def __init__(self, watch: HeavyHitters, site: str) -> None:
        self.rows = column_draws(watch.seed_of(site), watch.depth)
        self.cells: I64 = np.zeros((watch.depth, watch.width), dtype=np.int64)
        self._delta = watch.delta / 2

    def add(self, batch: KeyBatch) -> None:
        for block in batch.blocks():
            add_ones(self.cells, self.rows, block.hashes())

    def counts(self, hashes: U64) -> I64:
        out = np.empty(hashes.size, dtype=np.int64)
        look_up_smallest(self.cells, self.rows, hashes, out)
        return out

    def slack(self, sites: int) -> int:
        return empirical_slack(self.cells, self._delta / sites)

    def write(self, writer: Writer) -> None:
        writer.integers(self.cells)

    def read(self, reader: Reader) -> None:
        self.cells = reader.integers(self.cells.size, np.int64, low=0, high=MASS_LIMIT - 1).reshape(self.cells.shape)
