"""Fingerprints of watches outlive the code: names of classes are not in them, and a later field changes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from catchment.monitor.fingerprint import fingerprint_of, later


@dataclass(frozen=True)
class First:
    kind: ClassVar[str] = "toy"
    number: int = 1
    theta: float = 0.1


@dataclass(frozen=True)
class Renamed:
    kind: ClassVar[str] = "toy"
    number: int = 1
    strict: bool = later(absent=False)
    theta: float = 0.1
    span: float | None = later(absent=None)


def test_a_class_by_another_name_has_the_same_fingerprint() -> None:
    assert fingerprint_of(First()) == fingerprint_of(Renamed())


def test_a_later_field_counts_once_it_is_used() -> None:
    watches = [Renamed(), Renamed(strict=True), Renamed(span=2.0), Renamed(strict=True, span=2.0), Renamed(theta=0.2)]
    assert len({fingerprint_of(watch) for watch in watches}) == len(watches)
    assert fingerprint_of(Renamed(span=2.0)) == fingerprint_of(Renamed(span=2))
