"""What a text asks for: a query, its explanation, or one of the few statements about tables and indexes.

The grammar is Spark's. A text holds one statement; anything else is refused with its place and a cure, before a cloud
hears of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from catchment.errors import StatementError
from catchment.federation.dialect import DIALECT
from catchment.federation.grants import check_grants

__all__ = [
    "CreateIndex",
    "Describe",
    "DropIndex",
    "Explain",
    "Query",
    "RefreshIndex",
    "ShowIndexes",
    "ShowTables",
    "Statement",
    "parse_statement",
]


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, WITH or set operation: its text as it was written, and its tree."""

    text: str
    tree: exp.Query


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN query`, or `EXPLAIN ANALYZE query`, which runs it and adds what was true."""

    query: Query
    run: bool


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """`CREATE INDEX [IF NOT EXISTS] name ON table(column) [INCLUDE (a, b)]`; without INCLUDE it covers all columns."""

    name: str
    table: str
    column: str
    include: tuple[str, ...] | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """`DROP INDEX [IF EXISTS] name [ON table]`."""

    name: str
    table: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshIndex:
    """`REFRESH INDEX name`: take in the files that came, drop what changed."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """`SHOW INDEXES [ON table]`."""

    table: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """`SHOW TABLES`."""


@dataclass(frozen=True, slots=True)
class Describe:
    """`DESCRIBE [TABLE] table`."""

    table: str


Statement = Query | Explain | CreateIndex | DropIndex | RefreshIndex | ShowIndexes | ShowTables | Describe

_NAME = r"(`(?:[^`]|``)+`|[A-Za-z_]\w*)"
_NAMES = rf"\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\)"
_CREATE_INDEX = re.compile(
    rf"CREATE\s+INDEX\s+(IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+ON\s+(?:TABLE\s+)?{_NAME}\s*\(\s*{_NAME}\s*\)"
    rf"(?:\s*INCLUDE\s*{_NAMES})?",
    re.IGNORECASE,
)
_DROP_INDEX = re.compile(rf"DROP\s+INDEX\s+(IF\s+EXISTS\s+)?{_NAME}(?:\s+ON\s+{_NAME})?", re.IGNORECASE)
_REFRESH_INDEX = re.compile(rf"REFRESH\s+INDEX\s+{_NAME}", re.IGNORECASE)
_SHOW_INDEXES = re.compile(rf"SHOW\s+INDEX(?:ES)?(?:\s+(?:ON|FROM|IN)\s+{_NAME})?", re.IGNORECASE)
_SHOW_TABLES = re.compile(r"SHOW\s+TABLES", re.IGNORECASE)
_DESCRIBE = re.compile(rf"DESC(?:RIBE)?\s+(?:TABLE\s+)?{_NAME}", re.IGNORECASE)
_EXPLAIN = re.compile(r"EXPLAIN\b(\s+ANALYZE\b)?\s*", re.IGNORECASE)
_STATEMENTS = "SELECT, EXPLAIN, SHOW TABLES, DESCRIBE, CREATE INDEX, REFRESH INDEX, DROP INDEX or SHOW INDEXES"
_QUERY_STARTS = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES, TokenType.FROM}


def parse_statement(text: str) -> Statement:
    """The one statement of a text.

    >>> parse_statement("CREATE INDEX by_rank ON rankings(pageRank) INCLUDE (pageURL)")
    CreateIndex(name='by_rank', table='rankings', column='pagerank', include=('pageurl',), if_not_exists=False)
    >>> parse_statement("DELETE FROM rankings")
    Traceback (most recent call last):
    catchment.errors.StatementError: line 1, column 1: DELETE is not granted: ask with SELECT, EXPLAIN, ...
    """
    tokens = _tokens(text)
    if not tokens:
        raise StatementError("an empty statement", f"write {_STATEMENTS}")
    if "${" in text:
        # Spark would put its variables there, its environment among them, even inside a string.
        raise StatementError(f"{place(text, text.index('${'))}: a variable is not granted", "write '$' || '{…}'")
    _one_statement(tokens)
    if tokens[-1].token_type == TokenType.SEMICOLON:
        text = text[: tokens[-1].start]
        tokens = tokens[:-1]
    start, stop = tokens[0].start, tokens[-1].end + 1
    body = text[start:stop].strip()
    if found := _EXPLAIN.match(body):
        # What stands before keeps its length, so that places in the query are places in the text.
        query = parse_query(" " * (start + found.end()) + text[start + found.end() : stop])
        return Explain(query, run=found[1] is not None)
    return _own_statement(body) or parse_query(text[:stop], tokens)


def parse_query(text: str, tokens: list[Token] | None = None) -> Query:
    """A text that must be a query, with everything in it granted."""
    tokens = _tokens(text) if tokens is None else tokens
    if not tokens or tokens[0].token_type not in _QUERY_STARTS:
        where = place(text, tokens[0].start) if tokens else "at the end"
        what = tokens[0].text.upper() if tokens else "nothing"
        raise StatementError(f"{where}: {what} is not granted", f"ask with {_STATEMENTS}")
    text = _without_comments(text, tokens)
    try:
        trees = [tree for tree in DIALECT.parser().parse(tokens, text) if tree is not None]
    except ParseError as problem:
        raise _wrong(problem) from None
    except SqlglotError as problem:  # pragma: no cover - what the parser raises for itself
        raise StatementError(f"SQL that cannot be read ({problem})", "mend the statement") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise StatementError("this is no query", f"ask with {_STATEMENTS}")
    check_grants(trees[0], tokens, text)
    return Query(text, trees[0])


def place(text: str, offset: int) -> str:
    """`line 2, column 5`."""
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def _tokens(text: str) -> list[Token]:
    try:
        return list(DIALECT.tokenize(text))
    except TokenError as problem:
        raise StatementError(f"SQL that cannot be read ({problem})", "close what is open: a quote, a comment") from None


def _without_comments(text: str, tokens: list[Token]) -> str:
    """The text with spaces for all that is no token. Where a comment ends is not a matter of taste: in one that holds
    a hint Spark sees code where others see none, and the text may go to Spark.
    """
    shown, at = [], 0
    for token in tokens:
        if token.start < at:
            continue  # the type of a number: 1L is three tokens in one place
        gap = text[at : token.start]
        shown += ["".join(sign if sign.isspace() else " " for sign in gap), text[token.start : token.end + 1]]
        at = token.end + 1
    return "".join(shown)


def _one_statement(tokens: list[Token]) -> None:
    for token in tokens[:-1]:
        if token.token_type == TokenType.SEMICOLON:
            raise StatementError(
                f"line {token.line}, column {token.col}: a second statement", "send one statement at a time"
            )


def _own_statement(body: str) -> Statement | None:
    if found := _CREATE_INDEX.fullmatch(body):
        given, name, table, column, include = found[1], found[2], found[3], found[4], found[5]
        columns = tuple(_name(one[0]) for one in re.finditer(_NAME, include)) if include else None
        return CreateIndex(_name(name), _name(table), _name(column), columns, if_not_exists=given is not None)
    if found := _DROP_INDEX.fullmatch(body):
        table = found[3]
        return DropIndex(_name(found[2]), _name(table) if table else None, if_exists=found[1] is not None)
    if found := _REFRESH_INDEX.fullmatch(body):
        return RefreshIndex(_name(found[1]))
    if found := _SHOW_INDEXES.fullmatch(body):
        return ShowIndexes(_name(found[1]) if found[1] else None)
    if _SHOW_TABLES.fullmatch(body):
        return ShowTables()
    if found := _DESCRIBE.fullmatch(body):
        return Describe(_name(found[1]))
    return None


def _name(written: str) -> str:
    return (written[1:-1].replace("``", "`") if written.startswith("`") else written).lower()


def _wrong(problem: ParseError) -> StatementError:
    if not problem.errors:
        return StatementError(f"SQL that cannot be read ({problem})", "mend the statement")
    first = problem.errors[0]
    where = f"line {first['line']}, column {first['col']}"
    said = str(first["description"]).rstrip(".")
    near = str(first["highlight"] or "").strip()
    return StatementError(f"{where}: {said}" + (f", near {near!r}" if near else ""), "mend the statement there")
