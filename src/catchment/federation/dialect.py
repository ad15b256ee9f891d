"""Spark's SQL as it is read and written here, and the name of the one thing that our tables have more than Spark's."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel

__all__ = ["CLOUD_COLUMN", "DIALECT", "readable", "write"]

CLOUD_COLUMN = "_cloud"
"""The hidden column of every table: the name of the cloud that holds the row. No star shows it."""


DIALECT = Spark()
DIALECT.ESCAPED_SEQUENCES = {**DIALECT.ESCAPED_SEQUENCES, "\0": "\\000"}
"""Spark reads a zero byte that is written \\0 together with two digits that may stand behind it."""

_NEEDLESS_QUOTES = re.compile(r"`([a-z_]\w*)`")


def write(tree: exp.Expr, *, pretty: bool = False) -> str:
    """A tree as Spark reads it. A string that says ${name} keeps it: Spark would put a variable of its own there."""
    sql = tree.sql(dialect=DIALECT, pretty=pretty, comments=False, unsupported_level=ErrorLevel.IGNORE)
    return sql.replace("${", "$\\{")


def readable(sql: str) -> str:
    """SQL for people: without the quotes that its names do not need.

    >>> readable("SELECT `a`, `my column` FROM `t`")
    'SELECT a, `my column` FROM t'
    """
    return _NEEDLESS_QUOTES.sub(r"\1", sql)
