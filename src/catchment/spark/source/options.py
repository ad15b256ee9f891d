"""Options of a data source, which arrive as text: each is read once, checked by name, and no other is let through."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from catchment.errors import ParameterError

__all__ = ["Options"]

MICROSECOND = 1_000_000


class Options:
    """Reads options and remembers which were asked for, so that `refuse_others` can name the rest.

    >>> options = Options({"sites": "4", "sead": "1"})
    >>> options.whole("sites", 1, low=1, high=100), options.whole("seed", 0, low=0, high=2**63 - 1)
    (4, 0)
    >>> options.refuse_others("catchment_events")
    Traceback (most recent call last):
    catchment.errors.ParameterError: catchment_events has no option 'sead': did you mean 'seed'? It takes seed, sites
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): text.strip() for name, text in given.items()}
        self._known: set[str] = set()

    def text(self, name: str, default: str | None) -> str | None:
        self._known.add(name)
        return self._given.get(name, default)

    def has(self, name: str) -> bool:
        return self.text(name, None) is not None

    def whole(self, name: str, default: Any, *, low: int, high: int) -> Any:
        """An integer in [low, high], or the default, which may be None; 1_000_000 and 1e6 are the same."""
        text = self.text(name, None)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            real = _real(text)
            number = int(real) if real is not None and real == math.floor(real) else low - 1
        if not low <= number <= high:
            raise ParameterError(f"{name}={text!r}", f"give an integer from {low} to {high}")
        return number

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        """A number in [low, high]."""
        text = self.text(name, None)
        if text is None:
            return default
        real = _real(text)
        if real is None or not low <= real <= high:
            raise ParameterError(f"{name}={text!r}", f"give a number from {low:g} to {high:g}")
        return real

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One of the choices, in any case of letters."""
        text = self.text(name, default)
        for one in choices:
            if text is not None and text.lower() == one.lower():
                return one
        raise ParameterError(f"{name}={text!r}", f"give one of {', '.join(choices)}")

    def moment(self, name: str, default: str) -> int:
        """A moment as microseconds after 1970; without a zone it is UTC, so that it is the same on every machine."""
        text = self.text(name, default)
        try:
            moment = datetime.fromisoformat(text or "")
        except ValueError:
            raise ParameterError(f"{name}={text!r}", "give a moment such as 2026-01-31T08:00:00Z") from None
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * MICROSECOND + since.microseconds

    def refuse_others(self, source: str) -> None:
        """Refuse the first option that nothing asked for."""
        for name in sorted(set(self._given) - self._known):
            near = difflib.get_close_matches(name, sorted(self._known), n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ParameterError(
                f"{source} has no option {name!r}", f"{hint}It takes {', '.join(sorted(self._known))}".strip()
            )


def _real(text: str) -> float | None:
    try:
        real = float(text)
    except ValueError:
        return None
    return real if math.isfinite(real) else None
