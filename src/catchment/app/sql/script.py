"""Statements one after the other, from a command line, a file or a pipe; the first error ends it, with its line."""

from __future__ import annotations

import sys

from catchment.app.sql.asking import Reply, ask
from catchment.app.sql.outputs import Output
from catchment.app.sql.statements import Statement, split_statements
from catchment.app.terminal import printable
from catchment.errors import CatchmentError, StatementError
from catchment.federation.federation import Federation

__all__ = ["run_script", "show"]


def run_script(federation: Federation, text: str, name: str, output: Output, *, partial: bool = False) -> None:
    """Run every statement of a text; `name` is what to call it in an error.

    Raises
    ------
    CatchmentError
        of the kind that the statement raised, with the text's name and the line; later statements were not run.
    """
    for statement in split_statements(text):
        try:
            show(ask(federation, _placed(statement), partial=partial), output)
        except CatchmentError as problem:
            problem.problem = f"{name}, statement in line {statement.line}: {problem.problem}"
            raise
    if not split_statements(text):
        raise StatementError(f"{name} holds no statement", "write one, such as SHOW TABLES")


def show(reply: Reply, output: Output, *, timing: bool = True) -> None:
    """The rows, or the plan, where they go; beside them, on stderr, what is missing and what it cost."""
    if reply.plan is not None:
        output.text(reply.plan)
    elif reply.outcome is not None:
        output.result(reply.outcome.table, reply.facts())
    for cloud, reason in reply.missing.items():
        # A partial answer says so where nobody overlooks it.
        print(f"partial: without cloud {printable(cloud)} ({printable(reason)})", file=sys.stderr, flush=True)
    if timing and reply.outcome is not None:
        print(reply.summary(), file=sys.stderr, flush=True)


def _placed(statement: Statement) -> str:
    """The statement in its line, so that a place in it is a place in the text."""
    return "\n" * (statement.line - 1) + statement.text
