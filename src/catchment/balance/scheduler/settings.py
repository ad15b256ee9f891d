"""What the scheduler and all instances must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.balance.scheduler.cells import cells_of
from catchment.errors import DamagedBytesError, ParameterError
from catchment.sketch.checks import check_choice, check_fraction, check_whole
from catchment.sketch.codec import Reader, Writer
from catchment.sketch.value_estimator import ValueEstimator

__all__ = ["MEASURES", "STABILITIES", "WINDOWS", "SchedulerSettings"]

WINDOWS = ("jumping", "sliding")
MEASURES = ("work", "backlog")
STABILITIES = ("cells", "tuples")

_LAYOUT = "IdddQBIBBI"


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The parameters of OSG. The defaults are ours; `SchedulerSettings.thesis()` has the thesis's.

    Ours differ in three things, each of which the experiment `osg` measures: an instance that was idle is not owed the
    work that it missed, rarely hit cells do not hold back what is known of the others, and loads are put right more
    often than costs are learnt anew.

    Parameters
    ----------
    window
        After so many tuples an instance looks whether what it has learnt is stable.
    tolerance
        Stable is a relative change of mean costs of at most this (Equation 7.1).
    epsilon, delta, seed
        The size of the matrices and their hash functions, as in `ValueEstimator`.
    windows
        "jumping": what was sent is forgotten and learnt anew. "sliding": the last `span` windows count, always.
    span
        How many windows a sliding one covers.
    measure
        What makes an instance loaded. "work" is the thesis's: all execution time that was ever assigned to it.
        "backlog" is when it will be done with it. That needs the moment of each tuple, and nothing else; it also
        survives an instance that lost its memory, to which "work" would send everything.
    stability
        Whether each cell counts once ("cells", Equation 7.1) or each tuple in it ("tuples").
    resync
        Loads are put right by marks and replies whenever matrices come, and after so many tuples in RUN; 0: not then.
    """

    window: int = 1024
    tolerance: float = 0.05
    epsilon: float = 0.05
    delta: float = 0.1
    seed: int = 0
    windows: str = "jumping"
    span: int = 4
    measure: str = "backlog"
    stability: str = "tuples"
    resync: int = 200

    @classmethod
    def thesis(cls, **changes: Any) -> SchedulerSettings:
        """As the thesis has it: cumulated work, Equation 7.1 over cells, marks only when matrices come.

        >>> SchedulerSettings.thesis(seed=3).measure
        'work'
        """
        return cls(**{"measure": "work", "stability": "cells", "resync": 0, **changes})

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1, 2**31)
        check_fraction("tolerance", self.tolerance)
        check_choice("windows", self.windows, WINDOWS)
        check_choice("measure", self.measure, MEASURES)
        check_choice("stability", self.stability, STABILITIES)
        check_whole("resync", self.resync, 0, 2**31)
        check_whole("span", self.span, 1, 64)
        check_whole("seed", self.seed, 0, 2**64 - 1)
        if self.width * self.depth > 1 << 20:
            raise ParameterError(
                f"epsilon={self.epsilon!r}, delta={self.delta!r}", "give larger ones: 2^20 cells are most"
            )

    @property
    def width(self) -> int:
        return int(ValueEstimator.suggest(self.epsilon, self.delta)["width"])

    @property
    def depth(self) -> int:
        return int(ValueEstimator.suggest(self.epsilon, self.delta)["depth"])

    def blank(self) -> ValueEstimator:
        """The empty pair of matrices that these settings give."""
        return ValueEstimator(self.epsilon, self.delta, seed=self.seed)

    def cells(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The cell of each key in each row, numbered through."""
        return cells_of(hashes, width=self.width, depth=self.depth, seed=self.seed)

    def write(self, writer: Writer) -> None:
        writer.numbers(
            _LAYOUT, self.window, self.tolerance, self.epsilon, self.delta, self.seed, WINDOWS.index(self.windows),
            self.span, MEASURES.index(self.measure), STABILITIES.index(self.stability), self.resync,
        )  # fmt: skip

    @classmethod
    def read(cls, reader: Reader) -> SchedulerSettings:
        window, tolerance, epsilon, delta, seed, windows, span, measure, stability, resync = reader.numbers(_LAYOUT)
        if windows >= len(WINDOWS) or measure >= len(MEASURES) or stability >= len(STABILITIES):
            raise DamagedBytesError(f"windows number {windows}, measure number {measure}, stability {stability}")
        names = {"windows": WINDOWS[windows], "measure": MEASURES[measure], "stability": STABILITIES[stability]}
        try:
            return cls(window, tolerance, epsilon, delta, seed, span=span, resync=resync, **names)
        except ParameterError as problem:
            raise DamagedBytesError(f"impossible parameter {problem.problem}") from None
