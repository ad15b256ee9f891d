"""Tables of a file of settings: each key is read once, with its type and limits, and every error says where it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from catchment.errors import CatchmentError, SettingsError
from catchment.window.durations import microseconds, spoken
from catchment.window.settings_lines import Path, line_of

__all__ = ["Places", "Table"]

Value = TypeVar("Value")
_REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Places:
    """A file, the lines of what is in it, what it describes, and which error says what is wrong with it."""

    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    what: str = "a file of settings"
    kind: type[SettingsError] = SettingsError

    def error(self, path: Path, problem: str, cure: str) -> SettingsError:
        return self.kind(f"{self.file}, line {line_of(self.lines, path)}: {problem}", cure)

    def checked(self, path: Path, check: Callable[[], Value]) -> Value:
        """What `check` gives; an error of ours gets its place."""
        try:
            return check()
        except SettingsError:
            raise
        except CatchmentError as problem:
            raise self.error(self._meant(path, problem.problem), problem.problem, problem.cure) from problem

    def _meant(self, path: Path, problem: str) -> Path:
        """The key of a table that a problem names, or the table."""
        keys = ((*path, word) for word in re.findall(r"\w+", problem))
        return next((key for key in keys if key in self.lines), path)


class Table:
    """One table of the file; remembers what was asked for, so that `finish` can refuse the rest."""

    def __init__(self, values: Any, path: Path, places: Places) -> None:
        self.path, self.places = path, places
        if not isinstance(values, dict):
            raise places.error(path, f"{_shown(path)} = {values!r} is no table", f"write [{_shown(path)}] above it")
        self._values: dict[str, Any] = values
        self._known: list[str] = []

    def _take(self, name: str, default: Any, cure: str) -> Any:
        self._known.append(name)
        if name in self._values:
            return self._values[name]
        if default is _REQUIRED:
            where = f"[{_shown(self.path)}]" if self.path else "the file"
            raise self.places.error(self.path, f"{where} has no {name}", cure)
        return default

    def error(self, name: str, problem: str, cure: str) -> SettingsError:
        """An error about a key of this table."""
        return self.places.error((*self.path, name), problem, cure)

    def has(self, name: str) -> bool:
        return name in self._values

    def values_of(self, name: str) -> tuple[Any, ...]:
        """What is there under a name, one value or a list of them, whatever it is; it is not taken by that."""
        found = self._values.get(name, [])
        return tuple(found) if isinstance(found, list) else (found,)

    def names(self) -> tuple[str, ...]:
        """Its keys, in the file's order, for a table whose keys are the user's own."""
        return tuple(self._values)

    def _typed(self, name: str, kind: Any, default: Any, cure: str) -> Any:
        value = self._take(name, default, cure)
        if value is default:
            return value
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(name, f"{name} = {_written(value)}", cure)
        return value

    def text(self, name: str, default: Any = _REQUIRED, *, cure: str = "") -> Any:
        """A text that is not empty."""
        cure = cure or f'write {name} = "…"'
        value = self._typed(name, str, default, cure)
        if value == "":
            raise self.error(name, f'{name} = ""', cure)
        return value

    def texts(self, name: str, *, cure: str) -> tuple[str, ...]:
        """A list of texts, none unless given."""
        values = self._typed(name, list, [], cure)
        if not all(isinstance(value, str) and value for value in values):
            raise self.error(name, f"{name} = {_written(values)}", cure)
        return tuple(values)

    def key(self, name: str, *, cure: str) -> str | int:
        """A text that is not empty, or an integer: what is counted is either."""
        value: str | int = self._typed(name, (str, int), _REQUIRED, cure)
        if value == "":
            raise self.error(name, f'{name} = ""', cure)
        return value

    def keys(self, name: str, *, cure: str) -> tuple[str, ...] | tuple[int, ...]:
        """A list of texts or of integers, of which there is one at least."""
        values = self._typed(name, list, _REQUIRED, cure)
        if not values or not any(all(type(value) is kind and value != "" for value in values) for kind in (str, int)):
            raise self.error(name, f"{name} = {_written(values)}", cure)
        return tuple(values)

    def choice(self, name: str, choices: Iterable[str], default: Any = _REQUIRED) -> Any:
        """One of the choices; a near one is suggested."""
        there = list(choices)
        value = self.text(name, default, cure=f"choose one of {', '.join(there)}")
        if value is not default and value not in there:
            raise self.error(name, f"{name} = {_written(value)}", _meant(value, there, "choose one of"))
        return value

    def whole(self, name: str, default: Any = _REQUIRED, *, low: int, high: int) -> Any:
        cure = f"give an integer from {low} to {high}"
        value = self._typed(name, int, default, cure)
        if value is not default and not low <= value <= high:
            raise self.error(name, f"{name} = {value}", cure)
        return value

    def wholes(self, name: str, *, cure: str) -> tuple[int, ...]:
        """A list of integers, none unless given."""
        values = self._typed(name, list, [], cure)
        if not all(type(value) is int for value in values):
            raise self.error(name, f"{name} = {_written(values)}", cure)
        return tuple(values)

    def number(self, name: str, default: Any, *, low: float, high: float) -> Any:
        """A number between the two, both left out."""
        cure = f"give a number above {low:g} and below {high:g}"
        value = self._typed(name, (int, float), default, cure)
        if value is not default and not low < value < high:
            raise self.error(name, f"{name} = {value}", cure)
        return value

    def truth(self, name: str, default: bool) -> bool:
        value: bool = self._typed(name, bool, default, "write true or false")
        return value

    def duration(self, name: str, default: Any, *, least: int = 0) -> Any:
        """A length of time in microseconds; None where the default is."""
        value = self.text(name, default, cure='write for instance "10 minutes"')
        if value is None:
            return None
        length = self.places.checked((*self.path, name), lambda: microseconds(name, value))
        if length < least:
            raise self.error(name, f"{name} = {_written(value)}", f"give at least {spoken(least)}")
        return length

    def table(self, name: str, *, needed: bool = False) -> Table:
        """The table inside of that name; an empty one where there is none."""
        values = self._take(name, _REQUIRED if needed else {}, f"add a table [{_shown((*self.path, name))}]")
        return Table(values, (*self.path, name), self.places)

    def tables(self, name: str) -> list[Table]:
        """The tables of an array of them, at least one."""
        cure = f"add a table [[{name}]]"
        values = self._take(name, _REQUIRED, cure)
        if not isinstance(values, list) or not values:
            raise self.error(name, f"{name} is no list of tables", cure)
        return [Table(value, (*self.path, name, place), self.places) for place, value in enumerate(values)]

    def rest(self) -> dict[str, str]:
        """All values as the text that Spark takes for options and settings."""
        settings: dict[str, str] = {}
        for name, value in self._values.items():
            self._known.append(name)
            if isinstance(value, dict):  # a dotted key: "spark.sql.x" without quotes
                inner = Table(value, (*self.path, name), self.places)
                settings |= {f"{name}.{key}": text for key, text in inner.rest().items()}
            elif isinstance(value, str | int | float):
                settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
            else:
                raise self.error(name, f"{name} = {_written(value)}", "give a text, a number, true or false")
        return settings

    def only(self, *names: str) -> None:
        """Refuse the first key that is none of these."""
        self._known += names
        self.finish()

    def finish(self) -> None:
        """Refuse the first key that nothing asked for."""
        for name in self._values:
            if name not in self._known:
                where = f"[{_shown(self.path)}]" if self.path else self.places.what
                raise self.error(name, f"{where} has no key {name!r}", _meant(name, self._known, "it takes"))


def _meant(given: str, there: list[str], otherwise: str) -> str:
    near = difflib.get_close_matches(given, there, n=1)
    listed = f"{otherwise} {', '.join(there)}"
    return f"did you mean {near[0]!r}? {listed[0].upper()}{listed[1:]}" if near else listed


def _shown(path: Path) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def _written(value: Any) -> str:
    """A value as TOML writes it, more or less."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
