"""Folders of real processes are for ever: a site and a coordinator start in golden ones and go on."""

from __future__ import annotations

import json
import re
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.app.jobs.claims import CLAIMS, Teller, claim_line, read_claims
from catchment.app.jobs.monitor import as_event
from catchment.app.watch_tables import AnyWatch, read_watches
from catchment.errors import CatchmentError, DamagedBytesError
from catchment.kernel.checksum import crc32c
from catchment.monitor import Coordinator, HeavyHitters, Items, Site, Watch
from catchment.monitor.machine import Action, Persist
from catchment.monitor.set_aside import set_aside
from catchment.net.disk import Disk
from catchment.net.driver import MARKS
from catchment.net.settings import read_coordinator, read_site
from catchment.net.source.base import Source
from catchment.testing.lockstep import Lockstep
from tests.golden.folders import LEFT, LINES, SITES, STAYED, TARGET, append, lines_of, settings
from tests.golden.streams import Event
from tests.golden.truth import check

MORE = 150
"""Lines that come after the restart."""
_FILE = re.compile(r"([a-z0-9.-]+)-([0-9]{16})\.blob")


class _Nobody:
    """A site that has left: it hears nothing any more."""

    due = None

    def handle(self, event: Any, now: int) -> list[Action]:
        return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(TARGET) as archive:
        archive.extractall(tmp_path, filter="data")
    settings(tmp_path)
    return tmp_path


def _blobs(folder: Path) -> dict[str, bytes]:
    with Disk(folder) as disk:
        return disk.read()


def _watches(folder: Path) -> dict[str, AnyWatch]:
    return read_watches(read_coordinator(folder / "coordinator.toml", also=("watch",)).more["watch"])


def _source(folder: Path, site: str) -> Source:
    return read_site(folder / f"{site}.toml", also=("watch",)).source.build()


def _shape(value: Any) -> Any:
    """The keys and the kinds of values, with lists as the shapes in them."""
    if isinstance(value, dict):
        return {key: _shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@pytest.mark.parametrize("name", ["coordinator", *SITES])
def test_files_are_laid_out_as_they_were(folder: Path, name: str) -> None:
    blobs = _blobs(folder / name)
    files = [file for file in (folder / name).iterdir() if file.name not in ("lock", CLAIMS)]
    assert blobs
    assert len(files) == len(blobs)
    for file in files:
        match = _FILE.fullmatch(file.name)
        assert match is not None
        content = blobs[match[1]]
        checksum = crc32c(np.frombuffer(content, dtype=np.uint8))
        assert file.read_bytes() == struct.pack("<4sIQI", b"CTBL", 1, len(content), checksum) + content


def test_blobs_are_written_after_the_golden_ones_in_the_same_bytes(folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in (folder / STAYED).glob("*.blob")}
    with Disk(folder / STAYED) as disk:
        blobs = disk.read()
        disk.write([Persist(name, blob) for name, blob in blobs.items()])
    for name, content in before.items():
        match = _FILE.fullmatch(name)
        assert match is not None
        following = folder / STAYED / f"{match[1]}-{int(match[2]) + 1:016d}.blob"
        assert following.read_bytes() == content
        assert not (folder / STAYED / name).exists()


@pytest.mark.parametrize("name", ["coordinator", *SITES])
def test_a_damaged_file_is_refused(folder: Path, name: str) -> None:
    for file in sorted((folder / name).glob("*.blob")):
        whole = file.read_bytes()
        for damaged in (whole[:-1], whole[:10], whole[:-1] + bytes([whole[-1] ^ 1]), b"x" + whole[1:]):
            file.write_bytes(damaged)
            with pytest.raises(DamagedBytesError):
                _blobs(folder / name)
        file.write_bytes(whole)


def test_the_marks_of_the_source_lead_to_the_position(folder: Path) -> None:
    marks = _blobs(folder / STAYED)[MARKS]
    known = json.loads(marks)["marks"]
    head = len("url,at\n")
    first = sum(len(f"{page},{at}\n") for page, at in lines_of(STAYED, 0, LINES // 2))
    assert known == [[0, head, 2, 0], [LINES // 2, head + first, 2 + LINES // 2, 0]]
    text = (folder / f"{STAYED}.csv").read_text()
    for start in (0, 1, LINES // 2, LINES // 2 + 7, LINES):
        assert _read(folder, start, marks) == lines_of(STAYED, start, LINES)
    (folder / f"{STAYED}.csv").write_text(text.replace("/page/1,", "/page/9,"))
    with pytest.raises(CatchmentError, match="not the file that was read"):
        _read(folder, LINES, marks)


def _read(folder: Path, start: int, marks: bytes) -> list[tuple[str, int]]:
    source, found = _source(folder, STAYED), []
    source.start(start, marks)
    while (batch := source.next()) is not None:
        assert batch.times is not None
        found += list(zip(batch.keys.to_pylist(), batch.times.tolist(), strict=True))
    return found


def test_a_site_and_a_coordinator_go_on_in_golden_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(folder, STAYED, LINES, LINES + MORE)
    watches = _watches(folder)
    kept = _blobs(folder / "coordinator")
    assert set_aside(watches.values(), SITES, kept) == {}
    coordinator = Coordinator(tuple(watches.values()), SITES, blobs=kept)
    blobs = _blobs(folder / STAYED)
    marks = blobs.pop(MARKS)
    site = Site(STAYED, tuple(watches.values()), blobs=blobs)
    assert site.position == LINES
    world = Lockstep(coordinator, {STAYED: site, LEFT: _Nobody()})
    source = _source(folder, STAYED)
    source.start(site.position, marks)
    while (batch := source.next()) is not None:
        world.give(STAYED, as_event(batch, timed=True, stream=0))
    world.pass_time(25_000)
    assert site.position == LINES + MORE
    assert coordinator.refused == 0
    streams = {name: [Event(*line) for line in lines_of(name, 0, LINES + MORE * (name == STAYED))] for name in SITES}
    for watch in watches.values():
        claim = _claim(coordinator, watch)
        assert claim.left == (LEFT,)
        check(watch, claim, streams)
    Teller(watches, len(SITES), folder / "coordinator" / CLAIMS, every=0.0).tell(coordinator)
    told = json.loads(read_claims(folder / "coordinator.toml")[0])
    assert capsys.readouterr().out.count("\n") == len(watches)
    assert list(told) == list(watches)
    assert all(claim["left"] == [LEFT] for claim in told.values())


def _claim(coordinator: Coordinator, watch: AnyWatch) -> Any:
    if isinstance(watch, Items):
        return coordinator.items(watch.number)
    return coordinator.claim(watch.number) if isinstance(watch, Watch) else coordinator.heavy_hitters(watch.number)


def test_claims_are_written_in_the_golden_shape(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden, age = read_claims(folder / "coordinator.toml")
    assert age >= 0
    watches = _watches(folder)
    coordinator = Coordinator(tuple(watches.values()), SITES, blobs=_blobs(folder / "coordinator"))
    site = Site(STAYED, tuple(watches.values()), blobs=_blobs(folder / STAYED))
    world = Lockstep(coordinator, {STAYED: site, LEFT: _Nobody()})
    world.pass_time(12_000)
    file = folder / "now.json"
    Teller(watches, len(SITES), file, every=0.0).tell(coordinator)
    found, before = json.loads(file.read_text()), json.loads(golden)
    assert _shape(found) == _shape(before)
    assert capsys.readouterr().out
    for name, claim in before.items():
        assert claim_line(name, claim).startswith(f"{name}: ")
        for key in ("cut", "left", "missing", "sites", "window", "total", "phi", "threshold"):
            assert found[name].get(key) == claim.get(key)
    assert json.dumps(before, indent=2, allow_nan=False) == golden


def test_the_folder_of_a_site_that_has_left_is_read(folder: Path) -> None:
    watches = tuple(_watches(folder).values())
    blobs = _blobs(folder / LEFT)
    assert json.loads(blobs.pop(MARKS))["marks"]
    assert Site(LEFT, watches, blobs=blobs).position == LINES
    assert any(isinstance(watch, HeavyHitters) for watch in watches)
