"""The line to one micro-cloud: a session that is opened when it is needed, and statements that can be given up."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.connect.session import SparkSession

from catchment.errors import CancelledQueryError, CloudError, ParameterError
from catchment.federation.cloud import Errand
from catchment.federation.settings import CloudSettings
from catchment.spark.channel import Account, accounted
from catchment.spark.connect_session import close_session, is_session_lost, open_session, translated
from catchment.spark.pipe import Pipe, TooLateError

__all__ = ["Line"]

_DEPTH = 8
"""Batches that wait for a reader; Spark's are of four megabytes at most."""
_REMEMBERED = 4_096


@dataclass(slots=True, eq=False)
class _Operation:
    """A statement that runs, and the pipe to whoever waits for it."""

    query: str
    account: Account
    tag: str = field(default_factory=lambda: f"operation-{uuid.uuid4().hex}")
    pipe: Pipe[Any] = field(default_factory=lambda: Pipe(_DEPTH))


class Line:
    """Threads may share it. `lost` is called when the server has forgotten the session, with all that was in it."""

    def __init__(self, settings: CloudSettings, lost: Callable[[], None]) -> None:
        self._settings = settings
        self._tell_lost = lost
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._operations: set[_Operation] = set()
        self._cancelled: deque[str] = deque(maxlen=_REMEMBERED)
        self._closed = False

    def session(self) -> SparkSession:
        """The session, opened if there is none."""
        with self._opening:
            if self._closed:
                raise ParameterError(f"the cloud {self._settings.name} is closed", "connect again")
            if self._session is None:
                self._session = open_session(self._settings)
            return self._session

    def ask(self, question: Callable[[SparkSession], Any]) -> Any:
        """What reads only, and needs no view: asked again in a new session if the server has lost ours."""
        try:
            return self._ask(question)
        except CloudError as problem:
            if not is_session_lost(problem.__cause__):
                raise
        return self._ask(question)

    def answers(self, ask: Callable[[Any], Iterator[Any]], errand: Errand, rows: int = 0) -> Iterator[Any]:
        """What the client yields, read ahead by a thread of its own until the deadline; interrupted if left early."""
        session = self.session()
        operation = _Operation(errand.query, Account(self._settings.name, errand, rows))
        with self._lock:
            if errand.query in self._cancelled:
                raise _stopped(errand.query)
            self._operations.add(operation)
        deadline = time.monotonic() + self._settings.deadline
        reader = threading.Thread(
            target=self._read, args=(session, ask, operation), name=f"cloud {self._settings.name}", daemon=True
        )
        whole = False
        try:
            reader.start()
            while (part := operation.pipe.take(deadline)) is not None:
                yield part
            whole = True
        except TooLateError:
            raise CloudError(
                f"the cloud {self._settings.name} was not done after {self._settings.deadline:g} s",
                "ask for less, or give it more: deadline in the file of clouds",
                cloud=self._settings.name,
            ) from None
        except Exception as problem:
            raise self._told(problem, session, errand.query) from problem
        finally:
            with self._lock:
                self._operations.discard(operation)
            if not whole:
                operation.pipe.break_off()
                if reader.is_alive():
                    self._interrupt(session, operation.tag)
                    operation.account.hang_up()

    def cancel(self, query: str) -> None:
        """Stop what runs for a query, and what is asked for it later."""
        with self._lock:
            self._cancelled.append(query)
            stopped = [operation for operation in self._operations if operation.query == query]
            session = self._session
        for operation in stopped:
            operation.pipe.break_off(_stopped(query))
        for operation in stopped:
            if session is not None:
                self._interrupt(session, operation.tag)
            operation.account.hang_up()

    def renew(self) -> None:
        """Change an idle session for a new one: the server keeps what was sent to it until it ends."""
        with self._opening, self._lock:
            if self._operations or self._session is None:
                return
            session, self._session = self._session, None
        close_session(session)

    def close(self) -> None:
        """Stop everything and release the session; never fails."""
        with self._lock:
            queries = {operation.query for operation in self._operations}
        for query in queries:
            self.cancel(query)
        with self._opening:
            session, self._session, self._closed = self._session, None, True
        if session is not None:
            close_session(session)

    def lost(self, problem: BaseException, session: SparkSession | None) -> None:
        """Drop a session that the server does not know any more, if that is the problem."""
        if session is None or not is_session_lost(problem):
            return
        with self._opening:
            if self._session is not session:
                return
            self._session = None
        session.release_session_on_close = False
        close_session(session)
        self._tell_lost()

    def _ask(self, question: Callable[[SparkSession], Any]) -> Any:
        session = self.session()
        try:
            return question(session)
        except Exception as problem:
            raise self._told(problem, session, "") from problem

    def _read(self, session: SparkSession, ask: Callable[[Any], Iterator[Any]], operation: _Operation) -> None:
        client = session.client
        client.add_tag(operation.tag)
        SparkSession._active_session.session = session  # of this thread; the client asks for it after a checkpoint
        try:
            with accounted(operation.account):
                for part in ask(client):
                    if not operation.pipe.put(part):
                        break
        except BaseException as problem:
            operation.pipe.end(problem)
        else:
            operation.pipe.end()
        if operation.pipe.broken:
            # The first interruption may have come before the server knew of the statement.
            self._interrupt(session, operation.tag)

    def _interrupt(self, session: SparkSession, tag: str) -> None:
        try:
            session.client.interrupt_tag(tag)
        except Exception as problem:
            self.lost(problem, session)  # one that does not answer runs nothing for us that we could stop

    def _told(self, problem: Exception, session: SparkSession, query: str) -> BaseException:
        if query in self._cancelled:
            return _stopped(query)
        self.lost(problem, session)
        return translated(problem, self._settings)


def _stopped(query: str) -> CancelledQueryError:
    return CancelledQueryError(f"the query {query} was stopped", "ask again")
