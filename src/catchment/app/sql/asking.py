"""One statement at a time, in a thread beside, so that Ctrl-C is heard: it stops the query in every cloud."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from catchment.federation.explain import explain
from catchment.federation.federation import Federation, Outcome
from catchment.federation.statements import Explain, parse_statement

__all__ = ["Reply", "ask", "bytes_text", "interruptible"]

_PATIENCE = 20.0
"""Seconds in which clouds may end what was cancelled; a second Ctrl-C does not wait."""
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a statement gave: a result, or a plan as text, or both after EXPLAIN ANALYZE."""

    outcome: Outcome | None
    plan: str | None = None

    @property
    def missing(self) -> Mapping[str, str]:
        """Clouds that are not in the answer, with the reason."""
        return self.outcome.missing if self.outcome is not None else {}

    def facts(self) -> Mapping[str, Any]:
        """What JSON says beside the rows."""
        if self.outcome is None:
            return {}
        return {
            "partial": bool(self.missing),
            "missing": dict(self.missing),
            "seconds": round(self.outcome.seconds, 3),
            "bytes": self.outcome.ledger.bytes(),
        }

    def summary(self) -> str:
        """The line under a result."""
        if self.outcome is None:
            return ""
        rows, moved = self.outcome.table.num_rows, bytes_text(self.outcome.ledger.bytes())
        return f"{rows:,} row{'' if rows == 1 else 's'}, {self.outcome.seconds:.2f} s, {moved} over the border"


def ask(federation: Federation, text: str, *, partial: bool = False) -> Reply:
    """What a statement gives.

    Raises
    ------
    KeyboardInterrupt
        It was interrupted; its jobs in the clouds have been stopped.
    """
    query = uuid.uuid4().hex[:12]
    return interruptible(lambda: _reply(federation, text, partial, query), stop=lambda: federation.cancel(query))


def _reply(federation: Federation, text: str, partial: bool, query: str) -> Reply:
    statement = parse_statement(text)
    if not isinstance(statement, Explain):
        return Reply(federation.query(text, partial=partial, query_id=query))
    if not statement.run:
        return Reply(None, federation.explain(text))
    outcome = federation.query(statement.query.text, partial=partial, query_id=query)
    assert outcome.plan is not None, "a query has a plan"
    return Reply(outcome, explain(outcome.plan, outcome.execution, outcome.ledger, outcome.seconds))


def interruptible(work: Callable[[], _Found], *, stop: Callable[[], None]) -> _Found:
    """What the work gives; Ctrl-C calls `stop` and waits until the work has ended."""
    found: list[_Found] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as problem:
            failed.append(problem)
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True, name="query").start()
    try:
        while not ended.wait(0.1):
            pass
    except KeyboardInterrupt:
        threading.Thread(target=stop, daemon=True, name="cancel").start()
        ended.wait(_PATIENCE)
        raise
    if failed:
        raise failed[0]
    return found[0]


def bytes_text(count: int) -> str:
    """Bytes as a person says them.

    >>> bytes_text(999), bytes_text(12_345), bytes_text(3_200_000_000)
    ('999 bytes', '12.3 kB', '3.2 GB')
    """
    if count < 1000:
        return f"{count} bytes"
    size, units = count / 1000, iter(("kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while size >= 999.5:
        size, unit = size / 1000, next(units)
    return f"{size:.3g} {unit}"
