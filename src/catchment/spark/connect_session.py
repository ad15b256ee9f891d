"""A session with a Spark Connect server that fails soon, with an error that names the cloud and the cure."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.connect.client.retries import RetryPolicy, RetryPolicyState
from pyspark.sql.connect.session import SparkSession

from catchment.errors import CatchmentError, CloudError, StatementError
from catchment.federation.index_text import SESSION_SETTINGS
from catchment.federation.settings import CloudSettings
from catchment.spark.channel import ChannelOfOurs

__all__ = ["close_session", "is_session_lost", "open_session", "translated"]

_ONE_MEANING = {
    # Clouds may be configured in different ways; a statement means the same in each of them.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Results cross compressed.
    "spark.sql.execution.arrow.compression.codec": "zstd",
} | SESSION_SETTINGS

# PySpark prints every error of a statement to stderr with the stack of the JVM; whoever asked gets the error itself.
PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True

_TRANSIENT = ("UNAVAILABLE",)
_RETRIES = 4
_BACKOFF_MS = 100
"""Waits of 0.1, 0.3, 0.9 and 2.7 seconds: a connection that was cut is picked up again, a dead cloud is soon named."""


def open_session(settings: CloudSettings) -> SparkSession:
    """A new session; `CloudError` if the cloud does not answer, or does not want us.

    It is no default or active session: a process may hold any number of them, beside one of classic Spark.
    """
    session = SparkSession(ChannelOfOurs(settings))
    try:
        session.client.set_retry_policies([_FewRetries()])
        session.conf._set_all(configs=dict(_ONE_MEANING), silent=True)
    except BaseException as problem:
        session.release_session_on_close = False
        session.stop()
        raise translated(problem, settings) from problem
    return session


def close_session(session: SparkSession) -> None:
    """Release what the server keeps for a session; never fails, and comes back in bounded time."""
    session.stop()


class _FewRetries(RetryPolicy):
    """A few attempts, and no warning at the end: the error itself says it."""

    def __init__(self) -> None:
        super().__init__(
            max_retries=_RETRIES, initial_backoff=_BACKOFF_MS, max_backoff=3_000, backoff_multiplier=3.0, jitter=50
        )

    def can_retry(self, exception: BaseException) -> bool:
        return _status(exception) in _TRANSIENT or "INVALID_CURSOR.DISCONNECTED" in str(exception)

    def to_state(self) -> RetryPolicyState:
        return _FewRetriesState(self)


class _FewRetriesState(RetryPolicyState):
    def can_retry(self, exception: BaseException) -> bool:
        return self._attempt < _RETRIES and super().can_retry(exception)


def translated(problem: BaseException, settings: CloudSettings) -> BaseException:
    """What went wrong at a cloud as an error of ours; what is no trouble with a cloud stays as it is."""
    if isinstance(problem, CatchmentError):
        return problem
    status = _status(problem)
    where = f"the cloud {settings.name} at {settings.address}"
    if status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        cure = "check its token_env or token_file in the file of clouds"
        return CloudError(f"{where} refuses this token", cure, cloud=settings.name)
    if status in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
        cure = "see that it runs and can be reached: `catchment clouds`"
        if not settings.tls:
            cure += "; if it speaks TLS, write tls = true"
        how = "does not answer in time" if status == "DEADLINE_EXCEEDED" else "does not answer"
        return CloudError(f"{where} {how} ({_first_line(problem)})", cure, cloud=settings.name)
    if is_session_lost(problem):
        cure = "ask again: what it held of this query is gone"
        return CloudError(f"{where} was restarted under way", cure, cloud=settings.name)
    if isinstance(problem, PySparkException) and problem.getCondition() and _is_about_the_statement(problem):
        return StatementError(f"the cloud {settings.name} says {_first_line(problem)}", "correct the statement")
    if isinstance(problem, PySparkException) or status:
        return CloudError(f"{where} failed ({_first_line(problem)})", "read the log of its server", cloud=settings.name)
    return problem


def is_session_lost(problem: BaseException | None) -> bool:
    """Whether the server does not know the session any more: it was restarted, or has closed it."""
    said = str(problem)
    return any(sign in said for sign in ("INVALID_HANDLE.SESSION", "RESPONSE_ALREADY_RECEIVED", "NO_ACTIVE_SESSION"))


def _is_about_the_statement(problem: PySparkException) -> bool:
    """Errors with a state of SQL are about the statement or the data; XX… and those without are Spark's own."""
    state = problem.getSqlState()
    return bool(state) and not str(state).startswith(("XX", "58"))


def _status(problem: BaseException) -> str:
    """The name of the gRPC status that an error has, of gRPC itself or as Spark's client hands it on."""
    for method in ("code", "getGrpcStatusCode"):
        ask: Any = getattr(problem, method, None)
        if callable(ask):
            return str(getattr(ask(), "name", ""))
    return ""


def _first_line(problem: BaseException) -> str:
    """What an error says, without the stack of the JVM; of gRPC's long text, the details."""
    text = str(problem)
    details = re.search(r'details = "(.*)"', text)
    lines = [details[1]] if details else [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:500]
