"""GradedBuffers: candidates that wait to be warned of, by how large their share is.

The shares from phi to 1 are cut into g = floor(log2 s) + 1 grades: grade k < g holds shares above
phi + (1 - phi)/2^k, grade g those down to phi. Of grade k there can be at most n_k = floor(1/its lower end), and
its buffer is full with ceil(rho n_k) of them: the heavier an item, the sooner it is sent. A buffer that does not fill
is ripe when its oldest item has waited for the watch's timer (section 4.3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from catchment.monitor.heavy_hitters.watch import HeavyHitters

__all__ = ["GradedBuffers"]


class GradedBuffers:
    """What waits, by grade.

    >>> buffers = GradedBuffers(HeavyHitters(phi=0.04, rho=0.5), sites=8)
    >>> buffers.sizes
    (1, 2, 3, 13)
    >>> buffers.grade(0.9), buffers.grade(0.05)
    (1, 4)
    >>> buffers.hold({7: 0.05}, position=100)
    >>> buffers.ripe(101), buffers.ripe(101 + 96)
    (False, True)
    """

    def __init__(self, watch: HeavyHitters, sites: int) -> None:
        grades = int(math.log2(sites)) + 1
        self._floors = [watch.phi + (1 - watch.phi) / 2**k for k in range(1, grades)]
        self._timer = watch.timer
        lows = [*self._floors, watch.phi]
        self.sizes = tuple(max(1, math.ceil(watch.rho * math.floor(1 / low + 1e-9) - 1e-9)) for low in lows)
        self.clear()

    def clear(self) -> None:
        """Everything was sent."""
        self._since: dict[int, int] = {}
        self._filled = [0] * len(self.sizes)

    def grade(self, share: float) -> int:
        """1 for the largest shares, to the number of buffers for the smallest."""
        for place, floor in enumerate(self._floors):
            if share > floor:
                return place + 1
        return len(self.sizes)

    def hold(self, shares: Mapping[int, float], position: int) -> None:
        """These, with the shares that they have now, and no others wait; who waited before waits on."""
        self._since = {item: self._since.get(item, position) for item in shares}
        self._filled = [0] * len(self.sizes)
        for share in shares.values():
            self._filled[self.grade(share) - 1] += 1

    def __len__(self) -> int:
        return len(self._since)

    def ripe(self, position: int) -> bool:
        """Whether some buffer is full, or something has waited for longer than the timer."""
        full = any(filled >= size for filled, size in zip(self._filled, self.sizes, strict=True))
        return full or (bool(self._since) and position - min(self._since.values()) > self._timer)
