"""Frames: two of each kind of message, one with nothing in it that need not be, and one with every field set."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyHeard, HeavyReport
from catchment.monitor.heavy_hitters.names import Key, Names
from catchment.monitor.items.messages import BandList, ItemsOrder, ItemsReport
from catchment.monitor.messages import Flush, Order, Report
from catchment.monitor.packing import pack_cells, pack_updates
from catchment.monitor.top_k.messages import ListMessage, PulseMessage, digest_of
from catchment.monitor.wire import Message, write_frame
from catchment.net.health import HealthReply, HealthRequest
from tests.golden import store

__all__ = ["CELLS", "LEAST", "MOST", "NAMES", "PARTS", "UPDATES", "fields_of", "main"]

_LARGE = 2**64 - 1

NAMES: dict[str, tuple[Key, ...]] = {
    "one integer": (0,),
    "integers": (-(2**63), -1, 0, 1, 300, 2**63 - 1),
    "texts": ("", "/a", "/größe", "日本"),
    "bytes": (b"", b"\x00", b"\xff\xfe"),
    "all": (-5, 7, "a", "b" * 200, b"a", b"\xff"),
}
CELLS: dict[str, list[list[int]]] = {
    "zeros": [[0, 0], [0, 0]],
    "small": [[0, -3], [7, 0]],
    "one far away": [[1, 2, 3, 4], [5, 6, 7, 2**62]],
    "the widest": [[-(2**62), 2**62]],
}
UPDATES: dict[str, tuple[list[int], list[int]]] = {
    "none": ([], []),
    "one": ([0], [1]),
    "all of one": ([3, 9, 2**39], [1, 1, 1]),
    "signed": ([3, 9, 2**40 - 1], [1, -2, 300]),
    "large": ([1, 2], [2**60, -(2**60)]),
}

_ALL_NAMES = Names.of(NAMES["all"])
_FLUSH = Flush(
    whole=1, behind=3, older=4, fell=1, cells=pack_cells(np.array(CELLS["small"])),
    updates=pack_updates(np.array([3, 9], dtype=np.uint64), np.array([1, -2])), partial=1,
)  # fmt: skip
_BANDS = BandList(
    whole=1, lows=pack_updates(np.array([0, 1], dtype=np.uint64), np.array([5, 9])), names=_ALL_NAMES, more=1
)
_HEARD: dict[str, Any] = {"heard_incarnations": (0, 2, _LARGE >> 2), "heard_versions": (0, 300, 1)}

LEAST: dict[str, Message] = {
    "report": Report(),
    "order": Order(),
    "heavy_report": HeavyReport(),
    "heavy_ask": HeavyAsk(),
    "heavy_heard": HeavyHeard(),
    "items_report": ItemsReport(),
    "items_order": ItemsOrder(),
    "list_message": ListMessage(incarnation=1, seq=1, version=1),
    "pulse_message": PulseMessage(incarnation=1, seq=1, version=1),
}
"""Of each kind of frame one in which whatever may be left out is."""

MOST: dict[str, Message] = {
    "report": Report(
        query=65_535, epoch=_LARGE, round=3, step=200, incarnation=5, seq=6, acked=7, position=2**40, time=-9, level=4,
        statistic=(1.5, -math.inf, -0.0, 1e-300), flush=_FLUSH, number=128, pending=14, urgent=1, watch=2**32 - 1,
        leaving=1, heard=_LARGE,
    ),
    "order": Order(
        query=1, epoch=2, round=300, step=4, incarnation=5, seq=6, acked=7, stored=8, want=2, rule=5, zone=b"\x03\x00",
        quantum=0.1, slack=(0.25, -0.75), urgent=1, keeps=15, share=0.5,
    ),
    "heavy_report": HeavyReport(
        query=1, epoch=2, asked=3, incarnation=4, seq=5, position=600, total=500, time=-8, slack=9, others=_ALL_NAMES,
        counts=(0, 127, 128, _LARGE), onsets=(1, 0, 30), sites=13, watch=14, leaving=1,
    ),
    "heavy_ask": HeavyAsk(
        query=1, epoch=2, version=3, incarnation=4, heard=5, items=_ALL_NAMES, heavy=HeavyAsk.packed((True, False) * 3),
        sites=8,
    ),
    "heavy_heard": HeavyHeard(query=1, epoch=2, incarnation=3, heard=4),
    "items_report": ItemsReport(
        query=1, epoch=2, incarnation=3, seq=4, position=5, time=2**60, sites=7, number=8, bands=_BANDS, watch=10,
        leaving=1,
    ),
    "items_order": ItemsOrder(query=1, epoch=2, incarnation=3, seq=4, acked=5, stored=6, sites=2**20),
    "list_message": ListMessage(
        query="frühstück", incarnation=2, seq=9, version=8, members=digest_of(("a", "b", "c")), **_HEARD, window=60,
        position=900, time=-(2**60), floor=11, beyond=10, shortlist=b"\x01\x00",
    ),
    "pulse_message": PulseMessage(
        query="q", incarnation=2, seq=9, version=8, members=digest_of(("a", "b", "c")), **_HEARD
    ),
}  # fmt: skip
"""Of each kind of frame one in which nothing is left out."""

PARTS: dict[str, Message] = {
    "flush": _FLUSH,
    "bands": _BANDS,
    "names": Names.of(NAMES["all"]) or Names(),
    "health_request": HealthRequest(service="catchment.v1.Catchment"),
    "health_reply": HealthReply(status=1),
}
"""Messages that are no frame: parts of others, and what is asked beside the stream; every field is set."""


def fields_of(message: Message) -> dict[str, Any]:
    """A message as JSON has it: bytes as hexadecimal digits, numbers with a point as Python writes them."""
    return {field.name: _plain(getattr(message, field.name)) for field in dataclasses.fields(message)}


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return fields_of(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return repr(value)
    return value.hex() if isinstance(value, bytes) else value


def main() -> None:
    frames = {
        f"{name}, {size}": {"frame": write_frame(message).hex(), "fields": fields_of(message)}
        for size, messages in (("least", LEAST), ("most", MOST))
        for name, message in messages.items()
    }
    parts = {name: {"bytes": message.to_bytes().hex(), "fields": fields_of(message)} for name, message in PARTS.items()}
    store.write("frames", {"frames": frames, "parts": parts})
    names = {name: (Names.of(keys) or Names()).to_bytes().hex() for name, keys in NAMES.items()}
    cells = {name: pack_cells(np.array(rows)).hex() for name, rows in CELLS.items()}
    updates = {
        name: pack_updates(np.array(hashes, dtype=np.uint64), np.array(weights, dtype=np.int64)).hex()
        for name, (hashes, weights) in UPDATES.items()
    }
    store.write("packed", {"names": names, "cells": cells, "updates": updates})
