"""Reading a pipeline's output folder while the pipeline writes to it.

The writer (`catchment.spark.pipeline.folder`) only ever renames whole files into place and removes old ones after
their newest rows are in a file that is there already. So a reader that finds a file gone, or a listing changed under
it, starts again; it never sees half a file.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from catchment.errors import DamagedBytesError, NameNotFoundError, UnknownFormatError
from catchment.sketch.base import Sketch

__all__ = ["PipelineFolder", "Reading", "SketchAbout"]

_TRIES = 20
_PAUSE = 0.05
_VERSION = 1
_NUMBERED = re.compile(r"(batch|until)=\d+")
EVERYWHERE = "all"
"""The name of the one site of a pipeline that keeps none apart."""


@dataclass(frozen=True, slots=True)
class SketchAbout:
    """What a pipeline says of one of its sketches."""

    name: str
    kind: str
    integers: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where the sketch of one site is, and the tick up to which it knows the site's events."""

    site: str
    at: int
    events: int
    late: int
    order: int
    """Of equal ticks the one with the larger order is the newer."""
    file: Path
    row: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The sketches of the sites at one moment.

    `now` is the tick up to which the answer is meant; `behind` are sites whose newest snapshot ends before it although
    the pipeline may still have events of theirs: what they had up to then is in their sketch.
    """

    sketches: dict[str, Sketch]
    now: int
    behind: tuple[str, ...]
    events: int
    late: int


class PipelineFolder:
    """The output folder of a pipeline, for readers.

    >>> PipelineFolder(Path("nowhere"))
    Traceback (most recent call last):
    catchment.errors.NameNotFoundError: nowhere is no output folder of a pipeline (there is no pipeline.json): give the
    folder that [output] names, after the pipeline has started
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            about = json.loads((path / "pipeline.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise NameNotFoundError(
                f"{path} is no output folder of a pipeline (there is no pipeline.json)",
                "give the folder that [output] names, after the pipeline has started",
            ) from None
        except ValueError:
            raise DamagedBytesError(f"{path / 'pipeline.json'} is not JSON", "start the pipeline again") from None
        if about.get("version") != _VERSION:
            raise UnknownFormatError(
                f"{path} is of version {about.get('version')!r}", "upgrade catchment to the version that wrote it"
            )
        self.about: dict[str, Any] = about
        self.sketches = {
            each["name"]: SketchAbout(each["name"], each["kind"], each["integers"]) for each in about["sketches"]
        }

    @property
    def tick(self) -> int:
        """Microseconds of a tick."""
        return int(self.about["tick"])

    def sketch(self, name: str) -> SketchAbout:
        """What the pipeline says of the sketch of that name."""
        if name not in self.sketches:
            near = difflib.get_close_matches(name, self.sketches, n=1)
            hint = f"did you mean {near[0]!r}? There are " if near else "there are "
            raise NameNotFoundError(f"no sketch is called {name!r}", hint + ", ".join(self.sketches))
        return self.sketches[name]

    def read(self, name: str, *, sites: Collection[str] = (), now: int | None = None) -> Reading:
        """The sketches of that name, of all sites or of those, as they were at `now`.

        Without `now` it is the newest tick that every site has reached, so that all tell of the same time. A site that
        is behind the newest by more than two stretches and the lateness does not hold the others up.
        """
        self.sketch(name)
        for _ in range(_TRIES):
            try:
                listed = self._listing()
                found = self._snapshots(name, listed)
                chosen, moment, behind = self._choose(found, sites, now)
                sketches = {snapshot.site: _load(snapshot) for snapshot in chosen}
                after = self._listing()
            except FileNotFoundError:
                time.sleep(_PAUSE)
                continue
            if all(file in after for file in listed) and _folded(listed) == _folded(after):
                events, late = (sum(getattr(each, field) for each in chosen) for field in ("events", "late"))
                return Reading(sketches, moment, behind, events, late)
        raise NameNotFoundError(f"the snapshots in {self.path} change faster than they can be read", "ask again")

    def _listing(self) -> list[Path]:
        """The files of snapshots, oldest first."""
        folders = [entry for entry in (self.path / "snapshots").iterdir() if _NUMBERED.fullmatch(entry.name)]
        # A folder is there a moment before its file, and after it.
        found = [folder / "part.parquet" for folder in folders]
        return sorted((file for file in found if file.is_file()), key=_place)

    def _snapshots(self, name: str, files: Iterable[Path]) -> dict[str, list[Snapshot]]:
        """Every snapshot of that sketch by site, oldest first."""
        by: list[str] = self.about["sites"]
        found: dict[str, list[Snapshot]] = defaultdict(list)
        for order, file in enumerate(files):
            table = pq.ParquetFile(file).read(columns=[*by, "name", "at", "events", "late"])
            at = table["at"].cast("int64").to_numpy() // self.tick
            labels = [column.to_pylist() for column in (table[part] for part in by)]
            columns = (table[part].to_pylist() for part in ("name", "events", "late"))
            for row, (kind, events, late) in enumerate(zip(*columns, strict=True)):
                if kind == name:
                    site = "/".join(str(label[row]) for label in labels) or EVERYWHERE
                    found[site].append(Snapshot(site, int(at[row]), events, late, order, file, row))
        if not found:
            raise NameNotFoundError(
                f"there is no snapshot of {name} in {self.path} yet",
                f"wait until a stretch of {self._length(self.about['every'])} is over, or set a shorter every",
            )
        return {site: sorted(rows, key=lambda row: (row.at, row.order)) for site, rows in sorted(found.items())}

    def _choose(
        self, found: dict[str, list[Snapshot]], sites: Collection[str], now: int | None
    ) -> tuple[list[Snapshot], int, tuple[str, ...]]:
        """Of each site the snapshot that fits the moment best, the moment, and who is behind it."""
        newest = max(rows[-1].at for rows in found.values())
        reach = 2 * self.about["every"] + self.about["lateness"]
        timed = self.about["mode"] == "snapshots"
        moment = now
        if moment is None:
            up = [rows[-1].at for rows in found.values() if rows[-1].at >= newest - reach]
            moment = min(up) if timed else newest
        for site in sites:
            if site not in found:
                near = difflib.get_close_matches(site, found, n=1)
                hint = f"did you mean {near[0]!r}? There are " if near else "there are "
                raise NameNotFoundError(f"no site {site!r} has a snapshot", hint + ", ".join(found))
        chosen, behind = [], []
        settled = self._settled() if timed else moment - reach
        for site, rows in found.items():
            if sites and site not in sites:
                continue
            later = [row for row in rows if row.at >= moment]
            # Of the snapshots at that tick the last one written: it may have been made again with later events.
            best = [row for row in later if row.at == later[0].at][-1] if later else rows[-1]
            chosen.append(best)
            if best.at < moment and (settled < moment if timed else best.at < settled):
                behind.append(site)
        return chosen, moment, tuple(behind)

    def _settled(self) -> int:
        """The tick that the watermark has passed: who has no snapshot up to it had no events either."""
        try:
            with (self.path / "metrics.jsonl").open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 4096))
                lines = file.read().splitlines()
            told = [
                json.loads(line).get("watermark") for line in lines[-3:] if line.endswith(b"}") and line[:1] == b"{"
            ]
            moments = [datetime.fromisoformat(text) for text in told if text]
        except (OSError, ValueError):
            return -(2**60)
        return max((int(moment.timestamp() * 1_000_000) // self.tick - 1 for moment in moments), default=-(2**60))

    def _length(self, ticks: int) -> str:
        return f"{ticks * self.tick / 1_000_000:g} seconds"


def _place(file: Path) -> tuple[int, bool]:
    """Where a file stands in time: what was folded until a batch comes before that batch."""
    kind, _, number = file.parent.name.partition("=")
    return int(number), kind == "batch"


def _folded(files: Iterable[Path]) -> set[str]:
    return {file.parent.name for file in files if file.parent.name.startswith("until=")}


def _load(snapshot: Snapshot) -> Sketch:
    column = pq.ParquetFile(snapshot.file).read(columns=["sketch"])["sketch"]
    return Sketch.from_bytes(column[snapshot.row].as_py())
