"""Bytes are for ever: golden files stay readable, and the same events go on giving them."""

from __future__ import annotations

import pytest

from catchment import Sketch
from tests.golden.cases import FOLDER, golden

NAMES = sorted(path.stem for path in FOLDER.glob("*.sketch"))


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_file_is_read_and_written_the_same(name: str) -> None:
    blob = (FOLDER / f"{name}.sketch").read_bytes()
    assert Sketch.from_bytes(blob).to_bytes() == blob


@pytest.mark.parametrize("name", NAMES)
def test_the_same_events_give_the_golden_bytes(name: str) -> None:
    assert golden()[name].to_bytes() == (FOLDER / f"{name}.sketch").read_bytes()


def test_every_family_has_a_golden_file() -> None:
    kinds = {type(Sketch.from_bytes((FOLDER / f"{name}.sketch").read_bytes())) for name in NAMES}
    assert kinds == {kind for family, kind in Sketch._families.items() if family < 192}
    assert set(NAMES) == set(golden())
