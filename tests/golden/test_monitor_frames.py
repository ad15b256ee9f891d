"""What crosses the wire is for ever: each golden frame is read, says the same, and is written the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from catchment.errors import BytesError
from catchment.monitor.heavy_hitters.names import Names
from catchment.monitor.packing import pack_cells, pack_updates, unpack_cells, unpack_updates
from catchment.monitor.wire import Message, read_frame, write_frame
from catchment.net.schema import frame_kinds
from tests.golden import store
from tests.golden.frames import CELLS, LEAST, MOST, NAMES, PARTS, UPDATES, fields_of
from tests.golden.peers import PEERS, talk
from tests.golden.states import golden
from tests.golden.watches import CASES

GOLDEN = store.read("frames")
PACKED = store.read("packed")


def _messages() -> dict[str, Message]:
    least = {f"{name}, least": message for name, message in LEAST.items()}
    return least | {f"{name}, most": message for name, message in MOST.items()}


@pytest.mark.parametrize("name", _messages())
def test_a_golden_frame_is_read_and_written_the_same(name: str) -> None:
    frame = bytes.fromhex(GOLDEN["frames"][name]["frame"])
    message = read_frame(frame)
    assert write_frame(message) == frame
    assert fields_of(message) == GOLDEN["frames"][name]["fields"]
    assert message == _messages()[name]


@pytest.mark.parametrize("name", PARTS)
def test_a_golden_part_is_read_and_written_the_same(name: str) -> None:
    blob = bytes.fromhex(GOLDEN["parts"][name]["bytes"])
    message = type(PARTS[name]).from_bytes(blob)
    assert message.to_bytes() == blob
    assert fields_of(message) == GOLDEN["parts"][name]["fields"]
    assert message == PARTS[name]


@pytest.mark.parametrize("name", CASES)
def test_frames_of_golden_runs_are_read_and_written_the_same(name: str) -> None:
    half_way = golden(name)
    for _, _, frame in (*half_way.heard, *half_way.said):
        assert write_frame(read_frame(frame)) == frame


@pytest.mark.parametrize("name", PEERS)
def test_frames_of_golden_peers_are_read_and_written_the_same(name: str) -> None:
    for _, _, frame in talk(name):
        assert write_frame(read_frame(frame)) == frame


def test_every_message_and_every_field_has_a_golden_frame() -> None:
    kinds = frame_kinds()
    assert sorted(type(message).kind for message in MOST.values()) == [kind.kind for kind in kinds]
    assert {name: type(message) for name, message in LEAST.items()} == {
        name: type(message) for name, message in MOST.items()
    }
    assert set(GOLDEN["frames"]) == set(_messages())
    assert set(GOLDEN["parts"]) == set(PARTS)
    described = [*MOST.values(), *PARTS.values()]
    for message in described:
        for field in dataclasses.fields(message):
            value: Any = getattr(message, field.name)
            assert value != field.default, f"{field.name} of {type(message).__name__} is not set in its golden bytes"
            assert not isinstance(value, Message) or type(value) in map(type, PARTS.values())


@pytest.mark.parametrize("name", NAMES)
def test_golden_names_are_read_and_written_the_same(name: str) -> None:
    blob = bytes.fromhex(PACKED["names"][name])
    assert Names.from_bytes(blob).keys() == NAMES[name]
    assert Names.of(NAMES[name]) == Names.from_bytes(blob)


@pytest.mark.parametrize("name", CELLS)
def test_golden_cells_are_read_and_written_the_same(name: str) -> None:
    blob, cells = bytes.fromhex(PACKED["cells"][name]), np.array(CELLS[name])
    assert unpack_cells(blob, cells.shape).tolist() == cells.tolist()
    assert pack_cells(cells) == blob


@pytest.mark.parametrize("name", UPDATES)
def test_golden_updates_are_read_and_written_the_same(name: str) -> None:
    blob = bytes.fromhex(PACKED["updates"][name])
    hashes, weights = unpack_updates(blob)
    assert (hashes.tolist(), weights.tolist()) == UPDATES[name]
    assert pack_updates(hashes, weights) == blob


@pytest.mark.parametrize("name", _messages())
def test_a_damaged_frame_is_refused_or_says_something_else(name: str) -> None:
    """There is no checksum in a frame: the connection has one. But no frame is written in two ways."""
    frame = bytes.fromhex(GOLDEN["frames"][name]["frame"])
    for place in range(len(frame)):
        damaged = frame[:place] + bytes([frame[place] ^ 1]) + frame[place + 1 :]
        try:
            found = read_frame(damaged)
        except BytesError:
            continue
        assert write_frame(found) == damaged
    for cut in range(len(frame)):
        with pytest.raises(BytesError):
            read_frame(frame[:cut])
