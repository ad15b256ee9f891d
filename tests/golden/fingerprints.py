"""The numbers by which a site and a coordinator know a watch, and the mark of a site's state: for many watches."""

from __future__ import annotations

from typing import Any

from catchment.monitor import Distinct, Frequency, HeavyHitters, InnerProduct, Items, RangeSum, SelfJoin, Site, Total
from catchment.sketch.codec import open_envelope
from tests.golden import store
from tests.golden.states import golden
from tests.golden.watches import CASES, AnyWatch

__all__ = ["WATCHES", "main", "marks_of", "numbers_of"]

_EVERY: dict[str, Any] = {"number": 12, "theta": 0.3, "epsilon": 0.25, "delta": 0.05, "seed": 2**63}

WATCHES: dict[str, AnyWatch] = {
    "total": Total(),
    "total, every field": Total(**_EVERY, threshold=1000, rule="push"),
    "total, the largest number": Total(number=65_535),
    "total, a threshold below zero": Total(threshold=-0.5),
    "total, near": Total(rule="near"),
    "total, centralise": Total(rule="centralise"),
    "total, a window": Total(window=3600),
    "frequency of a text": Frequency(key="/index.html"),
    "frequency of a text that is no ASCII": Frequency(key="/größe/日本\n'\""),
    "frequency of an integer": Frequency(key=-7),
    "frequency of bytes": Frequency(key=b"\xff\x00'raw"),
    "frequency, every field": Frequency(**_EVERY, key="a", threshold=2.5, window=60, rule="near"),
    "range sum of texts": RangeSum(keys=("/a", "/b")),
    "range sum of integers": RangeSum(keys=(1, 2**63 - 1)),
    "range sum of bytes": RangeSum(keys=(b"\x00", b"")),
    "range sum with factors": RangeSum(keys=("/a", "/b"), factors=(2, -1)),
    "range sum with factors of one": RangeSum(keys=("/a", "/b"), factors=(1, 1)),
    "range sum, every field": RangeSum(
        **_EVERY, keys=("/a", "/b"), factors=(2, 3), threshold=9, window=60, rule="centralise"
    ),
    "self-join": SelfJoin(),
    "self-join, every field": SelfJoin(**_EVERY, threshold=1e6, rule="lazy"),
    "self-join, full": SelfJoin(rule="full"),
    "self-join, near": SelfJoin(rule="near"),
    "self-join, relative": SelfJoin(rule="relative"),
    "self-join, eager": SelfJoin(rule="eager"),
    "self-join, a window": SelfJoin(window=1000, epsilon=0.09),
    "self-join, a window, two-phase": SelfJoin(window=1000, epsilon=0.09, rule="two-phase"),
    "inner product": InnerProduct(),
    "inner product, every field": InnerProduct(**_EVERY, threshold=0.0, rule="eager"),
    "inner product, a window": InnerProduct(window=1000, epsilon=0.09, rule="full"),
    "distinct": Distinct(),
    "distinct, every field": Distinct(**_EVERY, threshold=500, rule="full"),
    "distinct, a window": Distinct(epsilon=0.09, window=600),
    "items": Items(threshold=1000),
    "items, every field": Items(number=12, threshold=2.5, theta=0.3, window=60, rule="centralise"),
    "items, a threshold of a whole float": Items(threshold=1000.0),
    "heavy hitters": HeavyHitters(phi=0.05),
    "heavy hitters, every field": HeavyHitters(
        number=12, phi=0.3, epsilon=0.2, delta=0.05, rho=0.5, window=60, panes=12, seed=2**63
    ),
    "heavy hitters, a window": HeavyHitters(phi=0.3, window=300),
}


def numbers_of(watch: AnyWatch) -> dict[str, Any]:
    """The fingerprint, and what is written into the state of a site with this watch alone."""
    return {"fingerprint": watch.fingerprint, "kinds": Site("site", (watch,))._kinds().hex()}


def marks_of(name: str) -> dict[str, str]:
    """The marks of the blobs of a golden state, by machine and name; those without one are left out."""
    return {
        f"{machine} {blob}": bytes(mark.raw(mark.left)).hex()
        for machine, blobs in golden(name).durable.items()
        for blob, content in blobs.items()
        if blob not in ("life", "epoch") and content
        for _, mark, _ in [open_envelope(content)]
    }


def main() -> None:
    table = {name: numbers_of(watch) for name, watch in WATCHES.items()}
    states = {
        name: {"kinds": Site("site", case.watches)._kinds().hex(), "marks": marks_of(name)}
        for name, case in CASES.items()
    }
    store.write("fingerprints", {"watches": table, "states": states})
