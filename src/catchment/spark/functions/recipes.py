"""The table of recipes: how SQL builds an empty sketch of each kind, and which columns it then takes in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catchment.errors import ParameterError
from catchment.sketch import (
    BloomFilter,
    BottomK,
    CountMin,
    FastAMS,
    FMSketch,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
)
from catchment.sketch.checks import check_choice
from catchment.spark.functions.arguments import Argument
from catchment.spark.functions.kinds import KINDS, Kind
from catchment.window import (
    DyadicECM,
    ECMSketch,
    ExponentialHistogram,
    Panes,
    PerfectCountMin,
    ProportionalCountMin,
    RandomizedWave,
    SimpleCountMin,
    SplitterCountMin,
    Wave,
    WindowSketch,
)
from catchment.window.clock import ARRIVALS

__all__ = ["RECIPES", "Recipe"]

_LEFT_OUT = ("self", "arrivals", "by")
"""What makes no sense of rows without an order, or has a function of its own."""


Make = Callable[..., Sketch]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function that builds sketches from rows: its columns, its parameters with their defaults, its kind."""

    kind: Kind
    name: str
    columns: tuple[Argument, ...]
    parameters: Mapping[str, Any]
    """Each parameter and its default; `inspect.Parameter.empty` where it must be given."""
    make: Make
    meaning: str
    example: str
    """The columns and parameters of the example."""

    @property
    def names(self) -> list[str]:
        """All places in order: needed columns, parameters, then columns that may be left out."""
        needed = [column.name for column in self.columns if not column.optional]
        spare = [column.name for column in self.columns if column.optional]
        return [*needed, *self.parameters, *spare]

    @property
    def required(self) -> list[str]:
        needed = [name for name, default in self.parameters.items() if default is inspect.Parameter.empty]
        return [*(column.name for column in self.columns if not column.optional), *needed]

    @property
    def timed(self) -> bool:
        return any(column.name == "time" for column in self.columns)

    def prototype(self, given: Mapping[str, Any]) -> Sketch:
        """The empty sketch with these parameters; None means the default."""
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in self.required:
            if name in self.parameters and name not in chosen:
                raise ParameterError(f"{self.name} was given no {name}", f"give {name}, a literal")
        for name, value in chosen.items():
            default = self.parameters[name]
            if isinstance(default, bool) != isinstance(value, bool):
                raise ParameterError(f"{name}={value!r}", f"give {name} as in {name} => {default!r}")
        try:
            return self.make(**chosen)
        except TypeError:
            # A parameter of a type that arithmetic refused before a check saw it.
            shown = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
            raise ParameterError(f"{self.name} was given {shown}", "give numbers for what is a number") from None

    def check_using(self, using: Sketch) -> Sketch:
        """A prototype that somebody built, checked to be of this kind and empty."""
        if not isinstance(using, Sketch):
            raise ParameterError(f"using={using!r}", f"give an empty {self.kind.named}")
        self.kind.check(using)
        if isinstance(using, WindowSketch) and using.clock == ARRIVALS:
            raise ParameterError(
                "using a window of arrivals: rows of a table arrive in no order", "build it with window= ticks of time"
            )
        if isinstance(using, WindowSketch) != self.timed:
            other = f"{self.kind.prefix}_{'sketch' if self.timed else 'panes'}_agg"
            raise ParameterError(f"using a {type(using).__name__} with {self.name}", f"call {other}")
        if using != type(using).sized(**using.parameters):
            raise ParameterError(
                f"using a {type(using).__name__} with events in it", "give an empty one: it is used for every group"
            )
        return using


def parameters_of(make: Make) -> dict[str, Any]:
    """The parameters of a constructor in the order that SQL has them: its places, the window, then what is named.

    What stands before the window must be given, as the window must.

    >>> list(parameters_of(ECMSketch))[:4], list(parameters_of(SpaceSaving))
    (['epsilon', 'delta', 'window', 'counter'], ['epsilon'])
    """
    found = [each for each in inspect.signature(make).parameters.values() if each.name not in _LEFT_OUT]
    defaults = {each.name: each.default for each in found}
    if "window" not in defaults:
        return defaults
    return _with_window(defaults, [each.name for each in found if each.kind is each.POSITIONAL_OR_KEYWORD])


def _with_window(defaults: Mapping[str, Any], places: Sequence[str]) -> dict[str, Any]:
    needed = dict.fromkeys([*places, "window"], inspect.Parameter.empty)
    return {**needed, **{name: default for name, default in defaults.items() if name not in needed}}


# -- constructors that choose a class by name ---------------------------------------------------------------------

_DISTINCT: dict[str, Make] = {"ultraloglog": UltraLogLog, "bottom_k": BottomK, "fm": FMSketch}
_WINDOWED: dict[str, Make] = {
    "splitter": SplitterCountMin,
    "proportional": ProportionalCountMin,
    "simple": SimpleCountMin,
    "perfect": PerfectCountMin,
}


def _distinct(epsilon: float = 0.05, delta: float = 0.05, *, counter: str = "ultraloglog", seed: int = 0) -> Sketch:
    return _DISTINCT[check_choice("counter", counter, tuple(_DISTINCT))](epsilon, delta, seed=seed)


def _windowed(
    epsilon: float = 0.1,
    delta: float = 0.1,
    *,
    window: int,
    counter: str = "splitter",
    lateness: int | None = None,
    seed: int = 0,
) -> Sketch:
    kind = _WINDOWED[check_choice("counter", counter, tuple(_WINDOWED))]
    return kind(epsilon, delta, window=window, lateness=lateness, seed=seed)


def _counter(
    epsilon: float = 0.01,
    *,
    window: int,
    counter: str = "wave",
    delta: float = 0.01,
    lateness: int | None = None,
    seed: int = 0,
) -> Sketch:
    if check_choice("counter", counter, ("wave", "eh", "randomized")) == "randomized":
        return RandomizedWave(epsilon, delta, window=window, lateness=lateness, seed=seed)
    return (Wave if counter == "wave" else ExponentialHistogram)(epsilon, window=window, lateness=lateness)


def _paned(make: Make) -> Make:
    """Panes of what `make` builds."""

    def panes(*, window: int, panes: int = 60, lateness: int | None = None, **own: Any) -> Sketch:
        return Panes(make(**own), window, panes=panes, lateness=lateness)

    return panes


# -- the table ----------------------------------------------------------------------------------------------------

_KEY, _TIME = Argument("key", "key"), Argument("time", "ticks")
_WEIGHT = Argument("weight", "whole", optional=True)
_VALUE, _ATTRIBUTE = Argument("value", "whole"), Argument("attribute", "key")


def _in_time(prefix: str, make: Make, columns: tuple[Argument, ...], meaning: str, example: str) -> list[Recipe]:
    parameters = parameters_of(make)
    return [Recipe(KINDS[prefix], f"{prefix}_sketch_agg", columns, parameters, make, meaning, example)]


def _of_all_times(
    prefix: str, make: Make, columns: tuple[Argument, ...], meaning: str, taken: str, chosen: str
) -> list[Recipe]:
    """One over the whole history, and one of panes, which takes times as well."""
    own = parameters_of(make)
    places = [name for name in own if name in ("epsilon", "delta")]
    panes = _with_window({**own, "panes": 60, "lateness": None}, places)
    needed = [column for column in columns if not column.optional]
    timed = (*needed, _TIME, *(column for column in columns if column.optional))
    return [
        Recipe(KINDS[prefix], f"{prefix}_sketch_agg", columns, own, make, meaning, f"{taken}, {chosen}"),
        Recipe(
            KINDS[prefix],
            f"{prefix}_panes_agg",
            timed,
            panes,
            _paned(make),
            f"{meaning.rstrip('.')}, in the last `window` ticks.",
            f"{taken}, time, {chosen}, 3600",
        ),
    ]


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipes in (
        _in_time("ecm", ECMSketch, (_KEY, _TIME, _WEIGHT),
                 "Frequencies of keys in a sliding window.", "key, time, 0.05, 0.01, 3600"),
        _in_time("dyadic", DyadicECM, (Argument("key", "ordered"), _TIME, _WEIGHT),
                 "Ranges, quantiles and heavy hitters of ordered keys in a sliding window.",
                 "value, time, 0.05, 0.01, 3600"),
        _in_time("windowed_count_min", _windowed, (_KEY, _TIME, _WEIGHT),
                 "Frequencies of keys in a sliding window, by a windowed Count-Min.", "key, time, 0.1, 0.1, 3600"),
        _in_time("counter", _counter, (_TIME, _WEIGHT),
                 "The number of events in a sliding window.", "time, 0.05, 3600"),
        _of_all_times("count_min", CountMin, (_KEY, _WEIGHT), "Frequencies of keys.", "key", "0.01, 0.01"),
        _of_all_times("fast_ams", FastAMS, (_KEY, _WEIGHT),
                      "Self-joins, inner products and frequencies; weights may be negative.", "key", "0.1, 0.01"),
        _of_all_times("top_k", SpaceSaving, (_KEY, _WEIGHT), "The heaviest keys.", "key", "0.01"),
        _of_all_times("distinct", _distinct, (_KEY,), "The number of distinct keys.", "key", "0.05, 0.05"),
        _of_all_times("bloom", BloomFilter, (_KEY,), "The set of keys.", "key", "0.01, 0.01"),
        _of_all_times("value", ValueEstimator, (_KEY, _VALUE, _WEIGHT),
                      "The mean value of each key.", "key, value", "0.05, 0.1"),
        _of_all_times("tug_of_war", TugOfWar, (_KEY, _ATTRIBUTE),
                      "Self-joins of keys by distinct attributes.", "key, value", "0.5, 0.1"),
    )
    for recipe in recipes
}  # fmt: skip
