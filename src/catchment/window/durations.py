"""Lengths of time as people write them, "10 minutes", in microseconds and in ticks."""

from __future__ import annotations

import re

from catchment.errors import ParameterError

__all__ = ["as_ticks", "microseconds", "spoken"]

_UNITS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
_UNITS |= {"day": 24 * _UNITS["hour"], "week": 7 * 24 * _UNITS["hour"]}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "m": "minute", "min": "minute", "h": "hour"}
_PART = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")
_CURE = 'write for instance "10 minutes" or "1 hour 30 minutes"'


def microseconds(name: str, duration: str) -> int:
    """The length of a duration; `name` is what to call it in an error.

    >>> microseconds("tick", "1 second"), microseconds("window", "1 hour 30 minutes")
    (1000000, 5400000000)
    """
    rest, total = duration.lower() if isinstance(duration, str) else "", 0
    while rest:
        part = _PART.match(rest)
        unit = part and _SHORT.get(part[2], part[2].removesuffix("s"))
        if part is None or unit not in _UNITS:
            raise ParameterError(f"{name}={duration!r} is no length of time", _CURE)
        total += int(part[1]) * _UNITS[unit]
        rest = rest[part.end() :]
    if not total and not (isinstance(duration, str) and _PART.match(duration)):
        raise ParameterError(f"{name}={duration!r} is no length of time", _CURE)
    return total


def spoken(length: int) -> str:
    """Microseconds in the largest unit of which they are a whole number.

    >>> spoken(90_000_000), spoken(60_000_000), spoken(1_000), spoken(7)
    ('90 seconds', '1 minute', '1 millisecond', '7 microseconds')
    """
    unit = max((unit for unit, size in _UNITS.items() if length % size == 0), key=_UNITS.__getitem__)
    count = length // _UNITS[unit]
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def as_ticks(name: str, duration: str | int, tick: int) -> int:
    """A duration in ticks of so many microseconds; a whole number is ticks already.

    >>> as_ticks("last", "10 minutes", 1_000_000), as_ticks("last", 7, 1_000_000)
    (600, 7)
    """
    if isinstance(duration, int):
        if duration < 0:
            raise ParameterError(f"{name}={duration} ticks", "give 0 or more")
        return duration
    length = microseconds(name, duration)
    if length % tick:
        raise ParameterError(f"{name}={duration!r} is not a whole number of ticks of {tick} µs", "choose a finer tick")
    return length // tick
