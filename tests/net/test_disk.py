"""Blobs survive, whole or not at all, whatever moment the process dies at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.errors import DamagedBytesError, ParameterError, UnreachableError
from catchment.monitor.machine import Persist
from catchment.net.disk import Disk


class CrashError(Exception):
    """The process would be gone here."""


def read(folder: Path) -> dict[str, bytes]:
    with Disk(folder) as disk:
        return disk.read()


def test_the_newest_of_each_name_is_read_back(tmp_path: Path) -> None:
    with Disk(tmp_path / "new" / "folder") as disk:
        assert disk.read() == {}
        disk.write([Persist("a", b"1"), Persist("b", b""), Persist("a", b"2")])
        disk.write([Persist("a", bytes(1_000_000))])
        disk.write([])
        assert disk.read() == {"a": bytes(1_000_000), "b": b""}
    assert read(tmp_path / "new" / "folder") == {"a": bytes(1_000_000), "b": b""}
    assert len(list((tmp_path / "new" / "folder").glob("*.blob"))) == 2


def test_a_crash_at_any_step_leaves_the_blobs_of_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file operation of a write is where it ends once; what is there then must be a prefix of what was asked."""
    steps = ("fsync", "rename", "unlink")
    moments = [
        {"a": b"old", "b": b"old"},
        {"a": b"new", "b": b"old"},
        {"a": b"new", "b": b"new"},
        {"a": b"newest", "b": b"new"},
    ]
    seen = []
    for step in range(30):
        folder = tmp_path / str(step)
        with Disk(folder) as disk:
            disk.write([Persist("a", b"old"), Persist("b", b"old")])
            left = step

            def ending(real: Any) -> Any:
                def operation(*args: Any, **more: Any) -> Any:
                    nonlocal left
                    if left == 0:
                        raise CrashError
                    left -= 1
                    return real(*args, **more)

                return operation

            with monkeypatch.context() as patch:
                patch.setattr(os, steps[0], ending(os.fsync))
                patch.setattr(Path, steps[1], ending(Path.rename))
                patch.setattr(Path, steps[2], ending(Path.unlink))
                try:
                    disk.write([Persist("a", b"new"), Persist("b", b"new"), Persist("a", b"newest")])
                    finished = True
                except CrashError:
                    finished = False
        seen.append(moments.index(read(folder)))
        assert not list(folder.glob("*.new"))
        if finished:
            break
    assert finished
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "longer"])
def test_a_blob_that_the_disk_has_lost_is_refused(tmp_path: Path, damage: str) -> None:
    with Disk(tmp_path) as disk:
        disk.write([Persist("state", b"twelve bytes")])
    (file,) = tmp_path.glob("*.blob")
    data = file.read_bytes()
    flipped = data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]
    file.write_bytes({"cut": data[:-1], "flip": flipped, "empty": b"", "longer": data + b"x"}[damage])
    with pytest.raises(DamagedBytesError, match=r"state-.*: the disk has lost it: restore the file from a copy"):
        read(tmp_path)


def test_what_a_crash_left_half_written_is_thrown_away(tmp_path: Path) -> None:
    with Disk(tmp_path) as disk:
        disk.write([Persist("state", b"good")])
    (tmp_path / "state-0000000000000002.new").write_bytes(b"CTBL half")
    assert read(tmp_path) == {"state": b"good"}
    with Disk(tmp_path) as disk:
        disk.write([Persist("state", b"better")])
    assert read(tmp_path) == {"state": b"better"}


def test_a_folder_is_of_one_process_at_a_time(tmp_path: Path) -> None:
    with Disk(tmp_path), pytest.raises(UnreachableError, match="is in use: stop the process that has it"):
        Disk(tmp_path)
    Disk(tmp_path).close()


def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path) -> None:
    with Disk(tmp_path / "state") as disk:
        for name in ("../a", "", "a/b", ".a", "a\0"):
            with pytest.raises(ParameterError, match="a blob called"):
                disk.write([Persist(name, b"")])
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="name a folder to write in"):
        Disk(tmp_path / "file")


WRITER = """
import sys
from pathlib import Path
from catchment.monitor.machine import Persist
from catchment.net.disk import Disk
disk = Disk(Path(sys.argv[1]))
number = int.from_bytes(disk.read().get("b", b""), "big")
while True:
    number += 1
    blob = number.to_bytes(8, "big")
    disk.write([Persist("a", blob * 10_000), Persist("b", blob)])
    print(number, flush=True)
"""


def test_a_process_killed_at_random_keeps_all_that_it_said_was_durable(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    said = 0
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(5):  # it is at work, however busy the machine is
            writer.stdout.readline()
        time.sleep(float(random.uniform(0.0, 0.3)))
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        said = max([said, *map(int, rest)])
        blobs = read(tmp_path)
        a, b = blobs["a"][:8], blobs["b"]
        assert blobs["a"] == a * 10_000
        assert said <= int.from_bytes(b, "big") <= int.from_bytes(a, "big") <= int.from_bytes(b, "big") + 1
    assert said > 10
