"""Adapters for the sketches in time of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.sketch.count_min import CountMin
from catchment.sketch.space_saving import SpaceSaving
from catchment.testing.merge_check.adapter import Claims
from catchment.window.base import WindowSketch
from catchment.window.dyadic import DyadicECM
from catchment.window.ecm import ECMSketch
from catchment.window.exponential_histogram import ExponentialHistogram
from catchment.window.panes import Panes
from catchment.window.perfect_count_min import PerfectCountMin
from catchment.window.proportional_count_min import ProportionalCountMin
from catchment.window.randomized_wave import RandomizedWave
from catchment.window.simple_count_min import SimpleCountMin
from catchment.window.splitter_count_min import SplitterCountMin
from catchment.window.wave import Wave

__all__ = ["OURS", "OurAdapter"]

I64 = NDArray[np.int64]

_WINDOW = 1000
_EPSILON, _DELTA = 0.1, 0.05


class OurAdapter:
    """A window sketch of ours; one part of every merge comes as bytes, as all do in earnest, where there is time.

    >>> adapter = OurAdapter("my wave", Claims(window=50, keys=False), lambda seed: Wave(epsilon=0.2, window=50))
    >>> state = adapter.new(seed=1)
    >>> adapter.update(state, np.array([7, 7]), np.array([10, 70]))
    >>> adapter.estimate(adapter.merge([state, adapter.new(seed=1)]), None, 50, 70)
    (1, 1, 1)
    """

    def __init__(self, name: str, claims: Claims, build: Callable[[int], WindowSketch]) -> None:
        self.name, self.claims, self._build = name, claims, build

    def new(self, seed: int) -> WindowSketch:
        return self._build(seed)

    def update(self, state: WindowSketch, keys: I64, times: I64) -> None:
        state.update(*([keys] if "keys" in state.inputs else []), at=times)

    def merge(self, states: Sequence[WindowSketch]) -> WindowSketch:
        kind = type(states[0])
        return kind.merge([*states[:-1], kind.from_bytes(states[-1].to_bytes())])

    def estimate(self, state: Any, key: int | None, last: int, now: int) -> tuple[float, float, float]:
        answer = state.total(last=last, now=now) if key is None else state.estimate(key, last=last, now=now)
        return answer.value, answer.low, answer.high


def _claims(**others: Any) -> Claims:
    """What all of ours claim, and what one claims besides."""
    return Claims(window=_WINDOW, lateness=_WINDOW, negative_times=True, **others)


_SURE_ABOVE = {"delta": _DELTA, "totals_always": True, "high_always": True}
_WHOLE_WINDOW = {"ranges": False, "past": False}


def _ecm(counter: str, epsilon: float = _EPSILON) -> Callable[[int], WindowSketch]:
    return lambda seed: ECMSketch(epsilon, _DELTA, window=_WINDOW, counter=counter, seed=seed)


OURS: dict[str, Callable[[], OurAdapter]] = {
    name: lambda name=name, claims=claims, build=build: OurAdapter(name, claims, build)  # type: ignore[misc]
    for name, claims, build in (
        ("ecm-wave", _claims(**_SURE_ABOVE), _ecm("wave")),
        ("ecm-eh", _claims(**_SURE_ABOVE), _ecm("eh")),
        ("ecm-randomized", _claims(delta=_DELTA), _ecm("randomized", 0.25)),
        ("ecm-panes", _claims(**_SURE_ABOVE), _ecm("panes")),
        (
            "ecm-wave-for-tree",
            _claims(**_SURE_ABOVE),
            lambda seed: ECMSketch.for_tree(_EPSILON, _DELTA, window=_WINDOW, height=8, seed=seed),
        ),
        (
            "dyadic-ecm",
            _claims(**_SURE_ABOVE),
            lambda seed: DyadicECM(_EPSILON, _DELTA, window=_WINDOW, bits=20, step=10, seed=seed),
        ),
        ("wave", _claims(keys=False), lambda _: Wave(_EPSILON, window=_WINDOW)),
        ("eh", _claims(keys=False), lambda _: ExponentialHistogram(_EPSILON, window=_WINDOW)),
        (
            "randomized-wave",
            _claims(keys=False, delta=_DELTA),
            lambda seed: RandomizedWave(_EPSILON, _DELTA, window=_WINDOW, seed=seed),
        ),
        (
            "panes-count-min",
            _claims(**_SURE_ABOVE),
            lambda seed: Panes(CountMin(_EPSILON, _DELTA, seed=seed), window=_WINDOW, panes=10),
        ),
        ("panes-space-saving", _claims(), lambda _: Panes(SpaceSaving(_EPSILON), window=_WINDOW, panes=10)),
        (
            "perfect-count-min",
            _claims(**_SURE_ABOVE),
            lambda seed: PerfectCountMin(_EPSILON, _DELTA, window=_WINDOW, seed=seed),
        ),
        (
            "simple-count-min",
            _claims(**_SURE_ABOVE, **_WHOLE_WINDOW),
            lambda seed: SimpleCountMin(_EPSILON, _DELTA, window=_WINDOW, seed=seed),
        ),
        (
            "proportional-count-min",
            _claims(**_SURE_ABOVE, **_WHOLE_WINDOW),
            lambda seed: ProportionalCountMin(_EPSILON, _DELTA, window=_WINDOW, seed=seed),
        ),
        (
            "splitter-count-min",
            _claims(**_SURE_ABOVE, **_WHOLE_WINDOW),
            lambda seed: SplitterCountMin(_EPSILON, _DELTA, window=_WINDOW, seed=seed),
        ),
    )
}
"""Our sketches by the name of their adapter."""
