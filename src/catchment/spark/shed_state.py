"""What a shedding stream knows, in files beside its checkpoint: state i comes from state i - 1 and batch i alone.

`state-<i>` is everything that was learnt up to batch i, written after the batch's sink has returned. `decision-<i>` is
what was decided for batch i, written before the operator sees a row: a batch that Spark runs again after a crash is
shed as it was the first time, so that sinks which know the batch's number may skip it. Files are renamed into place.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catchment.balance.shed_operator import ShedOperator
from catchment.balance.shed_record import ShedRecord
from catchment.balance.shedder import LoadShedder
from catchment.errors import BytesError, DamagedBytesError
from catchment.kernel.checksum import crc32c
from catchment.sketch.codec import Reader, Writer

__all__ = ["ShedReport", "ShedState", "StateFolder"]

_KEPT_STATES = 3
_KEPT_REPORTS = 100


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
    """Everything that is learnt and counted."""

    shedder: LoadShedder
    operator: ShedOperator
    record: ShedRecord
    batch: int = -1
    startup: float = 0.0
    stretch: float = 1.0
    reports: list[ShedReport] = field(default_factory=list)

    def report(self, one: ShedReport) -> None:
        """Note what became of a batch; only the newest are kept."""
        self.reports = [*self.reports, one][-_KEPT_REPORTS:]

    def to_bytes(self) -> bytes:
        writer = Writer()
        text = json.dumps([asdict(report) for report in self.reports]).encode()
        writer.numbers("qdd", self.batch, self.startup, self.stretch)
        for part in (self.shedder.to_bytes(), self.operator.to_bytes(), self.record.to_bytes(), text):
            writer.numbers("Q", len(part))
            writer.raw(part)
        body = writer.getvalue()
        return body + crc32c(np.frombuffer(body, dtype=np.uint8)).to_bytes(4, "little")

    @classmethod
    def from_bytes(cls, blob: bytes) -> ShedState:
        """The state that gave these bytes; a `BytesError` for any others."""
        body, sum_ = blob[:-4], blob[-4:]
        if len(blob) < 4 or crc32c(np.frombuffer(body, dtype=np.uint8)).to_bytes(4, "little") != sum_:
            raise DamagedBytesError("the checksum does not match: some byte was altered")
        reader = Reader(memoryview(body))
        batch, startup, stretch = reader.numbers("qdd")
        shedder, operator, record, text = (bytes(reader.raw(reader.numbers("Q")[0])) for _ in range(4))
        reader.finish()
        try:
            reports = [ShedReport(**report) for report in json.loads(text)]
        except (TypeError, ValueError):
            raise DamagedBytesError("reports that cannot be read") from None
        if not (0 <= startup < math.inf and 0 < stretch < math.inf):
            raise DamagedBytesError(f"a start of {startup} and a stretch of {stretch}")
        return cls(
            LoadShedder.from_bytes(shedder), ShedOperator.from_bytes(operator), ShedRecord.from_bytes(record), batch,
            startup, stretch, reports,
        )  # fmt: skip


class StateFolder:
    """The files of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, before: int) -> ShedState | None:
        """What was known before batch `before`; None if nothing was. A damaged file is an error, not a fresh start."""
        numbers = [number for number in self._numbers("state") if number < before]
        if not numbers:
            return None
        path = self._path("state", max(numbers))
        try:
            return ShedState.from_bytes(path.read_bytes())
        except BytesError as problem:
            raise DamagedBytesError(
                f"{path}: {problem.problem}", "remove the file to go on from the one before"
            ) from None

    def save(self, state: ShedState) -> None:
        self._write(self._path("state", state.batch), state.to_bytes())
        for kind in ("state", "decision"):
            for number in self._numbers(kind):
                if number <= state.batch - _KEPT_STATES:
                    self._path(kind, number).unlink(missing_ok=True)

    def decided(self, batch: int, fingerprint: int) -> tuple[int, NDArray[np.int32]] | None:
        """When batch `batch` was decided and the lanes of its rows, if it had the same rows then."""
        path = self._path("decision", batch)
        if not path.exists():
            return None
        blob = path.read_bytes()
        if len(blob) < 16 or len(blob) % 4 or int.from_bytes(blob[:8], "little") != fingerprint:
            return None
        return int.from_bytes(blob[8:16], "little"), np.frombuffer(blob[16:], dtype="<i4").astype(np.int32)

    def decide(self, batch: int, fingerprint: int, now: int, lanes: NDArray[np.int32]) -> None:
        head = fingerprint.to_bytes(8, "little") + now.to_bytes(8, "little")
        self._write(self._path("decision", batch), head + lanes.astype("<i4").tobytes())

    def _numbers(self, kind: str) -> list[int]:
        names = [path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*")]
        return [int(name) for name in names if name.isdigit()]

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number}"

    def _write(self, path: Path, blob: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_bytes(blob)
        unfinished.replace(path)
