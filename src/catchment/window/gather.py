"""build: one sketch of many events, the same one whatever order they are found in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.sketch.base import Sketch
from catchment.sketch.keys import as_keys
from catchment.window.base import WindowSketch
from catchment.window.clock import as_times
from catchment.window.dyadic import DyadicECM
from catchment.window.ordered import encoded

__all__ = ["build"]

I64 = NDArray[np.int64]


def build(using: Sketch, keys: Any = None, at: Any = None, weights: Any = None, **others: Any) -> Sketch:
    """A sketch like `using`, which is empty and stays so, of these events, given as arrays of one length.

    Events are sorted by time and then by the hash of their key, so the result depends on the events alone and not on
    the order of the rows in which they were found, and none is late. Where order makes no difference it is left.

    Parameters
    ----------
    using
        An empty sketch: the kind and the parameters.
    keys
        The keys, or None for a counter, which has none.
    at, weights
        One integer for each event, where the sketch takes them.
    others
        What else its update takes, by name: `values`, `attributes`.

    Examples
    --------
    >>> from catchment.sketch import SpaceSaving
    >>> one = build(SpaceSaving(epsilon=0.5), ["a", "b", "c", "a"])
    >>> one == build(SpaceSaving(epsilon=0.5), ["c", "a", "a", "b"])
    True
    """
    sketch = using.copy()
    given = {"at": at, "weights": weights, **others}
    columns = {name: values for name, values in given.items() if values is not None}
    if keys is not None:
        columns["keys"] = keys if isinstance(using, DyadicECM) else as_keys(keys)
    if isinstance(using, WindowSketch) or not using.linear:
        order = _order(using, columns)
        columns = {name: _taken(values, order) for name, values in columns.items()}
    sketch.update(**columns)
    return sketch


def _order(using: Sketch, columns: dict[str, Any]) -> I64:
    """By time, then by key, then by weight: events that are equal in all of them may stand in any order."""
    ranks: list[NDArray[Any]] = []
    if "weights" in columns:
        ranks.append(np.asarray(columns["weights"]))
    if isinstance(using, DyadicECM):
        ranks.append(encoded(columns["keys"], using.order, using.bits)[0])
    elif "keys" in columns:
        ranks.append(columns["keys"].hashes())
    if "at" in columns:
        ranks.append(as_times(columns["at"], None))
    return np.lexsort(ranks)


def _taken(values: Any, order: I64) -> Any:
    if hasattr(values, "take") and not isinstance(values, np.ndarray):
        return values.take(order)
    return np.asarray(values)[order]
