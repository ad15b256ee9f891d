"""Kind: which sketches the functions of one prefix read; anything else is refused by its name."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.errors import UnknownFormatError
from catchment.sketch import (
    BloomFilter,
    BottomK,
    CountMin,
    FastAMS,
    FMSketch,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
)
from catchment.window import (
    DyadicECM,
    ECMSketch,
    ExponentialHistogram,
    Panes,
    PerfectCountMin,
    ProportionalCountMin,
    RandomizedWave,
    SimpleCountMin,
    SplitterCountMin,
    Wave,
    WindowSketch,
)

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """The sketches behind a prefix: some classes, and panes of them where they know no time themselves."""

    prefix: str
    classes: tuple[type[Sketch], ...]

    @property
    def in_time(self) -> bool:
        """Whether the classes themselves have a window; otherwise panes of them do."""
        return issubclass(self.classes[0], WindowSketch)

    def holds(self, sketch: Sketch) -> bool:
        if isinstance(sketch, Panes):
            return not self.in_time and isinstance(sketch.prototype, self.classes)
        return isinstance(sketch, self.classes)

    @property
    def named(self) -> str:
        """The classes as people read them."""
        names = " or ".join(kind.__name__ for kind in self.classes)
        return names if self.in_time else f"{names}, or Panes of it"

    def check(self, sketch: Sketch) -> Sketch:
        """The sketch, if the functions of this prefix are about it.

        >>> KINDS["ecm"].check(CountMin())
        Traceback (most recent call last):
        catchment.errors.UnknownFormatError: ecm functions were given a CountMin: give ECMSketch, or use the count_min
        functions
        """
        if self.holds(sketch):
            return sketch
        name = type(sketch).__name__
        if isinstance(sketch, Panes):
            name += f" of {type(sketch.prototype).__name__}"
        cure = f"give {self.named}"
        fitting = [kind.prefix for kind in KINDS.values() if kind.holds(sketch)]
        if fitting:
            cure += f", or use the {fitting[0]} functions"
        raise UnknownFormatError(f"{self.prefix} functions were given a {name}", cure)

    def read(self, blob: bytes) -> Sketch:
        """The sketch of these bytes, checked."""
        return self.check(Sketch.from_bytes(blob))


KINDS = {
    kind.prefix: kind
    for kind in (
        Kind("ecm", (ECMSketch,)),
        Kind("dyadic", (DyadicECM,)),
        Kind("windowed_count_min", (PerfectCountMin, SimpleCountMin, ProportionalCountMin, SplitterCountMin)),
        Kind("counter", (Wave, ExponentialHistogram, RandomizedWave)),
        Kind("count_min", (CountMin,)),
        Kind("fast_ams", (FastAMS,)),
        Kind("top_k", (SpaceSaving,)),
        Kind("distinct", (UltraLogLog, BottomK, FMSketch)),
        Kind("bloom", (BloomFilter,)),
        Kind("value", (ValueEstimator,)),
        Kind("tug_of_war", (TugOfWar,)),
    )
}
