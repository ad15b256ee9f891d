"""Which events serve which sketch, and a sketch of events in any order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catchment.sketch.base import Sketch
from catchment.sketch.checks import as_integers
from catchment.sketch.keys import as_keys
from catchment.window.clock import as_times, check_times
from catchment.window.counted_events import CountedEvents, CountingGatherer
from catchment.window.events import Arrivals, Events, Gatherer
from catchment.window.grid_sketch import GridSketch
from catchment.window.listed_events import ListedEvents, ListingGatherer
from catchment.window.part_events import PartEvents, PartGatherer

__all__ = ["Kind", "build", "gathered", "kind_of"]


class Kind(NamedTuple):
    """How the events of a sketch are kept, and how they are made."""

    events: type[Events]
    gatherer: type[Gatherer]


COUNTED = Kind(CountedEvents, CountingGatherer)
LISTED = Kind(ListedEvents, ListingGatherer)
PARTS = Kind(PartEvents, PartGatherer)


def kind_of(using: Sketch, *, merging: bool = False) -> Kind:
    """The smallest exact way; with `merging`, parts also where a merge keeps the guarantee, though not the bytes."""
    if using.linear or (merging and not using.merge_adds_error):
        return PARTS
    return COUNTED if isinstance(using, GridSketch) else LISTED


def build(using: Sketch, keys: Any = None, at: Any = None, **more: Any) -> Sketch:
    """A sketch like `using`, which is empty, of these events: the same bytes in whatever order they are given.

    >>> from catchment.window.ecm import ECMSketch
    >>> using = ECMSketch(0.1, 0.1, window=60)
    >>> one = build(using, ["a", "b", "a"], at=[3, 1, 2])
    >>> one == build(using, ["b", "a", "a"], at=[1, 2, 3]), one.late
    (True, 0)
    """
    sketch = using.copy()
    gathered(using, keys, at, **more).replay(sketch)
    return sketch


def gathered(using: Sketch, keys: Any = None, at: Any = None, *, every: int = 0, **more: Any) -> Events:
    """The events of one group, exactly; `every` as the `StreamState` has it that they are for."""
    batch = None if keys is None else using.read_keys(keys)
    count = None if batch is None else len(batch)
    times = np.zeros(count or 0, np.int64) if at is None else as_times(at, count)
    check_times(times)
    columns: dict[str, Any] = {"keys": batch} if batch is not None else {}
    for name, column in more.items():
        if column is not None:
            columns[name] = as_keys(column) if name == "attributes" else as_integers(name, column, times.size)
    kind = kind_of(using)
    gatherer = kind.gatherer(using, every)
    arrivals = Arrivals(np.zeros(times.size, dtype=np.int32), times, columns)
    events = kind.events(using)
    events.add([part for source in (gatherer.add(arrivals), gatherer.flush()) for _, part in source])
    return events
