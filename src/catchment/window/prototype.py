"""Prototype: how to build an empty sketch of one kind, again and again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catchment.errors import DamagedBytesError, ParameterError, UnknownFormatError
from catchment.sketch.base import Sketch
from catchment.sketch.codec import Reader
from catchment.window.base import WindowSketch

__all__ = ["Prototype"]


@dataclass(frozen=True, slots=True)
class Prototype:
    """A kind of sketch and its parameters: no state, so there is nothing that two owners could share.

    >>> from catchment.sketch import BottomK
    >>> Prototype.of(BottomK.sized(size=10, delta=0.1)).new(certainty=2)
    BottomK.sized(size=10, delta=0.05, seed=0, by='item')
    """

    kind: type[Sketch]
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, sketch: Sketch) -> Prototype:
        """What an empty sketch is built by; one that has seen events is refused."""
        if not isinstance(sketch, Sketch) or isinstance(sketch, WindowSketch):
            raise ParameterError(
                f"a prototype of type {type(sketch).__name__}", "give an empty sketch of whole histories"
            )
        prototype = cls(type(sketch), sketch.parameters)
        if sketch != prototype.new():
            raise ParameterError("a prototype with events in it", "give an empty one: its events have no times")
        return prototype

    def new(self, *, certainty: int = 1) -> Sketch:
        """An empty sketch, with its delta divided by `certainty` where it has one that can be as small as that."""
        if certainty > 1 and "delta" in self.parameters:
            try:
                return self.kind.sized(**{**self.parameters, "delta": self.parameters["delta"] / certainty})
            except ParameterError:
                pass
        return self.kind.sized(**self.parameters)

    def blank(self) -> Sketch:
        """A sketch with its parameters and no state at all: it takes no memory and answers nothing."""
        sketch = self.kind.__new__(self.kind)
        sketch._configure(**self.parameters)
        return sketch

    def arrays(self) -> dict[str, bool]:
        """The names that `update` takes besides the keys, and whether it cannot do without."""
        found = list(inspect.signature(self.kind.update).parameters.values())[2:]  # after self and the keys
        return {each.name: each.default is inspect.Parameter.empty for each in found}

    # -- bytes ------------------------------------------------------------------------------------------------

    def pack(self) -> bytes:
        return bytes([self.kind.family]) + self.blank()._pack_parameters()

    @classmethod
    def unpack(cls, reader: Reader) -> Prototype:
        """What `pack` wrote, up to the end; nothing is allocated yet."""
        (family,) = reader.numbers("B")
        kind = Sketch._families.get(family)
        if kind is None:
            raise UnknownFormatError(f"a prototype of unknown family {family}", "upgrade catchment")
        if issubclass(kind, WindowSketch):
            raise DamagedBytesError(f"a {kind.__name__} as prototype")
        prototype = cls(kind, kind._unpack_parameters(reader))
        try:
            prototype.blank()
        except ParameterError as problem:
            raise DamagedBytesError(f"a prototype with impossible parameter {problem.problem}") from None
        return prototype

    def read(self, reader: Reader) -> Sketch:
        return self.kind._from_payload(self.parameters, reader)
