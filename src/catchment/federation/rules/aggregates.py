"""How each aggregate function is split: what a cloud computes of its rows, and what is made of all clouds' values.

The result and its type are those of the function over all rows. Sums of decimals are cast back to the type that one sum
has; averages are made of sum and count in the types that Spark uses inside; variances of count, mean and second moment
by the stable way of combining two of them. Distinct aggregates group the partials by their argument as well, so that a
value crosses a border once for each group and cloud. Approximate ones send sketch states, whose merge loses nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from sqlglot import exp, parse_one

from catchment.federation.dialect import DIALECT
from catchment.federation.grants import function_name
from catchment.federation.relation import column

__all__ = ["Partials", "of_one_row", "split"]

_SAME = {"min", "max", "bool_and", "every", "bool_or", "any", "some", "bit_and", "bit_or", "bit_xor"}
"""Functions of which the function of the parts is the function of the whole."""
_COUNTS = {"count", "count_if"}
_VARIANCES = {
    "var_pop": "s.m2 / s.n",
    "stddev_pop": "sqrt(s.m2 / s.n)",
    "var_samp": "CASE WHEN s.n > 1 THEN s.m2 / (s.n - 1) END",
    "variance": "CASE WHEN s.n > 1 THEN s.m2 / (s.n - 1) END",
    "stddev_samp": "CASE WHEN s.n > 1 THEN sqrt(s.m2 / (s.n - 1)) END",
    "stddev": "CASE WHEN s.n > 1 THEN sqrt(s.m2 / (s.n - 1)) END",
    "std": "CASE WHEN s.n > 1 THEN sqrt(s.m2 / (s.n - 1)) END",
}
_STATES = {
    "hll_sketch_agg": "hll_union_agg",
    "hll_union_agg": "hll_union_agg",
    "kll_sketch_agg_bigint": "kll_merge_agg_bigint",
    "kll_sketch_agg_float": "kll_merge_agg_float",
    "kll_sketch_agg_double": "kll_merge_agg_double",
    "kll_merge_agg_bigint": "kll_merge_agg_bigint",
    "kll_merge_agg_float": "kll_merge_agg_float",
    "kll_merge_agg_double": "kll_merge_agg_double",
    "theta_sketch_agg": "theta_union_agg",
    "theta_union_agg": "theta_union_agg",
}
"""Sketches that are asked for by name: the union of the parts' states is a state of the whole."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_NUMBERS = _INTEGERS | {"float", "double", "string", "void"}


class Partials:
    """The partial values of a block, each once, and what else the partials are grouped by."""

    def __init__(self, types_of: Callable[[list[exp.Expr]], list[str]]) -> None:
        self.values: dict[exp.Expr, str] = {}
        self.extra_keys: dict[exp.Expr, str] = {}
        self._types_of = types_of
        self._types: dict[exp.Expr, str] = {}

    def prepare(self, calls: Iterable[exp.Expr]) -> None:
        """Learn the types of all arguments on which a split depends, at once."""
        wanted: dict[exp.Expr, None] = {}
        for call in calls:
            function = call.this if isinstance(call, exp.Filter) else call
            if isinstance(function, exp.Func) and function_name(function) in _TYPED:
                argument = _argument(function)
                if not isinstance(argument, exp.Distinct):
                    wanted[argument] = None
        if wanted:
            self._types = dict(zip(wanted, self._types_of(list(wanted)), strict=True))

    def type_of(self, value: exp.Expr) -> str:
        return self._types[value]

    def add(self, value: exp.Expr, where: exp.Expr | None = None) -> exp.Column:
        """A partial value, of the rows for which `where` holds."""
        if where is not None:
            value = exp.Filter(this=value, expression=exp.Where(this=where.copy()))
        name = self.values.setdefault(value, f"_p{len(self.values)}")
        return column(name, "p")

    def key(self, value: exp.Expr) -> exp.Column:
        """A value by which the partials are grouped as well."""
        name = self.extra_keys.setdefault(value, f"_d{len(self.extra_keys)}")
        return column(name, "p")


def of_one_row(value: exp.Expr, kind: str) -> exp.Expr | None:
    """What a partial value of this type is of a single row; None where that is no simple expression.

    >>> of_one_row(parse_one("sum(a + 1)"), "bigint").sql(), of_one_row(parse_one("count(NOT a)"), "bigint").sql()
    ('CAST(a + 1 AS BIGINT)', 'CAST(CASE WHEN (NOT a) IS NULL THEN 0 ELSE 1 END AS BIGINT)')
    """
    argument: exp.Expr = value.this
    if isinstance(argument, exp.Distinct) or value.expressions:
        return None
    if isinstance(value, exp.Min | exp.Max):
        return argument.copy()
    if not isinstance(value, exp.Sum | exp.Count) or not (kind in ("bigint", "double") or _DECIMAL.fullmatch(kind)):
        return None
    if isinstance(value, exp.Sum):
        return exp.cast(argument.copy(), kind, dialect=DIALECT)
    one, nothing = exp.Literal.number(1), exp.Literal.number(0)
    if isinstance(argument, exp.Star):
        return exp.cast(one, kind, dialect=DIALECT)
    if argument.find(exp.Star):
        return None
    missing = exp.Is(this=exp.Paren(this=argument.copy()), expression=exp.null())
    return exp.cast(exp.case().when(missing, nothing).else_(one), kind, dialect=DIALECT)


def split(call: exp.Expr, partials: Partials) -> exp.Expr | None:
    """The final form of an aggregate over the partials, or None if there is none."""
    where = None
    if isinstance(call, exp.Filter):
        where, call = call.expression.this, call.this
    if not isinstance(call, exp.Func):
        return None
    name = function_name(call)
    if isinstance(call.this, exp.Distinct):
        return _distinct(name, call, where, partials)
    if name in _SAME:
        return _call(name, partials.add(call.copy(), where))
    if name in _COUNTS:
        # Partials that are grouped by a distinct value as well are none where there is no row: that counts as nothing.
        return _or_zero(exp.Sum(this=partials.add(call.copy(), where)))
    if name in _STATES and not call.args.get("ignore_nulls"):
        return _call(_STATES[name], partials.add(call.copy(), where))
    splitter = _SPLITTERS.get(name)
    return None if splitter is None else splitter(call, where, partials)


def _sum(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    total: exp.Expr = exp.Sum(this=partials.add(call.copy(), where))
    if size := _DECIMAL.fullmatch(partials.type_of(_argument(call))):
        return _cast(total, f"decimal({min(38, int(size[1]) + 10)},{size[2]})")
    return total


def _avg(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    kind = partials.type_of(_argument(call))
    value = _argument(call).copy()
    count = exp.Sum(this=partials.add(exp.Count(this=value.copy()), where))
    some = exp.Nullif(this=count, expression=exp.Literal.number(0))
    if size := _DECIMAL.fullmatch(kind):
        return _decimal_ratio(partials.add(exp.Sum(this=value), where), some, int(size[1]), int(size[2]))
    if kind not in _NUMBERS:
        return None
    total = exp.Sum(this=partials.add(exp.Sum(this=_cast(value, "double")), where))
    return exp.Paren(this=exp.Div(this=total, expression=some, typed=False, safe=False))


def _decimal_ratio(part: exp.Expr, count: exp.Expr, digits: int, scale: int) -> exp.Expr:
    """The average of decimals, in the type that it has, rounded once as Spark does.

    Spark divides without limit of digits and rounds the quotient. Division in SQL keeps 38 digits for whatever the
    operands' types could hold, so it gets types that leave the quotient eleven digits more than it needs; sums and
    counts too large for them are divided as they are.
    """
    total = _cast(exp.Sum(this=part), f"decimal({min(38, digits + 10)},{scale})").sql(dialect=DIALECT)
    number = count.sql(dialect=DIALECT)
    many = max(4, 14 - max(0, scale - 14))
    exact = f"TRY_CAST({total} AS DECIMAL({37 - many},{scale})) / TRY_CAST({number} AS DECIMAL({many},0))"
    rough = f"{total} / CAST({number} AS DECIMAL(20,0))"
    kind = f"DECIMAL({min(38, digits + 4)},{min(38, scale + 4)})"
    return _parsed(f"COALESCE(CAST({exact} AS {kind}), CAST({rough} AS {kind}))")


def _variance(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    """Chan's way: moments about the parts' own means are moved to the common mean, which cancels nothing."""
    value = _cast(_argument(call).copy(), "double")
    n = partials.add(exp.Count(this=value.copy()), where).sql(dialect=DIALECT)
    mean = partials.add(exp.Avg(this=value.copy()), where).sql(dialect=DIALECT)
    spread = partials.add(exp.VariancePop(this=value.copy()), where).sql(dialect=DIALECT)
    formula = _VARIANCES[function_name(call)]
    return _parsed(
        f"aggregate(collect_list(CASE WHEN {n} > 0 THEN named_struct('n', CAST({n} AS DOUBLE), 'mean', {mean}, "
        f"'m2', {spread} * {n}) END), "
        "named_struct('n', CAST(0 AS DOUBLE), 'mean', CAST(0 AS DOUBLE), 'm2', CAST(0 AS DOUBLE)), "
        "(a, b) -> named_struct('n', a.n + b.n, 'mean', a.mean + (b.mean - a.mean) * (b.n / (a.n + b.n)), "
        "'m2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * (a.n * b.n / (a.n + b.n))), "
        f"s -> CASE WHEN s.n > 0 THEN {formula} END)"
    )


def _approximate_distinct(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    """HyperLogLog states of Spark's own; as large as the error that is asked for (0.05 by default) needs."""
    error = call.args.get("accuracy")
    if error is not None and not (isinstance(error, exp.Literal) and not error.is_string):
        return None
    wanted = float(error.name) if error is not None else 0.05
    bits = next((bits for bits in range(4, 21) if 1.04 / 2 ** (bits / 2) <= wanted), 21)
    value = _argument(call).sql(dialect=DIALECT)
    # Any type has a hash; a null has one too, and must not be counted.
    state = _parsed(f"hll_sketch_agg(CASE WHEN ({value}) IS NOT NULL THEN xxhash64({value}) END, {max(bits, 12)})")
    return _or_zero(_call("hll_sketch_estimate", _call("hll_union_agg", partials.add(state, where))))


def _approximate_percentile(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    """KLL states, large enough that a rank is off by at most 1 in `accuracy` (10,000 by default), nearly always."""
    ranks, accuracy = call.args.get("quantile"), call.args.get("accuracy")
    if ranks is None or (accuracy is not None and not (isinstance(accuracy, exp.Literal) and accuracy.is_int)):
        return None
    kind = partials.type_of(_argument(call))
    family = "bigint" if kind in _INTEGERS else "double" if kind in ("float", "double") else None
    if family is None:
        return None
    # The rank error of a KLL sketch is about 2.446 / k ** 0.9433; Spark takes k up to 65,535.
    wanted = int(accuracy.name) if accuracy is not None else 10_000
    size = min(65_535, max(200, math.ceil((2.446 * wanted) ** (1 / 0.9433))))
    value = _cast(_argument(call).copy(), family).sql(dialect=DIALECT)
    state = partials.add(_parsed(f"kll_sketch_agg_{family}({value}, {size})"), where).sql(dialect=DIALECT)
    merged = f"kll_merge_agg_{family}({state})"
    result = f"ARRAY<{kind}>" if isinstance(ranks, exp.Array) else kind
    found = f"CAST(kll_sketch_get_quantile_{family}({merged}, {ranks.sql(dialect=DIALECT)}) AS {result})"
    return _parsed(f"CASE WHEN COALESCE(kll_sketch_get_n_{family}({merged}), 0) > 0 THEN {found} END")


def _any_value(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    """The value of a cloud that has rows."""
    there = partials.add(exp.Count(this=exp.Star()), where)
    value = partials.add(call.copy(), where)
    filled = exp.GT(this=there, expression=exp.Literal.number(0))
    return exp.Filter(this=_call(function_name(call), value), expression=exp.Where(this=filled))


def _extreme_by(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    name = function_name(call)
    if call.args.get("count") is not None:
        return None
    order = call.expression
    best = _call(name.split("_")[0], order.copy())
    return _call(name, partials.add(call.copy(), where), partials.add(best, where))


def _collect_list(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    if call.args.get("order") is not None or isinstance(call.this, exp.Order):
        return None
    return _call("flatten", _call("collect_list", partials.add(call.copy(), where)))


def _collect_set(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    return _call("collect_set", partials.key(_where(_argument(call), where)))


def _percentile(call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    """Exact: values cross with how often each cloud has them."""
    name = function_name(call)
    given = list(call.iter_expressions())
    if name == "percentile" and len(given) != 2:
        return None
    value = partials.key(_where(_argument(call), where))
    often = partials.add(exp.Count(this=exp.Star()))
    rank = given[1].copy() if name == "percentile" else exp.Literal.number("0.5")
    return _call("percentile", value, rank, often)


def _distinct(name: str, call: exp.Func, where: exp.Expr | None, partials: Partials) -> exp.Expr | None:
    if name not in ("count", "sum", "avg", "mean", "min", "max", "collect_list", "collect_set", "any_value"):
        return None
    keys: list[exp.Expr] = [partials.key(_where(value, where)) for value in call.this.expressions]
    fresh = call.copy()
    fresh.set("this", exp.Distinct(expressions=keys))
    return fresh


def _argument(call: exp.Func) -> exp.Expr:
    """The first argument; a function that the parser does not know keeps its name where others keep that."""
    found = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
    assert isinstance(found, exp.Expr)
    return found


def _or_zero(value: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])


def _where(value: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """The value where a condition holds, a null elsewhere; every function here passes nulls over."""
    if where is None:
        return value.copy()
    return exp.Case(ifs=[exp.If(this=where.copy(), true=value.copy())])


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _cast(value: exp.Expr, kind: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType.build(kind, dialect=DIALECT))


def _parsed(sql: str) -> exp.Expr:
    return parse_one(sql, dialect=DIALECT)


_SPLITTERS: dict[str, Callable[[exp.Func, exp.Expr | None, Partials], exp.Expr | None]] = {
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    **dict.fromkeys(_VARIANCES, _variance),
    "approx_count_distinct": _approximate_distinct,
    "approx_percentile": _approximate_percentile,
    "percentile_approx": _approximate_percentile,
    "any_value": _any_value,
    "first": _any_value,
    "first_value": _any_value,
    "max_by": _extreme_by,
    "min_by": _extreme_by,
    "collect_list": _collect_list,
    "array_agg": _collect_list,
    "collect_set": _collect_set,
    "percentile": _percentile,
    "median": _percentile,
}
_TYPED = {"sum", "avg", "mean", "approx_percentile", "percentile_approx"}
