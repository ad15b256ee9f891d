"""What a file of serialised bytes is: for `catchment inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catchment.errors import NameNotFoundError
from catchment.sketch.base import KEYED_TRUTHS, Sketch
from catchment.window.base import WindowSketch

__all__ = ["describe"]

_LARGEST_FILE = 2**32


def describe(path: Path) -> dict[str, Any]:
    """The kind, parameters, guarantee and size of the sketch in that file, ready for printing or JSON."""
    if not path.is_file():
        raise NameNotFoundError(f"no file {path}", "give the path of bytes that to_bytes wrote")
    if path.stat().st_size > _LARGEST_FILE:
        raise NameNotFoundError(f"{path} has {path.stat().st_size} bytes", "give the path of bytes that to_bytes wrote")
    blob = path.read_bytes()
    sketch = Sketch.from_bytes(blob)
    return {
        "sketch": type(sketch).__name__,
        "parameters": {name: _named(value) for name, value in sketch.parameters.items()},
        "epsilon": sketch.epsilon,
        "guarantee": sketch.guarantee,
        "answers": _answers(sketch),
        "bytes in the file": len(blob),
        "bytes in memory": sketch.nbytes,
        "parts merge to the whole": "byte for byte" if sketch.linear else "within the guarantee",
        **({"clock": _clock(sketch)} if isinstance(sketch, WindowSketch) else {}),
    }


def _named(value: Any) -> Any:
    """A parameter as a person reads it: a sketch by what builds it."""
    return repr(value) if isinstance(value, Sketch) else value


def _clock(sketch: WindowSketch) -> dict[str, int | None]:
    return {"newest": sketch.newest, "late events": sketch.late, "too late": sketch.too_late}


def _answers(sketch: Sketch) -> dict[str, str]:
    """The questions that need no key, answered."""
    return {
        question: str(getattr(sketch, question)())
        for question, measure in sketch.measures.items()
        if measure not in KEYED_TRUTHS
    }
