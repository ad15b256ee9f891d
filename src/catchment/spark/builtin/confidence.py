"""From delta to the number of standard deviations that the DataSketches library knows."""

from __future__ import annotations

import math

from catchment.answer import Answer
from catchment.errors import DamagedBytesError, ParameterError
from catchment.sketch.checks import check_fraction

__all__ = ["plausible", "standard_deviations"]

_MOST = 3


def standard_deviations(delta: float) -> int:
    """The fewest of 1, 2, 3 standard deviations whose interval is left with probability at most delta.

    The library calls an interval by its standard deviations and means the Gaussian ones: outside with probability
    0.3173, 0.0455 and 0.0027, both sides together. They are not proved: for HLL they are quantiles measured by its
    authors (lgConfigK up to 12) or a Gaussian approximation (above), for Theta an approximation of the binomial
    distribution that they found to be on the safe side. Rounding up to a whole number of deviations leaves a margin.

    >>> standard_deviations(0.05), standard_deviations(0.01), standard_deviations(0.32)
    (2, 3, 1)
    """
    delta = check_fraction("delta", delta)
    for deviations in range(1, _MOST + 1):
        if math.erfc(deviations / math.sqrt(2)) <= delta:
            return deviations
    raise ParameterError(
        f"delta={delta!r}", "the library knows bounds of up to 3 standard deviations: give 0.0027 or more"
    )


def plausible(answer: Answer) -> Answer:
    """The answer, refused where it contradicts itself: sketches without a checksum show their damage there."""
    if not 0 <= answer.low <= answer.value <= answer.high < math.inf:
        raise DamagedBytesError(f"a sketch that gives {answer}")
    return answer
