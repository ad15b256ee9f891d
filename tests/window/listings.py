"""The thesis's windowed Count-Min listings, word for word and slow: every cell touched at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class SubCell:
    counter: Fraction
    init: int
    last: int


@dataclass
class Entry:
    queue: list[SubCell] = field(default_factory=list)
    v: Fraction = Fraction(0)


class SplitterListing:
    """Listings 3.7 and 3.8 in exact fractions, an entry for each column of one row.

    Time-based (section 3.2.6): `tick` phases out at every tick, `sample` counts an item. The length of bottom in
    ERROR is last - init + 1, which the print of Listing 3.8 garbles. Several items may fall on one tick, so more
    than one sub-cell can have been active M ticks ago, and a predecessor can have begun at the tick of bottom.
    """

    def __init__(self, columns: int, window: int, gamma: Fraction, beta: Fraction) -> None:
        self.entries = [Entry() for _ in range(columns)]
        self.window, self.gamma, self.beta = window, gamma, beta

    def tick(self, m: int) -> None:
        for entry in self.entries:
            for head in list(entry.queue):
                if head.init == m - self.window:
                    rate = head.counter / (head.last - head.init + 1)
                    entry.v -= rate
                    head.counter -= rate
                    head.init += 1
                    if head.init > head.last:
                        entry.queue.remove(head)

    def sample(self, m: int, column: int, weight: int, usual: int) -> None:
        """Count an item at step m, in a window that usually weighs so much: the listing's M."""
        entry = self.entries[column]
        entry.v += weight
        bottom = entry.queue[-1] if entry.queue else None
        pred = entry.queue[-2] if len(entry.queue) > 1 else None
        if bottom is None:
            entry.queue.append(SubCell(Fraction(weight), m, m))
        elif bottom.counter < self.gamma * usual / len(self.entries):
            bottom.counter += weight
            bottom.last = m
        elif pred is not None and self.error(pred, bottom) <= self.beta:
            pred.counter += bottom.counter
            pred.last = bottom.last
            entry.queue[-1] = SubCell(Fraction(weight), m, m)
        else:
            entry.queue.append(SubCell(Fraction(weight), m, m))

    @staticmethod
    def error(pred: SubCell, bottom: SubCell) -> Fraction:
        freq_pred = pred.counter / max(bottom.init - pred.init, 1)
        freq_bottom = bottom.counter / (bottom.last - bottom.init + 1)
        return max(freq_bottom / freq_pred, freq_pred / freq_bottom)


class ProportionalListing:
    """Listing 3.5 in exact fractions: one row, items at steps 0, 1, 2, ..."""

    def __init__(self, columns: int, window: int) -> None:
        self.f = [Fraction(0)] * columns
        self.s = [Fraction(0)] * columns
        self.window, self.m = window, 0

    def update(self, column: int) -> None:
        if self.m == 0:
            self.s = [value / self.window for value in self.f]
        for place in range(len(self.f)):
            if place == column:
                self.f[place] += 1
            self.f[place] -= self.s[place]
        self.m = (self.m + 1) % self.window
