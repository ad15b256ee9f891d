"""Statements that Spark's parser takes for empty, and that are not."""

from __future__ import annotations

from catchment.errors import QueryError

__all__ = ["is_misread"]


def is_misread(sql: str, problem: QueryError) -> bool:
    """Whether a cloud says of a text that it is empty although it is not.

    Spark 4.3 does, about once in ten thousand statements, when several threads ask one JVM at the same time. A
    statement that was not read has not run, so it may be sent again, whatever it is.

    >>> problem = QueryError("cloud 'paris' cannot answer: [PARSE_EMPTY_STATEMENT] Syntax error", "mend it")
    >>> is_misread("SELECT 1", problem), is_misread(" ", problem), is_misread("SELECT", QueryError("no", "mend it"))
    (True, False, False)
    """
    return "[PARSE_EMPTY_STATEMENT]" in problem.problem and bool(sql.strip())
