"""The data source `wc98`: the binary records of the WorldCup98 web log, plain or gzipped.

    register_sources(spark)
    requests = spark.read.format("wc98").load("/data/wc98")       # a file, a folder, or a pattern such as wc_day5*
    growing = spark.readStream.format("wc98").load("/data/wc98")  # new files, and records added to plain ones

Columns: `time`, `client`, `object`, `size` (null where the answer had no body), the codes `method`, `status`, `type`
and `server` as they are in the record, and `region`, the three high bits of `server`. Plain files are split over tasks,
a gzipped file is one task. Paths are those of a file system that the driver and all executors see.

A malformed record is one cut short by the end of the file, lost with the rest of a damaged gzip file, or with a time
outside the log's (30 April to 26 July 1998), which happens where bytes were lost before it. The option `mode` says what
becomes of it, as for Spark's own formats:

- `PERMISSIVE`, the default: a row of nulls whose column `_corrupt_record` names the file, the place and the bytes;
  `split_bad` takes these rows to the dead letters;
- `DROPMALFORMED`: nothing; there is no such column;
- `FAILFAST`: the query fails with `InputError`.

In a stream an unfinished record at the end of a plain file is not malformed but awaited. Gzipped files are read when
they appear, so they must be moved into the folder, not written in it. `max_files` limits the files of a micro-batch.
`split` is the largest part of a plain file that one task reads, in bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from catchment.errors import InputError, NameNotFoundError, ParameterError
from catchment.kernel.wc98 import RECORD, write_columns
from catchment.spark.source.options import Options

__all__ = ["CORRUPT", "WebLogSource"]

CORRUPT = "_corrupt_record"

PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"

_WIDTH = RECORD.itemsize
_CHUNK = 65_536 * _WIDTH
_PACKED_CHUNK = 16_384
"""Small, because a damaged chunk is lost as a whole."""
_GZIP = b"\x1f\x8b"
_WORDS = ("time", "client", "object", "size")
_CODES = ("method", "status", "type", "server", "region")


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the files are and what becomes of malformed records."""

    path: str
    mode: str
    split: int
    max_files: int | None

    @classmethod
    def from_options(cls, given: Any) -> Plan:
        options = Options(given)
        path = options.text("path", None)
        plan = cls(
            path=(path or "").removeprefix("file://").removeprefix("file:"),
            mode=options.choice("mode", PERMISSIVE, (PERMISSIVE, DROPMALFORMED, FAILFAST)),
            split=options.whole("split", 64_000_000, low=_WIDTH, high=2**40) // _WIDTH * _WIDTH,
            max_files=options.whole("max_files", None, low=1, high=1_000_000),
        )
        options.refuse_others(WebLogSource.name())
        if not path:
            raise ParameterError("wc98 without a path", "name a file, a folder or a pattern: .load('wc98/')")
        return plan

    @property
    def ddl(self) -> str:
        corrupt = f", {CORRUPT} STRING" if self.mode == PERMISSIVE else ""
        words = ", ".join(f"{name} BIGINT" for name in _WORDS[1:])
        return f"time TIMESTAMP, {words}, {', '.join(f'{name} SMALLINT' for name in _CODES)}{corrupt}"

    @property
    def arrow_schema(self) -> pa.Schema:
        fields = [("time", pa.timestamp("us", tz="UTC")), *((name, pa.int64()) for name in _WORDS[1:])]
        fields += [(name, pa.int16()) for name in _CODES]
        return pa.schema(fields + ([(CORRUPT, pa.string())] if self.mode == PERMISSIVE else []))

    def files(self) -> list[Path]:
        """The files, in the order of their names; hidden ones (`_` or `.` in front) are not data, as in Spark."""
        path = Path(self.path)
        if path.is_file():
            return [path]
        found = path.iterdir() if path.is_dir() else Path(path.anchor).glob(str(path.relative_to(path.anchor)))
        return sorted(file for file in found if file.is_file() and not file.name.startswith(("_", ".")))

    def check_files(self) -> None:
        if not Path(self.path).is_dir() and not self.files():
            raise NameNotFoundError(f"no file {self.path}", "name a file, a folder or a pattern that is there")

    def parts(self, file: Path, start: int, end: int) -> list[FilePart]:
        """The bytes [start, end) of a file, as parts for tasks; a gzipped file is one part."""
        if is_gzipped(file):
            return [FilePart(str(file), 0, None)]
        return [FilePart(str(file), at, min(at + self.split, end)) for at in range(start, end, self.split)]

    def read(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        at, rest, damage = part.start, b"", ""
        chunks = _plain(part) if part.end is not None else _decompressed(part)
        for data, problem in chunks:
            damage = problem
            data = rest + data
            whole = len(data) // _WIDTH * _WIDTH
            rest = data[whole:]
            if whole:
                yield self._batch(part.file, at, np.frombuffer(data, dtype=np.uint8, count=whole))
            at += whole
        if rest or damage:
            yield from self._malformed(
                f"{part.file}: {len(rest)} of {_WIDTH} bytes of a record at {at}{damage}: {rest.hex()}"
            )

    def _batch(self, file: str, at: int, data: NDArray[np.uint8]) -> pa.RecordBatch:
        count = data.size // _WIDTH
        words = np.empty((len(_WORDS), count), dtype=np.int64)
        codes = np.empty((len(_CODES), count), dtype=np.int16)
        there, sized = (np.full((count + 7) // 8, 255, dtype=np.uint8) for _ in range(2))
        strange = write_columns(data, words, codes, there, sized)
        bitmap = pa.py_buffer(there) if strange else None
        columns = [
            pa.Array.from_buffers(field.type, count, [pa.py_buffer(sized) if field.name == "size" else bitmap, values])
            for field, values in zip(self.arrow_schema, map(pa.py_buffer, (*words, *codes)), strict=False)
        ]
        if self.mode == PERMISSIVE:
            columns.append(pa.nulls(count, pa.string()))
        batch = pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
        if not strange:
            return batch
        good = np.unpackbits(there, count=count, bitorder="little").astype(bool)
        places = [
            f"{file}: the time of the record at {at + place * _WIDTH} is outside the log: "
            f"{data[place * _WIDTH : (place + 1) * _WIDTH].tobytes().hex()}"
            for place in np.flatnonzero(~good).tolist()
        ]
        if self.mode == FAILFAST:
            raise _malformed_error(places[0])
        if self.mode == DROPMALFORMED:
            return batch.filter(pa.array(good))
        texts = np.full(count, None, dtype=object)
        texts[~good] = places
        return batch.set_column(len(columns) - 1, CORRUPT, pa.array(texts, pa.string()))

    def _malformed(self, place: str) -> Iterator[pa.RecordBatch]:
        if self.mode == FAILFAST:
            raise _malformed_error(place)
        if self.mode == PERMISSIVE:
            row = dict.fromkeys(self.arrow_schema.names) | {CORRUPT: place}
            yield pa.RecordBatch.from_pylist([row], schema=self.arrow_schema)


def _plain(part: FilePart) -> Iterator[tuple[bytes, str]]:
    """The bytes of a part, in chunks, each with what is wrong after it: nothing, or that the file became shorter."""
    left = cast(int, part.end) - part.start
    with Path(part.file).open("rb") as raw:
        raw.seek(part.start)
        while left:
            data = raw.read(min(_CHUNK, left))
            yield data, "" if data else f" (the file ends {left} bytes before it did when the query was planned)"
            left = left - len(data) if data else 0


def _decompressed(part: FilePart) -> Iterator[tuple[bytes, str]]:
    """The content of a gzip file, in chunks, each with what is wrong after it.

    A file cut short gives every byte that was whole. Python's `gzip` would keep what it had read ahead to itself.
    """
    with Path(part.file).open("rb") as raw:
        member, packed, pieces = zlib.decompressobj(wbits=31), b"", [b""]
        while packed := packed or raw.read(_PACKED_CHUNK):
            member = zlib.decompressobj(wbits=31) if member.eof else member
            try:
                pieces.append(member.decompress(packed, _CHUNK))
            except zlib.error as problem:
                yield b"".join(pieces), f" (damaged gzip: {problem})"
                return
            packed = member.unconsumed_tail or member.unused_data
            if sum(map(len, pieces)) >= _CHUNK:
                yield b"".join(pieces), ""
                pieces = [b""]
        yield b"".join(pieces) + member.flush(), "" if member.eof else " (the gzip file ends early)"


def _malformed_error(place: str) -> InputError:
    return InputError(f"malformed: {place}", "fetch the file again, or use mode=PERMISSIVE to keep the rest of it")


def is_gzipped(file: Path) -> bool:
    """By content, not by name: the log's times never begin with these two bytes."""
    with file.open("rb") as opened:
        return opened.read(2) == _GZIP


@dataclass(frozen=True)
class FilePart(InputPartition):
    """Bytes [start, end) of a plain file, or all of a gzipped one, whose end is None."""

    file: str
    start: int
    end: int | None


class WebLogSource(DataSource):
    """`spark.read.format("wc98")` and `spark.readStream.format("wc98")`."""

    @classmethod
    def name(cls) -> str:
        return "wc98"

    def schema(self) -> str:
        plan = Plan.from_options(self.options)
        plan.check_files()
        return plan.ddl

    def reader(self, schema: StructType) -> WebLogReader:
        return WebLogReader(Plan.from_options(self.options))

    def streamReader(self, schema: StructType) -> WebLogStreamReader:  # noqa: N802 - Spark's name
        return WebLogStreamReader(Plan.from_options(self.options))


class WebLogReader(DataSourceReader):
    """A batch over the files that are there when the query is planned."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def partitions(self) -> list[FilePart]:
        parts = [part for file in self.plan.files() for part in self.plan.parts(file, 0, file.stat().st_size)]
        return parts or [FilePart("", 0, 0)]  # Spark takes an empty list for one unknown partition

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = cast(FilePart, partition)
        return self.plan.read(part) if part.file else iter(())


class WebLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream whose offset is, for each file, the bytes of its whole records: `{"/data/a": 200, "/data/b.gz": 1}`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._there: dict[str, int] | None = None
        """What was there when a query with the trigger availableNow began."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.plan.max_files is None else ReadMaxFiles(self.plan.max_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._there = self._whole_records()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        there = self._whole_records() if self._there is None else self._there
        grown = [(file, size) for file, size in there.items() if size > start.get(file, 0)]
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else len(grown)
        return start | dict(grown[:most])

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[FilePart]:
        return [
            part
            for file, size in sorted(end.items())
            if size > start.get(file, 0)
            for part in self.plan.parts(Path(file), start.get(file, 0), size)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.plan.read(cast(FilePart, partition))

    def _whole_records(self) -> dict[str, int]:
        """For each file the bytes that can be read; 1 for a gzipped file, which is read once and whole."""
        sizes = ((file, file.stat().st_size) for file in self.plan.files())
        return {str(file): 1 if is_gzipped(file) else size // _WIDTH * _WIDTH for file, size in sizes if size}
