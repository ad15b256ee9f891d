"""Messages are protobuf's bytes, canonical, and whatever else comes is refused by type."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import BytesError, DamagedBytesError, ParameterError, UnknownFormatError
from catchment.monitor.messages import Flush, Order, Report
from catchment.monitor.wire import BYTES, DOUBLE, DOUBLES, SINT, TEXT, UINT, Message, read_frame, write_frame

NUMBERS = st.integers(0, 2**64 - 1)
SIGNED = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)


def _values(form: Any) -> st.SearchStrategy[Any]:
    if not isinstance(form, str):
        return st.none() | messages(form)
    return {
        UINT: NUMBERS, SINT: SIGNED, DOUBLE: FLOATS, BYTES: st.binary(max_size=40), TEXT: st.text(max_size=20),
        DOUBLES: st.lists(FLOATS, max_size=5).map(tuple),
    }[form]  # fmt: skip


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    return st.builds(
        kind, **{field.name: _values(field.metadata["form"]) for field in dataclasses.fields(kind)}
    )


@given(messages(Report) | messages(Order))
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    frame = write_frame(message)
    assert read_frame(frame) == message
    assert write_frame(read_frame(frame)) == frame


@given(messages(Report) | messages(Order), st.data())
def test_an_altered_frame_is_refused_or_is_another_message(message: Message, data: st.DataObject) -> None:
    frame = bytearray(write_frame(message))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = read_frame(bytes(frame))
    except BytesError:
        return
    assert write_frame(found) == frame


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_are_one_message(frame: bytes) -> None:
    try:
        found = read_frame(frame)
    except BytesError:
        return
    assert write_frame(found) == frame


@given(messages(Report), st.data())
def test_a_frame_cut_short_is_refused(message: Message, data: st.DataObject) -> None:
    frame = write_frame(message)
    with pytest.raises(BytesError):
        read_frame(frame[: data.draw(st.integers(0, len(frame) - 1))])


def test_defaults_cost_nothing() -> None:
    assert write_frame(Report()) == b"\x0a\x00"
    assert len(write_frame(Report(query=1, epoch=1, round=3, step=2, incarnation=1, seq=9, acked=4, position=10**6))) == 20


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"", "0 messages"),
        (b"\x0a\x00\x0a\x00", "2 messages"),
        (b"\xfa\x06\x00", "kind 111"),
        (b"\x0a\x02\x08\x00", "though it has its default"),
        (b"\x0a\x03\x08\x81\x00", "fewest bytes"),
        (b"\x0a\x04\x10\x01\x08\x01", "field 1 after field 2"),
        (b"\x0a\x03\xa0\x06\x01", "field 100"),
        (b"\x0a\x02\x0a\x00", "wire type 2"),
        (b"\x0a\x02\x5a\x01", "are needed"),
        (b"\x0a\x03\x5a\x01\x00", "bytes of doubles"),
        (b"\x0a\x01\x0b", "wire type 3"),
    ],
)
def test_what_protobuf_would_let_pass_is_refused_too(frame: bytes, problem: str) -> None:
    with pytest.raises(BytesError, match=problem):
        read_frame(frame)


@pytest.mark.parametrize(
    "wrong",
    [{"query": -1}, {"query": 2**64}, {"query": 1.0}, {"query": True}, {"time": 2**63}, {"statistic": [1.0]},
     {"statistic": (1,)}, {"flush": Order()}],
)  # fmt: skip
def test_a_message_of_wrong_values_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Report(**wrong)


def test_a_double_keeps_its_last_bit_and_its_sign() -> None:
    for value in (-0.0, 0.1, math.inf, -math.inf, 5e-324):
        found = read_frame(write_frame(Order(quantum=value)))
        assert isinstance(found, Order)
        assert math.copysign(1, found.quantum) == math.copysign(1, value)
        assert found.quantum == value


def test_a_part_is_checked_as_well() -> None:
    inner = Flush(behind=3).to_bytes() + b"\x20\x00"
    body = b"\x62" + bytes([len(inner)]) + inner
    with pytest.raises(DamagedBytesError, match="default"):
        Report.from_bytes(body)
    with pytest.raises(UnknownFormatError):
        Flush.from_bytes(b"\x78\x01")
