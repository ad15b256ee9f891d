"""Plan: which columns become which sketches, checked against the schema before Spark sees any of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import signature

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from catchment.errors import InputError, KeyTypeError, ParameterError, TimeError, WeightError
from catchment.sketch.base import Sketch
from catchment.window.base import WindowSketch
from catchment.window.durations import microseconds
from catchment.window.dyadic import DyadicECM
from catchment.window.gather import kind_of
from catchment.window.ordered import FLOAT, IPV4

__all__ = ["Measure", "Plan", "SketchOf", "plain", "unplain"]

_INPUTS = ("keys", "weights", "values", "attributes")
_KEY_CURE = "choose a column of integers, strings or binary, or cast it, for instance to string"


@dataclass(frozen=True, slots=True)
class SketchOf:
    """A sketch of named columns, where several are made of one DataFrame.

    `using` is an empty sketch, built as everywhere else; the rest are names of columns.
    """

    using: Sketch
    keys: str | None = None
    weights: str | None = None
    values: str | None = None
    attributes: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One sketch of a plan as tasks need it: its bytes, and where its columns are."""

    name: str
    blank: bytes
    inputs: tuple[tuple[str, str], ...]
    """What `update` takes, by name, and the column of the projected DataFrame that holds it."""
    hashed: bool
    """Whether the keys come as hashes, made on the JVM."""

    @property
    def using(self) -> Sketch:
        return Sketch.from_bytes(self.blank)


@dataclass(frozen=True, slots=True)
class Plan:
    """Measures over one DataFrame, a group for each combination of the `by` columns."""

    by: tuple[StructField, ...]
    time: str | None
    tick: int
    """Microseconds."""
    counted: bool
    """Whether the column of times counts ticks already, instead of microseconds."""
    measures: tuple[Measure, ...]
    named: bool
    """Whether the result says which measure a sketch is of."""

    @classmethod
    def of(
        cls,
        df: DataFrame,
        using: Sketch | Mapping[str, Sketch | SketchOf],
        *,
        keys: str | None = None,
        time: str | None = None,
        by: str | Iterable[str] = (),
        weights: str | None = None,
        values: str | None = None,
        attributes: str | None = None,
        tick: str = "1 second",
        taken: Iterable[str] = ("part", "sketch"),
    ) -> tuple[Plan, DataFrame]:
        """The plan, and the columns that it needs of the DataFrame; raises what is wrong with either.

        `taken` are names that no column of `by` may have, since columns of the result, or on the way there, have them.
        """
        schema = df.schema
        shared = {"keys": keys, "weights": weights, "values": values, "attributes": attributes}
        named = isinstance(using, Mapping)
        sketches = dict(using) if isinstance(using, Mapping) else {"sketch": using}
        if not sketches:
            raise ParameterError("no sketches", "give at least one")
        wanted = {name: _completed(name, sketch, shared) for name, sketch in sketches.items()}
        groups = tuple(_field(schema, "by", column) for column in ((by,) if isinstance(by, str) else tuple(by)))
        length = microseconds("tick", tick)
        if length < 1:
            raise ParameterError(f"tick={tick!r}", "give at least one microsecond")
        counted = True
        _check_groups(groups, {*taken, *(("name",) if named else ())})
        projected: dict[str, Column] = {plain(field.name): sql.col(_quoted(field.name)) for field in groups}
        if time is None:
            needs = [name for name, each in wanted.items() if isinstance(each.using, WindowSketch)]
            if needs:
                raise TimeError(f"no time for {needs[0]}", "give time=, a column of timestamps or of integers")
        else:
            kind = _field(schema, "time", time).dataType
            counted = isinstance(kind, IntegralType)
            if not counted and not isinstance(kind, TimestampType | TimestampNTZType):
                raise TimeError(
                    f"the time column {time} is of type {kind.simpleString()}",
                    "give timestamps, or integers that count ticks; cast it, for instance with to_timestamp",
                )
            column = sql.col(_quoted(time))
            projected["time:"] = column.cast("bigint") if counted else sql.unix_micros(column.cast("timestamp"))
        measures = tuple(_measure(schema, name, each, projected) for name, each in wanted.items())
        plan = cls(groups, time, length, counted, measures, named)
        return plan, df.select(*(column.alias(name) for name, column in projected.items()))

    def unhashed(self) -> Plan:
        """The same for tasks that read the columns themselves, and so hash the keys too."""
        return replace(
            self,
            measures=tuple(
                replace(
                    measure,
                    hashed=False,
                    inputs=tuple((role, place.replace("hash:", "raw:", 1)) for role, place in measure.inputs),
                )
                for measure in self.measures
            ),
        )

    @property
    def groups(self) -> list[StructField]:
        """The columns of `by` on the way to the result, under names that Spark's Python does not take apart."""
        return [StructField(plain(field.name), field.dataType, field.nullable) for field in self.by]

    def parts_schema(self) -> StructType:
        """What tasks send: a group, which measure, and its events."""
        fields = [StructField("name", StringType(), False)] if self.named else []
        return StructType([*self.groups, *fields, StructField("part", BinaryType(), False)])

    def result_schema(self) -> StructType:
        """One row for each group and measure."""
        fields = [StructField("name", StringType(), False)] if self.named else []
        return StructType([*self.by, *fields, StructField("sketch", BinaryType(), False)])


def _check_groups(groups: tuple[StructField, ...], taken: set[str]) -> None:
    """Refuse columns to group by whose names clash, as Spark compares names, or whose values cannot be told apart."""
    names = [field.name.lower() for field in groups]
    clash = [name for name in names if name in taken or name.startswith(("time:", "raw:", "hash:"))]
    if clash or len(set(names)) < len(names):
        raise ParameterError(
            f"by={[field.name for field in groups]}",
            f"name each column once, and rename those called {', '.join(sorted(taken))}, time:, raw: or hash:",
        )
    for field in groups:
        if isinstance(field.dataType, ArrayType | MapType | StructType | VariantType | YearMonthIntervalType):
            raise ParameterError(
                f"by={field.name!r} is of type {field.dataType.simpleString()}",
                "group by its fields, or by what it is as text: cast it to string",
            )


def _completed(name: str, sketch: Sketch | SketchOf, shared: Mapping[str, str | None]) -> SketchOf:
    """The sketch with the columns that were given for all, where it has none of its own; refused if it is not empty."""
    own = sketch if isinstance(sketch, SketchOf) else SketchOf(sketch, **shared)
    if not isinstance(own.using, Sketch):
        raise ParameterError(
            f"using={own.using!r} for {name}", "give an empty sketch, such as ECMSketch(0.05, 0.05, window=3600)"
        )
    kind_of(own.using).gatherer(own.using)  # refuses what cannot be gathered
    if own.using != type(own.using).sized(**own.using.parameters):
        raise ParameterError(f"the {type(own.using).__name__} for {name} has events in it", "give an empty one")
    return own


def _measure(schema: StructType, name: str, each: SketchOf, projected: dict[str, Column]) -> Measure:
    takes = _takes(each.using)
    inputs = []
    hashed = False
    for role in _INPUTS:
        column = getattr(each, role)
        if column is None:
            if role in each.using.inputs:
                raise InputError(f"no {role} for {name}", f"a {type(each.using).__name__} needs {role}=, a column")
            continue
        if role not in takes:
            raise InputError(
                f"{role}={column!r} for {name}", f"a {type(each.using).__name__} takes {', '.join(sorted(takes))}"
            )
        kind = _field(schema, role, column).dataType
        value = sql.col(_quoted(column))
        if role == "keys":
            hashed = _hashes(each.using, column, kind) and each.attributes is None
        elif role == "attributes":
            _check_key(column, kind)
        elif not isinstance(kind, IntegralType):
            raise WeightError(
                f"the {role} column {column} is of type {kind.simpleString()}",
                "give integers; scale fractions, for instance to microseconds",
            )
        if isinstance(kind, IntegralType):
            value = value.cast("bigint")
        place = f"{'hash' if hashed and role == 'keys' else 'raw'}:{plain(column)}"
        # A null stays a null: Spark hashes it to the bare seed.
        projected[place] = sql.when(value.isNotNull(), sql.xxhash64(value)) if place.startswith("hash") else value
        inputs.append((role, place))
    _rehearse(name, each.using, [role for role, _ in inputs])
    return Measure(name, each.using.to_bytes(), tuple(inputs), hashed)


def _takes(using: Sketch) -> set[str]:
    """The columns that a sketch's update can take."""
    return set(_INPUTS) & set(signature(getattr(using, "prototype", using).update).parameters)


def _rehearse(name: str, using: Sketch, roles: Iterable[str]) -> None:
    """Update a copy with one event, so that the sketch itself says what it misses: no task need find out."""
    one = np.ones(1, dtype=np.int64)
    given = dict.fromkeys(roles, one) | ({"at": one} if isinstance(using, WindowSketch) else {})
    try:
        using.copy().update(**given)
    except InputError as problem:
        raise type(problem)(f"{name}: {problem.problem}", problem.cure) from None


def _hashes(using: Sketch, column: str, kind: DataType) -> bool:
    """Whether to hash on the JVM: text and binary that nobody needs to name; refuses what cannot be a key."""
    if isinstance(using, DyadicECM):
        fits = isinstance(kind, IntegralType)
        fits |= using.order == FLOAT and isinstance(kind, DoubleType | FloatType)
        fits |= using.order == IPV4 and isinstance(kind, StringType)
        if not fits:
            raise KeyTypeError(
                f"the key column {column} is of type {kind.simpleString()}",
                f"a DyadicECM with order={using.order!r} takes integers"
                + {FLOAT: " and floating-point numbers", IPV4: " and addresses as text"}.get(
                    using.order, "; see order="
                ),
            )
        return False
    _check_key(column, kind)
    return not using.names_keys and not isinstance(kind, IntegralType)


def _check_key(column: str, kind: DataType) -> None:
    if not isinstance(kind, IntegralType | StringType | BinaryType):
        raise KeyTypeError(f"the key column {column} is of type {kind.simpleString()}", _KEY_CURE)


def _field(schema: StructType, role: str, column: str) -> StructField:
    if not isinstance(column, str) or column not in schema.names:
        raise ParameterError(f"{role}={column!r} is no column", f"there are {', '.join(schema.names)}")
    return schema[column]


def plain(name: str) -> str:
    """A name for a column without dots and backticks, which `DataFrame.mapInArrow` and its like read as syntax.

    >>> plain("url"), plain("page.url")
    ('url', 'page%2Eurl')
    """
    return name.replace("%", "%25").replace(".", "%2E").replace("`", "%60")


def unplain(name: str) -> str:
    """The name that `plain` was given."""
    return name.replace("%60", "`").replace("%2E", ".").replace("%25", "%")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
