"""Golden files of what is no sketch: JSON of a few plain values, with bytes as base64; written once, read for ever."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "as_bytes", "as_text", "read", "write"]

FOLDER = Path(__file__).parent / "v1" / "monitor"


def as_text(blob: bytes) -> str:
    return b64encode(blob).decode()


def as_bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def read(name: str) -> Any:
    """What the golden file of this name says."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def write(name: str, content: Any) -> None:
    """Write a golden file that is not there yet; one that is there is never changed."""
    path = FOLDER / f"{name}.json"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(path.name, path.stat().st_size)
