"""The bytes of a message: protobuf's wire format, written by hand, so that the core needs no library for it.

A message is a frozen dataclass whose fields carry a number and a form (`wire`). Bytes are canonical: fields in the
order of their numbers, numbers in the fewest bytes, defaults left out. So one message has one encoding, and what is
read either is written again in the same bytes or is refused. `net/catchment.proto` describes the same bytes to others;
a test holds the two equal.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from catchment.errors import DamagedBytesError, ParameterError, UnknownFormatError

__all__ = [
    "BYTES", "DOUBLE", "DOUBLES", "LARGEST_FRAME", "SINT", "SINTS", "TEXT", "UINT", "UINTS",
    "Message", "part", "read_frame", "wire", "write_frame",
]  # fmt: skip

UINT, SINT, DOUBLE, BYTES, TEXT, UINTS, SINTS, DOUBLES = (
    "uint64", "sint64", "double", "bytes", "string", "repeated uint64", "repeated sint64", "repeated double",
)  # fmt: skip
LARGEST_FRAME = 64 << 20

_VARINT, _FIXED64, _SIZED = 0, 1, 2
_WIRE_TYPES = {UINT: _VARINT, SINT: _VARINT, DOUBLE: _FIXED64}
_DEFAULTS: dict[str, Any] = {
    UINT: 0, SINT: 0, DOUBLE: 0.0, BYTES: b"", TEXT: "", UINTS: (), SINTS: (), DOUBLES: (),
}  # fmt: skip


def wire(number: int, form: str, doc: str = "") -> Any:
    """A field of a message: its number in the bytes and its form; its default is protobuf's.

    `doc` is what `net/catchment.proto` says about it; a text below the field does as well.
    """
    return dataclasses.field(default=_DEFAULTS[form], metadata={"number": number, "form": form, "doc": doc})


def part(number: int, kind: type[Message], doc: str = "") -> Any:
    """A field that is a message itself, or None."""
    return dataclasses.field(default=None, metadata={"number": number, "form": kind, "doc": doc})


@dataclass(frozen=True, slots=True)
class Message:
    """What machines say to each other; a subclass with a `kind` can be a frame."""

    kind: ClassVar[int] = 0
    _kinds: ClassVar[dict[int, type[Message]]] = {}

    def __init_subclass__(cls) -> None:
        # dataclass(slots=True) makes the class twice: the second one is the one that stays.
        if "kind" in vars(cls):
            other = Message._kinds.get(cls.kind)
            if other is not None and other.__qualname__ != cls.__qualname__:
                raise TypeError(f"{cls.__name__} and {other.__name__} both claim kind {cls.kind}")
            Message._kinds[cls.kind] = cls

    def __post_init__(self) -> None:
        for slot in _slots(type(self)).values():
            value = getattr(self, slot.name)
            if value is not slot.default:  # most fields of most messages are left out
                _check(type(self).__name__, slot, value)

    def to_bytes(self) -> bytes:
        out = bytearray()
        for slot in _slots(type(self)).values():
            value = getattr(self, slot.name)
            if value is not slot.default:
                _write_field(out, slot.number, slot.form, value)
        return bytes(out)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Read it; raise a `BytesError`, and nothing else, for any bytes that `to_bytes` does not write."""
        slots = _slots(cls)
        values: dict[str, Any] = {}
        last = 0
        for number, kind, content in _fields(memoryview(data)):
            slot = slots.get(number)
            if slot is None:
                raise UnknownFormatError(f"field {number} in {cls.__name__}", "upgrade catchment to what wrote this")
            if number <= last:
                raise DamagedBytesError(f"field {number} after field {last} in {cls.__name__}")
            last = number
            if kind != _WIRE_TYPES.get(slot.form, _SIZED):
                raise DamagedBytesError(f"{slot.name} of {cls.__name__} in wire type {kind}")
            value = _read_field(slot.form, content)
            if value == slot.default and str(value) == str(slot.default):
                raise DamagedBytesError(f"{slot.name} of {cls.__name__} is written though it has its default")
            values[slot.name] = value
        try:
            return cls(**values)
        except ParameterError as problem:
            raise DamagedBytesError(problem.problem) from None


def write_frame(message: Message) -> bytes:
    """A message with its kind around it: protobuf's `oneof` of all kinds."""
    out = bytearray()
    _write_field(out, message.kind, BYTES, message.to_bytes(), always=True)
    return bytes(out)


def read_frame(frame: bytes) -> Message:
    """The message in a frame; raise a `BytesError`, and nothing else, if there is none."""
    if len(frame) > LARGEST_FRAME:
        raise DamagedBytesError(f"a frame of {len(frame)} bytes, {LARGEST_FRAME} are the most")
    found = list(_fields(memoryview(frame)))
    if len(found) != 1 or found[0][1] != _SIZED:
        raise DamagedBytesError(f"{len(found)} messages in one frame")
    kind, _, content = found[0]
    known = Message._kinds.get(kind)
    if known is None:
        raise UnknownFormatError(f"a message of kind {kind}", "upgrade catchment to what wrote this")
    return known.from_bytes(content)


class _Slot(NamedTuple):
    """A field as the bytes know it."""

    name: str
    number: int
    form: Any
    default: Any


def _slots(kind: type[Message]) -> dict[int, _Slot]:
    """The fields by their numbers, in the order of these."""
    found = _SLOTS.get(kind)
    if found is None:
        slots = [
            _Slot(field.name, field.metadata["number"], field.metadata["form"], field.default)
            for field in dataclasses.fields(kind)
        ]
        found = {slot.number: slot for slot in sorted(slots, key=lambda slot: slot.number)}
        _SLOTS[kind] = found
    return found


_SLOTS: dict[type[Message], dict[int, _Slot]] = {}


# -- values ---------------------------------------------------------------------------------------------------


def _check(name: str, slot: _Slot, value: Any) -> None:
    form = slot.form
    if not isinstance(form, str):
        fits = value is None or type(value) is form
    elif form == UINT:
        fits = type(value) is int and 0 <= value < 2**64
    elif form == SINT:
        fits = type(value) is int and -(2**63) <= value < 2**63
    elif form == DOUBLE:
        fits = type(value) is float
    elif form in (BYTES, TEXT):
        fits = type(value) is (bytes if form == BYTES else str)
    elif form == UINTS:
        fits = type(value) is tuple and all(type(one) is int and 0 <= one < 2**64 for one in value)
    elif form == SINTS:
        fits = type(value) is tuple and all(type(one) is int and -(2**63) <= one < 2**63 for one in value)
    else:
        fits = type(value) is tuple and all(type(one) is float for one in value)
    if not fits:
        wanted = form if isinstance(form, str) else form.__name__
        raise ParameterError(f"{slot.name}={value!r:.80} in {name}", f"it must be a {wanted}")


_SMALL = [bytes([value]) for value in range(128)]


def _varint(value: int) -> bytes:
    if 0 <= value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _unzigzag(value: int) -> int:
    return value >> 1 if not value & 1 else -(value + 1 >> 1)


def _write_field(out: bytearray, number: int, form: Any, value: Any, *, always: bool = False) -> None:
    if not isinstance(form, str):
        if value is None:
            return
        content = value.to_bytes()
    elif not always and value == _DEFAULTS[form] and not (form == DOUBLE and str(value) == "-0.0"):
        return
    elif form in (UINT, SINT):
        out += _varint(number << 3 | _VARINT) + _varint(value if form == UINT else _zigzag(value))
        return
    elif form == DOUBLE:
        out += _varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        return
    elif form == BYTES:
        content = value
    elif form == TEXT:
        content = value.encode()
    elif form == DOUBLES:
        content = struct.pack(f"<{len(value)}d", *value)
    else:
        content = b"".join(_varint(one if form == UINTS else _zigzag(one)) for one in value)
    out += _varint(number << 3 | _SIZED) + _varint(len(content)) + content


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    while True:
        if at >= len(data):
            raise DamagedBytesError("a number that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise DamagedBytesError("a number of more than 64 bits")
    if value >= 2**64 or (byte == 0 and shift):
        raise DamagedBytesError("a number that is not written in the fewest bytes")
    return value, at


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, kind, value
            continue
        if kind == _FIXED64:
            size = 8
        elif kind == _SIZED:
            size, at = _read_varint(data, at)
        else:
            raise DamagedBytesError(f"wire type {kind}")
        if size > len(data) - at:
            raise DamagedBytesError(f"{size} bytes are needed where {len(data) - at} are left")
        yield number, kind, data[at : at + size]
        at += size


def _read_field(form: Any, content: Any) -> Any:
    if not isinstance(form, str):
        return form.from_bytes(content)
    if form == UINT:
        return content
    if form == SINT:
        return _unzigzag(content)
    if form == DOUBLE:
        return struct.unpack("<d", content)[0]
    if form == BYTES:
        return bytes(content)
    if form == TEXT:
        try:
            return str(content, "utf-8")
        except UnicodeDecodeError:
            raise DamagedBytesError("a text that is not UTF-8") from None
    if form == DOUBLES:
        if len(content) % 8:
            raise DamagedBytesError(f"{len(content)} bytes of doubles")
        return tuple(np.frombuffer(content, dtype="<f8").tolist())
    values, at = [], 0
    while at < len(content):
        value, at = _read_varint(content, at)
        values.append(value if form == UINTS else _unzigzag(value))
    return tuple(values)
