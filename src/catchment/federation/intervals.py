"""What a predicate says of one column: intervals of values that may hold, as far as an ordered copy can use them.

Values are compared in a domain where Python orders them as Spark does: whole numbers, dates as days and timestamps as
microseconds since 1970 are integers; strings are their UTF-8 bytes; other numbers are floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from sqlglot import exp

__all__ = ["EVERYTHING", "NULLS", "Domain", "Interval", "Value", "conjuncts", "domain_of", "intervals_of", "value_of"]

Value = Any
"""An integer, a float or bytes: within a domain all of a kind, and so in order."""

_EPOCH = date(1970, 1, 1)
_WHOLE = {"tinyint", "smallint", "int", "integer", "bigint", "boolean"}
_CASTS = (exp.Cast, exp.TryCast)
_TEXT_CASTS = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)


class Domain(StrEnum):
    """How values of a type are compared."""

    WHOLE = "whole"
    DATE = "date"
    TIMESTAMP = "timestamp"
    REAL = "real"
    TEXT = "text"


def domain_of(type_: str) -> Domain | None:
    """The domain of one of Spark's types; None for those without one order that files keep statistics by.

    >>> domain_of("decimal(10,2)"), domain_of("string"), domain_of("array<int>")
    (<Domain.REAL: 'real'>, <Domain.TEXT: 'text'>, None)
    """
    base = type_.lower().strip()
    if base in _WHOLE:
        return Domain.WHOLE
    if base in ("float", "double") or base.startswith("decimal"):
        return Domain.REAL
    if base == "string" or base.startswith("varchar("):
        return Domain.TEXT
    return {"date": Domain.DATE, "timestamp": Domain.TIMESTAMP, "timestamp_ntz": Domain.TIMESTAMP}.get(base)


@dataclass(frozen=True, slots=True)
class Interval:
    """Values from `low` to `high`, None where it is open-ended; or nulls and nothing else."""

    low: Value | None = None
    high: Value | None = None
    with_low: bool = True
    with_high: bool = True
    nulls: bool = False

    def is_point(self) -> bool:
        return self.low is not None and self.low == self.high and self.with_low and self.with_high

    def is_empty(self) -> bool:
        """Whether no value can be inside."""
        if self.nulls or self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and not (self.with_low and self.with_high))

    def meets(self, low: Value, high: Value) -> bool:
        """Whether some value of the closed range [low, high] may be inside.

        >>> Interval(3, 8, with_high=False).meets(8, 9), Interval(3, 8).meets(8, 9)
        (False, True)
        """
        if self.nulls or self.is_empty():
            return False
        return not _beyond(self.low, self.with_low, high) and not _beyond_high(self.high, self.with_high, low)

    def cut(self, other: Interval) -> Interval:
        """What is in both."""
        if self.nulls or other.nulls:
            return self if self.nulls and other.nulls else _NOTHING
        low, with_low = _tighter(self.low, self.with_low, other.low, other.with_low, highest=True)
        high, with_high = _tighter(self.high, self.with_high, other.high, other.with_high, highest=False)
        return Interval(low, high, with_low, with_high)


EVERYTHING = Interval()
"""Every value, but no null: what any comparison leaves at most."""
NULLS = Interval(nulls=True)
_NOTHING = Interval(1, 0)


def _beyond(low: Value | None, closed: bool, value: Value) -> bool:
    return low is not None and (low > value or (low == value and not closed))


def _beyond_high(high: Value | None, closed: bool, value: Value) -> bool:
    return high is not None and (high < value or (high == value and not closed))


def _tighter(
    one: Value | None, with_one: bool, two: Value | None, with_two: bool, *, highest: bool
) -> tuple[Value | None, bool]:
    if one is None or two is None:
        return (two, with_two) if one is None else (one, with_one)
    if one == two:
        return one, with_one and with_two
    return (one, with_one) if (one > two) is highest else (two, with_two)


def conjuncts(predicate: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a predicate that must all hold."""
    if isinstance(predicate, exp.Paren):
        yield from conjuncts(predicate.this)
    elif isinstance(predicate, exp.And):
        yield from conjuncts(predicate.left)
        yield from conjuncts(predicate.right)
    elif predicate is not None:
        yield predicate


def intervals_of(predicate: exp.Expr, column: str, domain: Domain) -> tuple[Interval, ...] | None:
    """Where a column's values lie if a predicate over this column holds; None if the predicate is not of that kind.

    No value that satisfies the predicate is outside; some inside may not satisfy it (`LIKE 'a%b'`).

    >>> from sqlglot import parse_one
    >>> intervals_of(parse_one("c BETWEEN 3 AND 8 AND c <> 5"), "c", Domain.WHOLE) is None
    True
    >>> intervals_of(parse_one("c = 3 OR c > 8"), "c", Domain.WHOLE)
    (Interval(low=3, high=3, ...), Interval(low=8, high=None, with_low=False, ...))
    """
    match predicate:
        case exp.Paren():
            return intervals_of(predicate.this, column, domain)
        case exp.And():
            left, right = (intervals_of(side, column, domain) for side in (predicate.left, predicate.right))
            return None if left is None or right is None else intersection(left, right)
        case exp.Or():
            left, right = (intervals_of(side, column, domain) for side in (predicate.left, predicate.right))
            return None if left is None or right is None else (*left, *right)
        case exp.Not(this=exp.Is(this=exp.Column() as asked, expression=exp.Null())):
            return (EVERYTHING,) if _is(asked, column) else None
        case exp.Not(this=exp.LT() | exp.LTE() | exp.GT() | exp.GTE() as compared):
            return _compared(_OPPOSITE[type(compared)](**compared.args), column, domain)
        case exp.Is(this=exp.Column() as asked, expression=exp.Null()):
            return (NULLS,) if _is(asked, column) else None
        case exp.In():
            return _listed(predicate, column, domain)
        case exp.Between(this=exp.Column() as asked):
            low, high = (value_of(predicate.args[end], domain) for end in ("low", "high"))
            known = _is(asked, column) and low is not None and high is not None and not predicate.args.get("symmetric")
            return (Interval(low, high),) if known else None
        case exp.Like(this=exp.Column() as asked, expression=exp.Literal(is_string=True) as pattern):
            return _like(str(pattern.this)) if _is(asked, column) and domain is Domain.TEXT else None
        case exp.StartsWith(this=exp.Column() as asked, expression=exp.Literal(is_string=True) as prefix):
            return (_prefix(str(prefix.this)),) if _is(asked, column) and domain is Domain.TEXT else None
        case exp.EQ() | exp.NullSafeEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compared(predicate, column, domain)
    return None


def intersection(left: Iterable[Interval], right: Iterable[Interval]) -> tuple[Interval, ...]:
    """What is in one of the left and in one of the right."""
    others = tuple(right)
    return tuple(cut for one in left for other in others if not (cut := one.cut(other)).is_empty())


def _is(node: exp.Column, column: str) -> bool:
    return node.name.lower() == column.lower()


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE,
}  # fmt: skip

_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT,
}  # fmt: skip


def _compared(predicate: exp.Expr, column: str, domain: Domain) -> tuple[Interval, ...] | None:
    left, right, kind = predicate.this, predicate.expression, type(predicate)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        left, right, kind = right, left, _MIRRORED.get(kind, kind)
    if not (isinstance(left, exp.Column) and _is(left, column)):
        return None
    if kind is exp.NullSafeEQ and isinstance(right, exp.Null):
        return (NULLS,)
    value = value_of(right, domain)
    if value is None:
        return None
    if kind in (exp.LT, exp.LTE):
        return (Interval(high=value, with_high=kind is exp.LTE),)
    if kind in (exp.GT, exp.GTE):
        return (Interval(low=value, with_low=kind is exp.GTE),)
    return (Interval(value, value),)


def _listed(predicate: exp.In, column: str, domain: Domain) -> tuple[Interval, ...] | None:
    if not isinstance(predicate.this, exp.Column) or not _is(predicate.this, column) or not predicate.expressions:
        return None
    values = [value_of(item, domain) for item in predicate.expressions]
    if any(value is None for value in values):
        return None
    return tuple(Interval(value, value) for value in dict.fromkeys(values))


def _like(pattern: str) -> tuple[Interval, ...] | None:
    """A pattern of plain text and %: Spark's reader uses what is before the first %, and so does the interval."""
    if "_" in pattern or "\\" in pattern or pattern.startswith("%") or pattern.count("%") > 2:
        return None
    prefix, percent, _ = pattern.partition("%")
    return (_prefix(prefix),) if percent else (Interval(prefix.encode(), prefix.encode()),)


def _prefix(prefix: str) -> Interval:
    text = prefix.encode()
    # No byte of UTF-8 is 0xFF, so the last one can be raised.
    return Interval(text, text[:-1] + bytes([text[-1] + 1]), with_high=False) if text else EVERYTHING


def value_of(node: exp.Expr, domain: Domain) -> Value | None:
    """The value of a constant that Spark compares in this domain without touching the column, or None."""
    if isinstance(node, exp.Paren):
        return value_of(node.this, domain)
    if isinstance(node, exp.Neg):
        value = value_of(node.this, domain)
        return -value if isinstance(value, int | float) and domain in (Domain.WHOLE, Domain.REAL) else None
    if isinstance(node, exp.Boolean):
        return int(bool(node.this)) if domain is Domain.WHOLE else None
    if isinstance(node, exp.TsOrDsToDate) and domain in (Domain.DATE, Domain.TIMESTAMP):
        return value_of(node.this, domain) if not node.args.get("format") else None
    if isinstance(node, _CASTS):
        return _cast(node, domain)
    if not isinstance(node, exp.Literal):
        return None
    return _parsed(str(node.this), bool(node.is_string), domain)


def _cast(node: exp.Expr, domain: Domain) -> Value | None:
    to = node.args["to"].this
    if not isinstance(node.this, exp.Literal | exp.Neg):
        return None
    fits = {
        Domain.WHOLE: to in exp.DataType.SIGNED_INTEGER_TYPES,
        Domain.REAL: to in exp.DataType.NUMERIC_TYPES,
        Domain.TEXT: to in _TEXT_CASTS and isinstance(node.this, exp.Literal) and node.this.is_string,
        Domain.DATE: to == exp.DataType.Type.DATE,
        Domain.TIMESTAMP: to in exp.DataType.TEMPORAL_TYPES,
    }[domain]
    return value_of(node.this, domain) if fits else None


def _parsed(text: str, is_string: bool, domain: Domain) -> Value | None:
    if domain is Domain.TEXT:
        return text.encode() if is_string else None
    if domain in (Domain.DATE, Domain.TIMESTAMP):
        return _moment(text, domain) if is_string else None
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if domain is Domain.REAL and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text):
        return float(text)
    return None


def _moment(text: str, domain: Domain) -> int | None:
    if domain is Domain.DATE and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        if domain is Domain.DATE:
            return (date.fromisoformat(text) - _EPOCH).days
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)
