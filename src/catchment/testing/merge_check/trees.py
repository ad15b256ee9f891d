"""Trees of merges: in what order the states of many sites become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

__all__ = ["TREES", "Tree"]

State = TypeVar("State")
Merge = Callable[[Sequence[Any]], Any]
Tree = Callable[[Sequence[Any], Merge, np.random.Generator], Any]

_LONGEST_CHAIN = 8


def flat(states: Sequence[State], merge: Merge, rng: np.random.Generator) -> State:  # noqa: ARG001
    """All at once.

    >>> flat("abcd", lambda parts: f"({''.join(parts)})", np.random.default_rng(0))
    '(abcd)'
    """
    merged: State = states[0] if len(states) == 1 else merge(list(states))
    return merged


def binary(states: Sequence[State], merge: Merge, rng: np.random.Generator) -> State:
    """Two by two.

    >>> binary("abcde", lambda parts: f"({''.join(parts)})", np.random.default_rng(0))
    '(((ab)(cd))e)'
    """
    level = list(states)
    while len(level) > 1:
        level = [flat(level[place : place + 2], merge, rng) for place in range(0, len(level), 2)]
    return level[0]


def chain(states: Sequence[State], merge: Merge, rng: np.random.Generator) -> State:
    """Each merged into what came before; groups of them where there are more than the height of 8 allows.

    >>> chain("abcd", lambda parts: f"({''.join(parts)})", np.random.default_rng(0))
    '(((ab)c)d)'
    """
    first, *others = states
    groups = min(_LONGEST_CHAIN, len(others))
    for group in range(groups):
        first = flat([first, *others[group::groups]], merge, rng)
    return first


def at_random(states: Sequence[State], merge: Merge, rng: np.random.Generator) -> State:
    """Any few of those that are left, until one is."""
    left = list(states)
    while len(left) > 1:
        chosen = set(rng.choice(len(left), min(len(left), int(rng.integers(2, 6))), replace=False).tolist())
        parts = [left[place] for place in sorted(chosen)]
        left = [part for place, part in enumerate(left) if place not in chosen] + [merge(parts)]
    return left[0]


TREES: dict[str, Tree] = {"flat": flat, "binary": binary, "chain": chain, "random": at_random}
"""Every shape by name."""
