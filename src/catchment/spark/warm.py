"""Call every sketch once, so that numba has compiled its kernels: `python -m catchment.spark.warm`.

What is called is what executors do with sketches: take in numbers and texts, merge, write and read bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from catchment.errors import KeyTypeError
from catchment.sketch.base import Sketch
from catchment.window.base import WindowSketch
from catchment.window.ecm import ECMSketch
from catchment.window.gather import gathered
from catchment.window.grid_sketch import COUNTERS
from catchment.window.stream_state import StreamState

__all__ = ["warm"]

_EVENTS = 64


def warm() -> None:
    """Compile what is not in the kernel cache yet; seconds if nothing is missing, a minute if everything is."""
    for kind in [kind for family, kind in sorted(Sketch._families.items()) if family < 192]:
        for parameters in _parameters(kind):
            for events in _batches():
                _exercise(kind, parameters, events)


def _parameters(kind: type[Sketch]) -> list[dict[str, Any]]:
    counters = COUNTERS if kind is ECMSketch else ()
    return [dict(kind.example) | {"counter": counter} for counter in counters] or [dict(kind.example)]


def _batches() -> list[dict[str, Any]]:
    """Events as NumPy arrays, and as Spark sends them: in buffers that cannot be written, which numba compiles anew."""
    numbers = {"at": np.arange(_EVENTS), "values": np.arange(1, _EVENTS + 1), "attributes": np.arange(_EVENTS)}
    texts = [f"key {n}" for n in range(_EVENTS)]
    arrow = pa.table({**numbers, "numbers": np.arange(_EVENTS), "texts": texts})
    sent = pa.BufferOutputStream()
    with pa.ipc.new_stream(sent, arrow.schema) as stream:
        stream.write_table(arrow)
    received = pa.ipc.open_stream(sent.getvalue()).read_next_batch()
    columns = {name: received.column(name) for name in received.schema.names}
    given: list[dict[str, Any]] = [numbers | {"keys": np.arange(_EVENTS)}, numbers | {"keys": texts}]
    return given + [columns | {"keys": columns[keys]} for keys in ("numbers", "texts")]


def _exercise(kind: type[Sketch], parameters: dict[str, Any], events: dict[str, Any]) -> None:
    arrays = {name: events[name] for name in kind.inputs}
    sketch = kind(**parameters)
    try:
        sketch.update(*([arrays.pop("keys")] if "keys" in arrays else []), **arrays)
    except KeyTypeError:  # a sketch of ranges takes numbers only
        return
    kind.merge([sketch, kind.from_bytes(sketch.to_bytes())]).to_bytes()
    if isinstance(sketch, WindowSketch) and "keys" in kind.inputs and not isinstance(events["keys"], list):
        _gather(kind(**parameters), events["keys"], np.asarray(events["at"]))


def _gather(using: Sketch, keys: Any, times: Any) -> None:
    """What tasks do on the way to a sketch."""
    state = StreamState(using, lateness=2)
    state.take([gathered(using, np.asarray(keys) if using.names_keys else keys, at=times)])
    StreamState.from_bytes(state.to_bytes()).current()


if __name__ == "__main__":
    warm()
