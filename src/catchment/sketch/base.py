"""Sketch: what every summary promises, and the parts of it that need writing only once.

A subclass gives `suggest` (error to size), `_configure` (take sizes, check them, allocate nothing), `_clear` (an
empty state), `update`, its questions, `_absorb` (merge), `_write` and `_read`. Everything else is here: the two
ways to build one, merging with refusals, bytes, equality, memory.
"""

from __future__ import annotations

import copy
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from catchment.errors import DamagedBytesError, MergeError, ParameterError, UnknownFormatError
from catchment.sketch.codec import Reader, Writer, open_envelope, seal_envelope
from catchment.sketch.keys import KeyBatch, as_keys

__all__ = ["KEYED_TRUTHS", "Sketch"]

KEYED_TRUTHS = frozenset({"frequency", "mean_value"})
"""The truths of `measures` that are asked key by key; the others are one number."""


class Sketch(ABC):
    """A small, mergeable answer."""

    family: ClassVar[int]
    """The number of this kind of sketch in its bytes; never reused. 192 to 255 are left to users' own."""

    linear: bool
    """True when parts merged are the whole, byte for byte; otherwise they only share the guarantee."""

    inputs: ClassVar[tuple[str, ...]] = ("keys",)
    """The arrays that `update` needs, by name."""

    names_keys: bool = False
    """True when `update` needs the keys themselves; for the others their hashes are enough."""

    merge_adds_error: bool = False
    """True when a merge of parts promises less than the sketch of the whole would."""

    example: ClassVar[Mapping[str, Any]] = {}
    """What the constructor needs to be told before it can build one with defaults."""

    measures: Mapping[str, str]
    """Each question, by method name, and the truth it estimates, by its name in `catchment.testing.exact`."""

    _layout: ClassVar[Mapping[str, str | tuple[str, ...]]]
    """The parameters as they stand in bytes: a struct code each, or the names that a byte chooses from."""

    _families: ClassVar[dict[int, type[Sketch]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "family" in vars(cls):
            other = Sketch._families.setdefault(cls.family, cls)
            if other.__qualname__ != cls.__qualname__:
                raise TypeError(f"{cls.__name__} and {other.__name__} both claim family {cls.family}")

    # -- building ---------------------------------------------------------------------------------------------

    @classmethod
    def sized(cls, **parameters: Any) -> Self:
        """Build from sizes instead of from an error: the names are those of `parameters`, as `suggest` gives them."""
        unknown = sorted(parameters.keys() - cls._layout.keys())
        if unknown:
            raise ParameterError(f"no parameter {unknown[0]} in {cls.__name__}", f"there are {', '.join(cls._layout)}")
        sketch = cls.__new__(cls)
        sketch._configure(**parameters)
        sketch._clear()
        return sketch

    @classmethod
    @abstractmethod
    def suggest(cls, epsilon: float, delta: float) -> dict[str, Any]:
        """The smallest sizes that promise error `epsilon` with failure probability `delta`, ready for `sized`."""

    @abstractmethod
    def _configure(self, *args: Any, **parameters: Any) -> None:
        """Check and take the parameters; raise `ParameterError`; allocate nothing that grows with them."""

    @abstractmethod
    def _clear(self) -> None:
        """Allocate the empty state."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What `sized` needs to build an empty twin: two sketches merge when these are equal."""
        return {name: getattr(self, name) for name in self._layout}

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The error that this size promises, in the unit that the class documents."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The promise in one sentence, with this sketch's numbers."""

    @property
    def only_grows(self) -> bool:
        """Whether no event took anything back: then no truth is smaller over more of the events."""
        return True

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take events in: the arrays that `inputs` names, all or nothing."""

    def read_keys(self, keys: Any) -> KeyBatch:
        """The keys of a batch, checked and in the form in which `update` takes them without a second look."""
        return as_keys(keys)

    # -- merging ----------------------------------------------------------------------------------------------

    @classmethod
    def merge(cls, sketches: Iterable[Self]) -> Self:
        """One sketch of all their events; the parts stay as they were.

        Raises `MergeError` naming the first parameter in which they differ, and `WeightError` when their totals
        together are more than a counter holds.
        """
        parts = list(sketches)
        if not parts:
            raise MergeError("nothing to merge", "give at least one sketch")
        for part in parts:
            if not isinstance(part, cls):
                raise MergeError(f"a {type(part).__name__} among the parts", f"give objects of {cls.__name__}")
        for part in parts:
            cls._check_fit(parts[0], part)
        merged = parts[0].copy()
        merged._absorb(parts[1:])
        return merged

    @staticmethod
    def _check_fit(first: Sketch, other: Sketch) -> None:
        if type(first) is not type(other):
            names = f"{type(first).__name__} with {type(other).__name__}"
            raise MergeError(f"merging {names}", "merge sketches of one kind")
        theirs = other.parameters
        for name, value in first.parameters.items():
            if value != theirs[name]:
                raise MergeError(f"{name} differs: {value!r} and {theirs[name]!r}", f"build all parts with one {name}")

    @abstractmethod
    def _absorb(self, others: list[Self]) -> None:
        """Take in the events of sketches that fit; all at once, where the order would matter."""

    def copy(self) -> Self:
        """An independent twin."""
        return copy.deepcopy(self)

    # -- bytes ------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The sketch as bytes: same events, seed and parameters, same bytes, whatever the batching."""
        writer = Writer()
        self._write(writer)
        return seal_envelope(self.family, self._pack_parameters(), writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> Self:
        """The sketch that gave these bytes; on `Sketch` itself, a sketch of any kind.

        Raises a `BytesError`, and nothing else, for any bytes that are not one whole sketch.
        """
        family, parameters, payload = open_envelope(blob)
        kind = Sketch._families.get(family)
        if kind is None:
            raise UnknownFormatError(f"unknown family {family}", "upgrade catchment to the version that wrote this")
        if not issubclass(kind, cls):
            raise UnknownFormatError(f"these are the bytes of a {kind.__name__}", f"read them with {kind.__name__}")
        sketch = kind._from_payload(kind._unpack_parameters(parameters), payload)
        payload.finish()
        return sketch

    @classmethod
    def _from_payload(cls, parameters: Mapping[str, Any], payload: Reader) -> Self:
        sketch = cls.__new__(cls)
        try:
            sketch._configure(**parameters)
        except ParameterError as problem:
            raise DamagedBytesError(f"impossible parameter {problem.problem}") from None
        sketch._read(payload)
        return sketch

    def _pack_parameters(self) -> bytes:
        values = self.parameters
        return b"".join(
            struct.pack("<" + code, values[name]) if isinstance(code, str) else bytes([code.index(values[name])])
            for name, code in self._layout.items()
        )

    @classmethod
    def _unpack_parameters(cls, reader: Reader) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, code in cls._layout.items():
            (value,) = reader.numbers(code if isinstance(code, str) else "B")
            if not isinstance(code, str):
                if value >= len(code):
                    raise DamagedBytesError(f"{name} number {value}", f"there are {len(code)}: {', '.join(code)}")
                value = code[value]
            values[name] = value
        reader.finish()
        return values

    @abstractmethod
    def _write(self, writer: Writer) -> None: ...

    @abstractmethod
    def _read(self, reader: Reader) -> None: ...

    # -- plain Python manners ---------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The memory of the state, exactly: the bytes of every array it holds."""
        return sum(value.nbytes for value in vars(self).values() if hasattr(value, "nbytes"))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Sketch) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # a sketch changes

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}.sized({values})"
