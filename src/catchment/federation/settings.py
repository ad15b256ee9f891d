"""The micro-clouds of a federation, TOML, read and checked: what is wrong is named with its line and its cure.

    [clouds.paris]
    address = "sc://spark.paris.example.org:15002"
    region = "eu-west-3"
    cost_out = 0.05                     # the price of a byte that leaves, any unit, the same for all clouds
    cost_in = 0
    token_env = "PARIS_TOKEN"           # the environment variable that holds the token; never the token itself
    tls = true                          # the default for an address beyond this machine

    [clouds.lyon]
    address = "sc://localhost:15002"
    token_file = "lyon.token"           # or a file that only its owner can read
    deadline = "10 minutes"             # how long one statement may take there

Certificates are checked against the authorities of gRPC, or those in the file that the environment variable
GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names. Paths are relative to the file's folder.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from catchment.errors import InsecureAddressError
from catchment.window.settings_file import open_settings
from catchment.window.settings_tables import Table

__all__ = ["CloudSettings", "is_loopback", "read_clouds"]

_ADDRESS = re.compile(r"sc://(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?/?")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PORT = 15002
"""Where a Spark Connect server listens if nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class CloudSettings:
    """One micro-cloud, as its file describes it. The token is no part of what is shown or compared."""

    name: str
    host: str
    port: int
    region: str = ""
    cost_in: float = 0.0
    cost_out: float = 1.0
    tls: bool = False
    deadline: float = 600.0
    """Seconds that one statement may take."""
    token: str | None = field(default=None, repr=False, compare=False)

    @property
    def address(self) -> str:
        """As people write it.

        >>> CloudSettings("paris", "localhost", 15002).address
        'sc://localhost:15002'
        """
        return f"sc://{self.host}:{self.port}"


def read_clouds(file: Path) -> dict[str, CloudSettings]:
    """The clouds of a file by their names, in its order.

    Raises
    ------
    SettingsError
        with the file, the line, the value and the cure.
    NameNotFoundError
        There is no such file.
    """
    whole = open_settings(file, what="a file of clouds", cure="write one, or start clouds here: `catchment clouds up`")
    whole.only("clouds")
    tables = whole.table("clouds", needed=True)
    found = {name: _cloud(tables.table(name), name, file.parent) for name in tables.names()}
    if not found:
        raise tables.places.error(tables.path, "no cloud", 'add a table [clouds.paris] with address = "sc://…"')
    return found


def is_loopback(host: str) -> bool:
    """Whether an address can only lead to this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("example.org")
    (True, True, True, False)
    """
    return host == "localhost" or host == "[::1]" or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def _cloud(table: Table, name: str, folder: Path) -> CloudSettings:
    if not _NAME.fullmatch(name):
        cure = "use small letters, digits and _, beginning with a letter: the name is a value in SQL"
        raise table.places.error(table.path, f"a cloud of the name {name!r}", cure)
    host, port = _address(table)
    local = is_loopback(host)
    tls = table.truth("tls", not local)
    token = _token(table, folder)
    if token is not None and not tls and not local:
        raise table.error("tls", f"a token would cross to {host} unencrypted", "write tls = true")
    if not tls and not local:
        table.places.checked((*table.path, "tls"), lambda: _refuse(host))
    settings = CloudSettings(
        name,
        host,
        port,
        table.text("region", None) or "",
        float(table.number("cost_in", 0.0, low=-1e-300, high=1e300)),
        float(table.number("cost_out", 1.0, low=-1e-300, high=1e300)),
        tls,
        table.duration("deadline", "10 minutes", least=1_000_000) / 1_000_000,
        token,
    )
    table.finish()
    return settings


def _refuse(host: str) -> None:
    raise InsecureAddressError(f"{host} without TLS", "write tls = true, or reach it through a tunnel on localhost")


def _address(table: Table) -> tuple[str, int]:
    cure = 'write address = "sc://host:15002"'
    text = table.text("address", cure=cure)
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"] or _PORT) not in range(1, 65536):
        also = "; a token goes to token_env" if ";" in text else ""
        raise table.error("address", f'address = "{text.split(";")[0]}"', cure + also)
    return match["host"], int(match["port"] or _PORT)


def _token(table: Table, folder: Path) -> str | None:
    variable, file = table.text("token_env", None), table.text("token_file", None)
    if variable is not None and file is not None:
        raise table.error("token_file", "token_env and token_file", "write one of the two")
    if variable is not None:
        if not os.environ.get(variable):
            raise table.error("token_env", f"{variable} is not set", f"export {variable}=… before you start")
        return os.environ[variable]
    return None if file is None else _token_in(table, folder / file)


def _token_in(table: Table, file: Path) -> str:
    try:
        mode, text = file.stat().st_mode, file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise table.error("token_file", f"{file} cannot be read ({problem})", "give a file with the token") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise table.error("token_file", f"others may read {file}", f"chmod 600 {file}")
    if not text:
        raise table.error("token_file", f"{file} is empty", "give a file with the token")
    return text
