"""What the tabulator key offers: keywords, functions, tables and columns that fit what is typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["DELIMITERS", "candidates"]

DELIMITERS = " \t\n\"'`@$><=;|&{}()[],+-*/%!~^"
"""What ends a word; a point does not, as in `visits.day` and `.help`."""

_KEYWORDS = re.findall(
    r"\w+",
    """
    ALL ANALYZE AND AS ASC BETWEEN BY CASE CREATE CROSS CUBE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXPLAIN
    FALSE FROM FULL GROUP HAVING IF IN INCLUDE INDEX INDEXES INNER INTERSECT INTERVAL IS JOIN LEFT LIKE LIMIT MINUS NOT
    NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION REFRESH RIGHT ROLLUP SELECT SEMI SHOW TABLE TABLES THEN TRUE
    UNION USING VALUES WHEN WHERE WINDOW WITH
    """,
)
_RELATION = re.compile(r"\b(?:FROM|JOIN|,)\s+`?(\w+)`?(?:\s+(?:AS\s+)?`?(\w+)`?)?", re.IGNORECASE)


def candidates(
    before: str,
    word: str,
    tables: Mapping[str, Sequence[str]],
    *,
    functions: Iterable[str] = (),
    commands: Iterable[str] = (),
) -> list[str]:
    """The words that may stand in place of `word`.

    Parameters
    ----------
    before
        The statement up to the word.
    word
        What is typed of it.
    tables
        The columns of each table.
    functions, commands
        Names of functions; commands of the shell, which begin with a point.

    >>> tables = {"visits": ["day", "source"], "pages": ["rank"]}
    >>> candidates("SELECT ", "so", tables), candidates("SELECT v.", "v.d", tables), candidates("select ", "wh", tables)
    (['source'], [], ['when', 'where'])
    >>> candidates("SELECT * FROM visits v WHERE ", "v.d", tables), candidates("FROM ", "p", tables)
    (['v.day'], ['pages', 'partition'])
    """
    if word.startswith("."):
        return [command for command in commands if command.startswith(word)] if not before.strip() else []
    aliases = {name.lower(): name.lower() for name in tables}
    named = []
    for table, alias in _RELATION.findall(before):
        if table.lower() in tables:
            named.append(table.lower())
            if alias and alias.upper() not in _KEYWORDS:
                aliases[alias.lower()] = table.lower()
    if "." in word:
        owner, _, start = word.rpartition(".")
        columns = tables.get(aliases.get(owner.lower(), ""), ())
        return [f"{owner}.{column}" for column in columns if column.lower().startswith(start.lower())]
    lower = word.islower() or not word
    words = [keyword.lower() if lower else keyword for keyword in _KEYWORDS]
    words += [*tables, *(f"{name}(" for name in functions)]
    words += [column for table in (named or tables) for column in tables[table]]
    return sorted({each for each in words if each.lower().startswith(word.lower())}, key=str.lower)
