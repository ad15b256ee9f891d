"""A watch is known by the same numbers for ever: otherwise what is durable of it would be set aside."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from catchment.monitor import Frequency, HeavyHitters, Items, RangeSum, Site
from tests.golden import store
from tests.golden.fingerprints import WATCHES, marks_of, numbers_of
from tests.golden.watches import CASES

GOLDEN = store.read("fingerprints")


@pytest.mark.parametrize("name", WATCHES)
def test_a_watch_has_its_golden_numbers(name: str) -> None:
    assert numbers_of(WATCHES[name]) == GOLDEN["watches"][name]


@pytest.mark.parametrize("name", CASES)
def test_a_site_of_these_watches_has_its_golden_mark(name: str) -> None:
    assert Site("site", CASES[name].watches)._kinds().hex() == GOLDEN["states"][name]["kinds"]


@pytest.mark.parametrize("name", CASES)
def test_marks_are_in_the_golden_state(name: str) -> None:
    """The fingerprint begins each of the coordinator's blobs, a site's mark is all of its own."""
    marks = marks_of(name)
    assert marks == GOLDEN["states"][name]["marks"]
    prints = {watch.number: watch.fingerprint.to_bytes(4, "little").hex() for watch in CASES[name].watches}
    for where, mark in marks.items():
        machine, blob = where.split()
        if machine == "coordinator":
            assert mark.startswith(prints[int(blob.split(".")[0])])
        else:
            assert mark == GOLDEN["states"][name]["kinds"]


def test_the_same_watch_in_other_words_has_the_same_number() -> None:
    assert Items(threshold=1000).fingerprint == Items(threshold=1000.0).fingerprint
    assert Items(threshold=np.float64(1000)).fingerprint == Items(threshold=1000).fingerprint
    assert RangeSum(keys=("/a", "/b"), factors=(1, 1)).fingerprint == RangeSum(keys=("/a", "/b")).fingerprint
    assert Frequency(key=np.int64(-7)).fingerprint == Frequency(key=-7).fingerprint


def test_every_field_of_every_watch_is_in_a_golden_number() -> None:
    """A new field of a watch changes its numbers, unless it is left out where it has its default: it needs a line."""
    seen: dict[type, dict[str, set[Any]]] = {}
    for watch in WATCHES.values():
        values = seen.setdefault(type(watch), {})
        for field in fields(watch):
            values.setdefault(field.name, set()).add(getattr(watch, field.name))
    kinds = {type(watch) for case in CASES.values() for watch in case.watches}
    assert set(seen) == kinds | {HeavyHitters, Items}
    for kind, values in seen.items():
        for name, found in values.items():
            assert len(found) > 1, f"{name} of {kind.__name__} has one value in all golden numbers"
    assert set(GOLDEN["watches"]) == set(WATCHES)
