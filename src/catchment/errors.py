"""Every error that catchment raises on purpose.

    CatchmentError                 the root: catch this to catch them all
    ├── ParameterError             a parameter outside its limits, when a thing is built
    │   ├── SettingsError          a file of settings that is wrong, by its line
    │   │   └── PipelineError      one that describes no pipeline, or a pipeline that failed
    │   └── InsecureAddressError   an address beyond this machine, without TLS
    ├── InputError                 events that cannot be taken; nothing was changed
    │   ├── KeyTypeError           keys of a type that has no one hash
    │   ├── NullKeyError           a null among the keys
    │   ├── TimeError              times that are not one integer for each event
    │   └── WeightError            weights or values that would break a guarantee
    ├── MergeError                 partners that do not fit (seed, shape, kind)
    ├── QueryError                 a question that this sketch cannot answer
    │   ├── StatementError         SQL that is wrong, or that a federation does not grant, by its place in the text
    │   └── TooManyBytesError      a statement that would move more bytes than are allowed
    ├── CancelledQueryError        a query that was stopped on request
    ├── FunctionError              a function of a map-reduce that failed, with its place and its traceback
    ├── BytesError                 bytes that are not one whole sketch
    │   ├── DamagedBytesError      cut short, altered, or contradicting themselves
    │   └── UnknownFormatError     a magic, version, family or flag from elsewhere
    ├── IdentityError              a certificate or a name that proves nothing here
    ├── NameNotFoundError          no experiment, benchmark, adapter or file of that name
    ├── PackageMissingError        an optional package that is asked for and not installed
    ├── SimulationError            a simulated run in which a claim was false, or a machine broke
    └── UnreachableError           a cluster or a server that does not answer
        └── CloudError             a micro-cloud that is down, too slow or died under way, by its name

A message says what was wrong, names the value, and ends with the cure.
"""

from __future__ import annotations

__all__ = [
    "BytesError",
    "CancelledQueryError",
    "CatchmentError",
    "CloudError",
    "DamagedBytesError",
    "FunctionError",
    "IdentityError",
    "InputError",
    "InsecureAddressError",
    "KernelCacheWarning",
    "KeyTypeError",
    "MergeError",
    "NameNotFoundError",
    "NullKeyError",
    "PackageMissingError",
    "ParameterError",
    "PipelineError",
    "QueryError",
    "SettingsError",
    "SimulationError",
    "StatementError",
    "TimeError",
    "TooManyBytesError",
    "UnknownFormatError",
    "UnreachableError",
    "WeightError",
]


class CatchmentError(Exception):
    """The root of the tree; `problem` says what was wrong, `cure` what to do about it."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(problem, cure)
        self.problem = problem
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.problem}: {self.cure}"


class ParameterError(CatchmentError, ValueError):
    """A parameter outside its limits."""


class SettingsError(ParameterError):
    """A file of settings that is wrong; the problem names the file, and the line."""


class InsecureAddressError(ParameterError):
    """An address beyond this machine, without TLS."""


class PipelineError(SettingsError):
    """A file that describes no pipeline, or a pipeline that failed; the problem names the file, and the line."""


class InputError(CatchmentError, ValueError):
    """Events that cannot be taken; the sketch is as it was."""


class KeyTypeError(InputError, TypeError):
    """Keys of a type that has no one hash."""


class NullKeyError(InputError):
    """A null among the keys."""


class TimeError(InputError):
    """Times that are not one integer for each event."""


class WeightError(InputError):
    """Weights or values that would break a guarantee."""


class MergeError(CatchmentError, ValueError):
    """Partners that do not fit."""


class QueryError(CatchmentError, ValueError):
    """A question that this sketch cannot answer."""


class StatementError(QueryError):
    """SQL that is wrong, or that a federation does not grant; the problem names the place in the text."""


class TooManyBytesError(QueryError):
    """A statement that would move more bytes over a border than are allowed."""


class CancelledQueryError(CatchmentError):
    """A query that was stopped on request."""


class FunctionError(CatchmentError):
    """A function of a map-reduce that failed, with the cloud, the row or key; `traceback` is Python's, from there."""

    def __init__(
        self, problem: str, cure: str, *, cloud: str = "", function: str = "", at: str = "", traceback: str = ""
    ) -> None:
        super().__init__(problem, cure)
        self.cloud = cloud
        self.function = function
        self.at = at
        self.traceback = traceback


class BytesError(CatchmentError, ValueError):
    """Bytes that are not one whole sketch."""


class DamagedBytesError(BytesError):
    """Bytes cut short, altered, or contradicting themselves."""

    def __init__(self, problem: str, cure: str = "fetch the bytes again from where they were written") -> None:
        super().__init__(problem, cure)


class UnknownFormatError(BytesError):
    """A magic, version, family or flag that this version does not know."""


class IdentityError(CatchmentError, PermissionError):
    """A certificate or a name that proves nothing here."""


class NameNotFoundError(CatchmentError, LookupError):
    """No experiment, benchmark, adapter or file of that name."""


class PackageMissingError(CatchmentError, ImportError):
    """An optional package that is asked for and not installed."""


class SimulationError(CatchmentError, AssertionError):
    """A simulated run that failed; `seed`, `step` and `time` say where, `trace` holds the last lines before."""

    def __init__(
        self, problem: str, cure: str, *, seed: int = 0, step: int = 0, time: int = 0, trace: tuple[str, ...] = ()
    ) -> None:
        super().__init__(problem, cure)
        self.seed = seed
        self.step = step
        self.time = time
        self.trace = trace


class UnreachableError(CatchmentError, ConnectionError):
    """A cluster or a server that does not answer in time."""


class CloudError(UnreachableError):
    """A micro-cloud that is down, too slow or died under way; `cloud` is its name."""

    def __init__(self, problem: str, cure: str, *, cloud: str = "") -> None:
        super().__init__(problem, cure)
        self.cloud = cloud


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept, so every process compiles them again."""
