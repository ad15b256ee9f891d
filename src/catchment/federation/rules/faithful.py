"""Plan only what survives being read and written: sqlglot knows many dialects, and some words lose their meaning in it.

`listagg(s)` comes out as `LISTAGG(s, ',')`, `percentile_cont` as an approximation. So a query is written, read again
and compared with itself. If it is not the same, its own text is sent (`ship_all`), which costs more and is right.
"""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError

from catchment.federation.dialect import DIALECT
from catchment.federation.relation import Unplanned

__all__ = ["check_faithful"]


def check_faithful(tree: exp.Query) -> None:
    """Raise `Unplanned` if the tree, written and read again, is another one."""
    tree = tree.copy()
    for clause in list(tree.find_all(exp.Qualify)):
        clause.pop()  # Spark has none: it is written as a derived table
    try:
        written = tree.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.RAISE)
        again = parse_one(written, dialect=DIALECT)
    except SqlglotError as problem:
        raise Unplanned(f"it cannot be written again ({problem})") from None
    if _with_plain_casts(again) != _with_plain_casts(tree):
        raise Unplanned("a function in it changes when it is written again")


def _with_plain_casts(tree: exp.Expr) -> exp.Expr:
    """Casts of one kind: a literal `DATE '…'` and `CAST('…' AS DATE)` are read as two."""

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast):
            return exp.TryCast(this=node.this, to=node.to)
        return node

    return tree.copy().transform(plain)
