"""What a query may contain. It cannot read files or run code outside what SQL grants, in any cloud.

The tree is checked for what a federation knows to be harmless: names of tables without a path, functions of an
allow-list. Because some plans send the user's text on, the words of the text are checked as well: a function that is
refused may stand nowhere before a parenthesis, however a parser would read it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from catchment.errors import StatementError
from catchment.federation.dialect import DIALECT
from catchment.federation.functions import CLOCKS, GRANTED, REFUSED

__all__ = ["check_grants", "check_names", "function_name"]

_REFUSED_NODES: dict[type[exp.Expr], str] = {
    exp.Command: "this statement",
    exp.Into: "SELECT INTO",
    exp.Hint: "a hint",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
    exp.SessionParameter: "a parameter",
    exp.QueryTransform: "a script",
    exp.TableSample: "TABLESAMPLE",
    exp.DML: "a statement that changes tables",
    exp.DDL: "a statement that changes tables",
    exp.Version: "a version of a table",
    exp.HistoricalData: "a version of a table",
}
_CURES: dict[type[exp.Expr], str] = {
    exp.Hint: "leave it out: the planner chooses how to join",
    exp.Parameter: "write the value",
    exp.Placeholder: "write the value",
    exp.TableSample: "choose rows by a hash: WHERE pmod(xxhash64(key), 10) = 0",
}
_NOT_FUNCTIONS = (exp.And, exp.Or, exp.Xor, exp.Case, exp.Cast, exp.TryCast, exp.Interval)
_TYPED = {"cast", "try_cast", "case", "extract", "interval", "struct", "array", "map", "x", "trim"}
_GRANTED = GRANTED | CLOCKS | _TYPED


def check_grants(tree: exp.Query, tokens: Sequence[Token], text: str) -> None:
    """Raise `StatementError` for the first thing that is not granted."""
    for node in tree.walk():
        for kind, what in _REFUSED_NODES.items():
            if isinstance(node, kind) and not isinstance(node, exp.Query):
                cure = _CURES.get(kind, "ask with a plain SELECT")
                raise StatementError(f"{_place(node, text)}{what} is not granted", cure)
        if isinstance(node, exp.Table):
            _check_table(node, text)
        elif isinstance(node, exp.Func) and not isinstance(node, _NOT_FUNCTIONS):
            _check_function(node, text)
    _check_words(tokens)


def check_names(tree: exp.Query, columns: Collection[str]) -> None:
    """Raise `StatementError` for a name that is a function to Spark: `user` is one where no column is called so."""
    given = {part.alias.lower() for part in tree.find_all(exp.Alias, exp.TableAlias, exp.CTE)}
    given |= {part.name.lower() for part in tree.find_all(exp.TableAlias) for part in part.args.get("columns") or []}
    given |= {part.name.lower() for function in tree.find_all(exp.Lambda) for part in function.expressions}
    for part in tree.find_all(exp.Column):
        name = part.name.lower()
        if not part.table and name in REFUSED and name not in given and name not in columns:
            raise StatementError(f"there is no column {name}, and the function is not granted", "name a column")


def function_name(node: exp.Func) -> str:
    """The name under which Spark knows a function.

    >>> import sqlglot
    >>> function_name(sqlglot.parse_one("approx_count_distinct(a)", dialect="spark"))
    'approx_count_distinct'
    """
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql(dialect=DIALECT).split("(")[0].strip("` ").lower()


def _check_table(node: exp.Table, text: str) -> None:
    if node.args.get("db") is not None or node.args.get("catalog") is not None:
        raise StatementError(
            f"{_place(node, text)}{node.sql(dialect=DIALECT)} is not a table of the clouds",
            "name a table without database or path; SHOW TABLES lists them",
        )


def _check_function(node: exp.Func, text: str) -> None:
    name = function_name(node)
    if name in REFUSED:
        raise StatementError(f"{_place(node, text)}the function {name} is not granted: {REFUSED[name]}", "leave it out")
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and name not in _GRANTED:
        raise StatementError(
            f"{_place(node, text)}the function {name} is not granted", "use the functions of Spark's SQL"
        )


def _check_words(tokens: Sequence[Token]) -> None:
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.HINT:
            raise StatementError(f"line {token.line}, column {token.col}: a hint is not granted", _CURES[exp.Hint])
        if token.token_type == TokenType.TABLE:
            raise StatementError(
                f"line {token.line}, column {token.col}: TABLE is not granted", "write SELECT * FROM the table"
            )
        is_part = token.token_type == TokenType.DOT and following.token_type == TokenType.IDENTIFIER
        if is_part and set(following.text) & set("/:\\"):
            raise StatementError(
                f"line {following.line}, column {following.col}: a path is not granted",
                "name a table; SHOW TABLES lists them",
            )
        name = token.text.lower()
        if following.token_type == TokenType.L_PAREN and name in REFUSED and token.token_type != TokenType.STRING:
            raise StatementError(
                f"line {token.line}, column {token.col}: the function {name} is not granted: {REFUSED[name]}",
                "leave it out",
            )


def _place(node: exp.Expr, text: str) -> str:
    for part in node.walk():
        if "start" in part.meta:
            before = text[: part.meta["start"]]
            return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}: "
    return ""
