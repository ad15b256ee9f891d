"""The micro-clouds that this machine runs for itself: a folder with a server each, and the file that names them.

`clouds up` starts them, `clouds down` stops them; tables stay in the folder. Whoever has no `clouds.toml` of his own
gets these.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from catchment.errors import NameNotFoundError, ParameterError
from catchment.federation.settings import CloudSettings, read_clouds
from catchment.spark.cache import user_cache
from catchment.spark.connect_server import RunningServer, ServerSettings, launch, running, stop, wait_until_listening

__all__ = ["NAMES", "VARIABLE", "clouds_file", "clouds_folder", "find_clouds", "start_clouds", "stop_clouds"]

NAMES = ("berlin", "lyon", "porto")
"""The clouds on this machine, the first of them first."""
VARIABLE = "CATCHMENT_CLOUDS"
"""The environment variable that names another folder for them."""

Tell = Callable[[str, float], None]


def clouds_folder(folder: Path | None = None) -> Path:
    """Where the clouds of this machine live: the one given, or that of CATCHMENT_CLOUDS, or the user's cache folder."""
    if folder is not None:
        return folder.absolute()
    given = os.environ.get(VARIABLE)
    return Path(given).absolute() if given else user_cache() / "clouds"


def clouds_file(file: Path | None = None) -> Path:
    """The file of clouds that counts: the one given, `clouds.toml` here, or that of the clouds of this machine."""
    if file is not None:
        return file
    here = Path("clouds.toml")
    return here if here.is_file() else clouds_folder() / "clouds.toml"


def find_clouds(file: Path | None = None) -> dict[str, CloudSettings]:
    """The settings of all clouds; `NameNotFoundError` says how to get some."""
    there = clouds_file(file)
    if file is None and not there.is_file():
        raise NameNotFoundError("no clouds.toml here, and no clouds on this machine", "start some: catchment clouds up")
    return read_clouds(there)


def start_clouds(
    number: int = 2, folder: Path | None = None, *, heap: str = "1g", cores: int = 2, tell: Tell | None = None
) -> dict[str, RunningServer]:
    """Start clouds on this machine and write their file; those that run already are left as they are.

    Parameters
    ----------
    number
        How many: 1 to 3.
    folder
        Where they live: see `clouds_folder`.
    heap, cores
        What each may use.
    tell
        Called with what happens, and how much of it is done.
    """
    if not 1 <= number <= len(NAMES):
        raise ParameterError(f"{number} clouds", f"give 1 to {len(NAMES)}")
    if shutil.which("sh") is None:
        raise ParameterError("there is no sh", "start Spark Connect servers yourself and name them in clouds.toml")
    place = clouds_folder(folder)
    names = NAMES[:number]
    for name in names:
        launch(ServerSettings(name, place / name, heap, cores))
    servers = {}
    for done, name in enumerate(names):
        if tell is not None:
            tell(f"starting {name}", done / number)
        servers[name] = wait_until_listening(place / name)
    everyone = {name: server for name in NAMES if (server := running(place / name)) is not None}
    (place / "clouds.toml").write_text(_file(everyone), encoding="utf-8")
    return servers


def stop_clouds(folder: Path | None = None) -> list[str]:
    """Stop the clouds of this machine; the names of those that ran. Their tables stay."""
    place = clouds_folder(folder)
    stopped = [name for name in NAMES if stop(place / name)]
    (place / "clouds.toml").unlink(missing_ok=True)
    return stopped


def _file(servers: dict[str, RunningServer]) -> str:
    lines = ["# Written by `catchment clouds up`."]
    for name, server in servers.items():
        lines += ["", f"[clouds.{name}]", f'address = "sc://localhost:{server.port}"', 'region = "here"']
        lines += [f'token_file = "{name}/token"']
    return "\n".join(lines) + "\n"
