"""The fingerprint of a watch: by it a site and a coordinator notice that they do not watch the same.

It is in durable state and on the wire, so it must outlive names in the code. It is made of the watch's `kind`, an id
that is written out beside each class and never changes, and of the values of its fields in their order. A field that
comes later is declared by `later`, and is left out as long as it says what was meant before it was there: so the
fingerprints of watches that do not use it stay what they were. `tests/golden` holds fingerprints that must stay.
"""

from __future__ import annotations

import dataclasses
from dataclasses import fields
from typing import Any
from zlib import crc32

import numpy as np

__all__ = ["fingerprint_of", "later"]

_LATER = "later"


def later(absent: Any) -> Any:
    """A field that the first watches did not have; `absent`, its default, means what they meant."""
    return dataclasses.field(default=absent, metadata={_LATER: True})


def fingerprint_of(watch: Any) -> int:
    """A number, never 0, that two different watches hardly share; 1000 and 1000.0 are the same number in it.

    Examples
    --------
    >>> from catchment.monitor import Total
    >>> fingerprint_of(Total(theta=0.1)) == fingerprint_of(Total(theta=0.2))
    False
    """
    first = [field.name for field in fields(watch) if _LATER not in field.metadata]
    added = [field for field in fields(watch) if _LATER in field.metadata]
    values = [_plain(getattr(watch, name)) for name in first]
    used = [
        (field.name, _plain(getattr(watch, field.name)))
        for field in added
        if getattr(watch, field.name) != field.default
    ]
    return 1 | crc32(repr((watch.kind, values + used)).encode())


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
