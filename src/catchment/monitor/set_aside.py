"""Durable state of a coordinator that is about other watches than it now has, and so is not used."""

from __future__ import annotations

import re
from collections.abc import Iterable

from catchment.monitor.heavy_hitters.watch import HeavyHitters
from catchment.monitor.items.watch import Items
from catchment.monitor.watch import Watch
from catchment.sketch.codec import open_envelope

__all__ = ["set_aside"]

_WHOLE = re.compile(r"(\d+)\.(?:whole|items|heavy)\.(.+)")
"""Blobs with all that is kept of a site in a query, of whichever kind; the entries of logs are no use without them."""


def set_aside(
    watches: Iterable[Watch | Items | HeavyHitters], sites: Iterable[str], blobs: dict[str, bytes]
) -> dict[int, list[str]]:
    """By the number of a watch, the sites of which there is something durable, and all of it of another watch.

    Such a watch begins again: sites that are there flush anew, but what has left is not in its answer any more.
    """
    marks = {watch.number: watch.fingerprint.to_bytes(4, "little") for watch in watches}
    ours: dict[tuple[int, str], bool] = {}
    for name, blob in blobs.items():
        found = _WHOLE.fullmatch(name)
        if found is not None and blob and int(found[1]) in marks:
            number, site = int(found[1]), found[2]
            _, mark, _ = open_envelope(blob)
            same = bytes(mark.raw(mark.left)).startswith(marks[number])
            ours[number, site] = ours.get((number, site), False) or same
    listed = set(sites)
    others = sorted(where for where, used in ours.items() if not used and where[1] in listed)
    return {number: [site for of, site in others if of == number] for number in {of for of, _ in others}}
