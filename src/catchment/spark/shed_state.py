"""What a shedding stream knows, in files beside its checkpoint: state i comes from state i - 1 and batch i alone.

`state-<i>` is everything that was learnt up to batch i, written after the batch's sink has returned. `decision-<i>` is
what was decided for batch i, written before the operator sees a row: a batch that Spark runs again after a crash is
shed as it was the first time, so that sinks which know the batch's number may skip it. A decision is for rows of a
certain content, in whatever partitions and order they come; for other rows, and if a file is damaged, the stream stops
and says so: some rows would be lost, and others doubled. Files are sealed, and renamed into place.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shed_record import ShedRecord
from catchment.balance.shedder import LoadShedder
from catchment.errors import DamagedBytesError, InputError, UnknownFormatError
from catchment.kernel.checksum import crc32c
from catchment.sketch.codec import MAGIC, Reader, Writer, open_envelope, seal_envelope
from catchment.spark.folder import Folder

__all__ = ["MOST_LANES", "ShedDecision", "ShedReport", "ShedState", "StateFolder"]

MOST_LANES = 10_000
STATE_FAMILY, DECISION_FAMILY = 52, 53

_KEPT_STATES = 3
_KEPT_REPORTS = 100
_LAST_LIFE = "last-life"


@dataclass(frozen=True, slots=True)
class ShedReport:
    """What became of one micro-batch. Times are milliseconds; `overhead` is deciding and learning, in seconds.

    `age` is how long the youngest row had waited when it was decided upon: where that is near the target, it is reading
    the source that takes too long, and not the operator.
    """

    batch: int
    rows: int
    kept: int
    dropped: int
    age: float
    average_wait: float
    longest_wait: float
    expected_wait: float
    measured_cost: float
    expected_cost: float
    seconds: float
    overhead: float


@dataclass(slots=True)
class ShedState:
    """Everything that is learnt and counted; `record_by` are the columns of the record's keys and weights."""

    shedder: LoadShedder
    operator: ShedOperator
    record: ShedRecord
    batch: int = -1
    startup: float = 0.0
    stretch: float = 1.0
    dropped: int = 0
    record_by: tuple[str | None, str | None] = (None, None)
    reports: list[ShedReport] = field(default_factory=list)

    def report(self, one: ShedReport) -> None:
        """Note what became of a batch; only the newest are kept."""
        self.reports = [*self.reports, one][-_KEPT_REPORTS:]

    def to_bytes(self) -> bytes:
        writer = Writer()
        text = json.dumps([list(self.record_by), [asdict(report) for report in self.reports]]).encode()
        writer.numbers("qddQ", self.batch, self.startup, self.stretch, self.dropped)
        for part in (self.shedder.to_bytes(), self.operator.to_bytes(), self.record.to_bytes(), text):
            writer.numbers("Q", len(part))
            writer.raw(part)
        return seal_envelope(STATE_FAMILY, b"", writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes) -> ShedState:
        """The state that gave these bytes; a `BytesError` for any others."""
        if blob[: len(MAGIC)] != MAGIC and len(blob) > len(MAGIC):
            return cls._from_first_layout(blob)
        reader = _opened(blob, STATE_FAMILY, "a shedding stream")
        batch, startup, stretch, dropped = reader.numbers("qddQ")
        return cls._read(reader, batch, startup, stretch, dropped)

    @classmethod
    def _from_first_layout(cls, blob: bytes) -> ShedState:
        """As it was written before states had a version: what was dropped is then what the record counts."""
        body, sum_ = blob[:-4], blob[-4:]
        if crc32c(np.frombuffer(body, dtype=np.uint8)).to_bytes(4, "little") != sum_:
            raise DamagedBytesError("the checksum does not match: some byte was altered")
        reader = Reader(memoryview(body))
        batch, startup, stretch = reader.numbers("qdd")
        return cls._read(reader, batch, startup, stretch, None)

    @classmethod
    def _read(cls, reader: Reader, batch: int, startup: float, stretch: float, dropped: int | None) -> ShedState:
        shedder, operator, record_, text = (bytes(reader.raw(reader.numbers("Q")[0])) for _ in range(4))
        reader.finish()
        try:
            by, found = json.loads(text) if dropped is not None else ((None, None), json.loads(text))
            key, weight = by
            reports = [ShedReport(**report) for report in found]
        except (TypeError, ValueError):
            raise DamagedBytesError("reports that cannot be read") from None
        if not (0 <= startup < math.inf and 0 < stretch < math.inf):
            raise DamagedBytesError(f"a start of {startup} and a stretch of {stretch}")
        if not all(name is None or isinstance(name, str) for name in (key, weight)):
            raise DamagedBytesError(f"a record by {key} and {weight}")
        record = ShedRecord.from_bytes(record_)
        if dropped is None:
            dropped = record.events
        return cls(
            LoadShedder.from_bytes(shedder), ShedOperator.from_bytes(operator), record, batch, startup, stretch,
            dropped, (key, weight), reports,
        )  # fmt: skip


class ShedDecision(NamedTuple):
    """What was decided for a batch: about which rows, when, and each row's lane in order of time, -1 if it is shed."""

    fingerprint: bytes
    decided: int
    lanes: NDArray[np.int32]

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.numbers("qI", self.decided, self.lanes.size)
        writer.integers(self.lanes)
        return seal_envelope(DECISION_FAMILY, self.fingerprint, writer.getvalue())

    @classmethod
    def from_bytes(cls, blob: bytes) -> ShedDecision:
        """The decision that gave these bytes; a `BytesError` for any others."""
        _, fingerprint, _ = open_envelope(blob)
        reader = _opened(blob, DECISION_FAMILY, "a decision")
        decided, count = reader.numbers("qI")
        lanes = reader.integers(count, np.int32, low=-1, high=MOST_LANES - 1)
        reader.finish()
        return cls(bytes(fingerprint.raw(fingerprint.left)), decided, lanes)


def _opened(blob: bytes, family: int, what: str) -> Reader:
    found, _, payload = open_envelope(blob)
    if found != family:
        raise UnknownFormatError(f"bytes of family {found}, not of {what}", "give the file that was written here")
    return payload


class StateFolder:
    """The files of one stream, on any file system that Spark can reach."""

    def __init__(self, spark: SparkSession, folder: str | Path) -> None:
        self._folder = Folder(spark, folder)

    def begin(self, number: int) -> None:
        """Batch `number` comes now: files of later ones are of another checkpoint's life, and are not this stream's.

        The newest state of them is kept as `last-life`, for people to read.
        """
        later = [other for other in self._numbers("state") if other > number]
        for other in later[:-1]:
            self._folder.delete(f"state-{other}")
        if later:
            self._folder.move(f"state-{later[-1]}", _LAST_LIFE)
        for other in self._numbers("decision"):
            if other > number:
                self._folder.delete(f"decision-{other}")

    def load(self, before: int) -> ShedState | None:
        """What was known before batch `before`; None if nothing was. A damaged file is an error, not a fresh start."""
        numbers = [number for number in self._numbers("state") if number < before]
        if not numbers:
            return None
        cure = (
            "put a copy of it there; or remove it to go on from the one before, and what was dropped since then is "
            "not in the record"
        )
        return self._folder.load(f"state-{numbers[-1]}", ShedState.from_bytes, cure)

    def save(self, state: ShedState) -> None:
        self._folder.write(f"state-{state.batch}", state.to_bytes())
        for kind in ("state", "decision"):
            for number in self._numbers(kind):
                if number <= state.batch - _KEPT_STATES:
                    self._folder.delete(f"{kind}-{number}")

    def decided(self, batch: int, fingerprint: bytes) -> ShedDecision | None:
        """What was decided for batch `batch` in an earlier run; an `InputError` if it had other rows then."""
        name = f"decision-{batch}"
        if not self._folder.has(name):
            return None
        cure = "remove it: the batch is then decided anew, and its sinks must replace what they have of it"
        found = self._folder.load(name, ShedDecision.from_bytes, cure)
        if found.fingerprint != fingerprint:
            raise InputError(
                f"batch {batch} has other rows than when {self._folder.path(name)} was written",
                f"let the source give the same rows again; or {cure.replace('it', 'the file', 1)}",
            )
        return found

    def decide(self, batch: int, decision: ShedDecision) -> None:
        self._folder.write(f"decision-{batch}", decision.to_bytes())

    def _numbers(self, kind: str) -> list[int]:
        matches = (re.fullmatch(rf"{kind}-(\d+)", name) for name in self._folder.names())
        return sorted(int(match[1]) for match in matches if match)
