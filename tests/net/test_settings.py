"""Files of settings: what is in them, and what is said about what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import catchment.app.watch_tables
import catchment.net.settings
from catchment.errors import NameNotFoundError, SettingsError
from catchment.monitor.machine import COORDINATOR
from catchment.net.address import Address
from catchment.net.certificates import make_certificates
from catchment.net.mailbox import Limits
from catchment.net.settings import read_coordinator, read_site
from catchment.net.source import Fields, Reader

SITE = """\
[site]
name = "berlin"
coordinator = "example.org:7433"
state = "state"
[tls]
authority = "authority.pem"
certificate = "berlin.pem"
key = "berlin.key"
[source]
format = "csv"
path = "events.csv"
key = "url"
time = "at"
[queue]
frames = 10
[[query]]
kind = "mine"
"""
COORDINATOR_FILE = """\
[coordinator]
listen = "0.0.0.0:7433"
sites = ["berlin", "paris"]
state = "state"
lease = "1 minute"
[tls]
authority = "authority.pem"
certificate = "coordinator.pem"
key = "coordinator.key"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("settings")
    make_certificates(made, ["example.org"], ["berlin", "paris"])
    (made / "events.csv").write_text("url,at\n/,1\n")
    return made


def written(folder: Path, text: str) -> Path:
    file = folder / "settings.toml"
    file.write_text(text)
    return file


def test_a_site(folder: Path) -> None:
    site = read_site(written(folder, SITE), also=("query",))
    assert (site.name, site.coordinator, site.state) == ("berlin", Address("example.org", 7433), folder / "state")
    assert site.certificates is not None
    assert site.certificates.key == folder / "berlin.key"
    assert (site.limits, site.grace) == (Limits(frames=10), 5.0)
    assert (site.source.fields, site.source.path) == (Fields("url", "at"), folder / "events.csv")
    assert isinstance(site.source.build(), Reader)
    assert site.more["query"][0].text("kind") == "mine"
    assert (site.source.idle, site.source.may_fall_silent) == (None, False)
    silent = read_site(
        written(folder, SITE.replace('time = "at"', 'time = "at"\nfollow = true\nidle = "5 seconds"')), also=("query",)
    )
    assert (silent.source.idle, silent.source.may_fall_silent) == (5_000_000, True)


def test_a_coordinator(folder: Path) -> None:
    coordinator = read_coordinator(written(folder, COORDINATOR_FILE))
    assert (coordinator.sites, coordinator.lease) == (("berlin", "paris"), 60_000)
    assert coordinator.listen == Address("0.0.0.0", 7433)
    plain = COORDINATOR_FILE.split("[tls]")[0].replace("0.0.0.0", "127.0.0.1") + "development = true\n"
    assert read_coordinator(written(folder, plain)).certificates is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "berlin"', 'name = "a/b"', r"line 2: the site name 'a/b': use up to 63 letters"),
        ('name = "berlin"', f'name = "{COORDINATOR}"', r"line 2: the site name 'coordinator'"),
        ('name = "berlin"\n', "", r"line 1: \[site\] has no name: write name = "),
        ('name = "berlin"', 'name = "paris"', r"line 7: the certificate is that of 'berlin', not of 'paris'"),
        ("example.org:7433", "example.org", r"line 3: the address 'example.org': write \"host:port\""),
        ('state = "state"', "state = 5", r"line 4: state = 5: write state"),
        ("berlin.pem", "none.pem", r"line 7: no file .*none.pem: make one with `catchment certificates`"),
        ("berlin.key", "paris.key", r"line 7: .*cannot be used .*: give a certificate, its own key"),
        ("berlin.pem", "events.csv", r"line 7: .*cannot be used"),
        ('state = "state"', 'state = "state"\ndevelopment = true', r"line 5: development = true and \[tls\].*not both"),
        ('format = "csv"', 'format = "cvs"', r"line 10: format = \"cvs\": did you mean 'csv'\?"),
        ('path = "events.csv"', 'path = "none.csv"', r"line 1?\d?9?: no file .*none.csv: name a file that is there"),
        ('path = "events.csv"', "", "no place or more than one place that events come from: write one of path"),
        ('path = "events.csv"', 'connect = "host:1"', "a socket without the names of its columns: write columns"),
        ('path = "events.csv"', 'path = "events.csv"\nfolow = true', r"has no key 'folow': did you mean 'follow'\?"),
        ('time = "at"', 'time = "at"\nidle = "5 seconds"', r"line 14: idle for a file that is read once: write follow"),
        ('time = "at"', 'follow = true\nidle = "5 seconds"', r"line 14: idle without a time: name the field"),
        ('time = "at"', 'time = "at"\nfollow = true\nidle = "1 ms"', r"line 15: idle = \"1 ms\": give at least 1"),
        ('time = "at"', 'time = "at"\nstream = 2', r"line 14: stream = 2: give an integer from 0 to 1"),
        ("frames = 10", "frames = 0", r"line 15: frames = 0: give an integer from 1"),
        ('kind = "mine"', "kind = ", r"line 17, column 8: this is not TOML"),
        ("[queue]", "[queues]", r"line 14: a site has no key 'queues': did you mean 'queue'\?"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_site_is_named_with_its_line_and_cure(folder: Path, old: str, new: str, said: str) -> None:
    assert old in SITE
    with pytest.raises(SettingsError, match=said):
        read_site(written(folder, SITE.replace(old, new)), also=("query",))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["berlin", "paris"]', "[]", r"line 3: sites = \[\]: name at least one site"),
        ('["berlin", "paris"]', '["a", "a"]', "name at least one site, and each once"),
        ('["berlin", "paris"]', '["a", "b/c"]', r"line 3: the site name 'b/c'"),
        ('"1 minute"', '"soon"', r"line 5: lease='soon' is no length of time"),
        ('"1 minute"', '"1 ms"', r"line 5: lease = \"1 ms\": give at least 1 second"),
    ],
)
def test_what_is_wrong_in_a_coordinator_is_named_too(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_coordinator(written(folder, COORDINATOR_FILE.replace(old, new)))


def test_development_mode_must_be_asked_for_and_keeps_to_this_machine(folder: Path) -> None:
    bare = COORDINATOR_FILE.split("[tls]")[0]
    with pytest.raises(SettingsError, match=r"no \[tls\]: name certificates under \[tls\], or write development"):
        read_coordinator(written(folder, bare))
    with pytest.raises(SettingsError, match=r"line 2: 0.0.0.0:7433 without TLS: name certificates"):
        read_coordinator(written(folder, bare + "development = true\n"))
    with pytest.raises(NameNotFoundError, match="no file"):
        read_site(folder / "nowhere.toml")


def test_every_key_of_the_files_is_documented() -> None:
    source = Path(catchment.net.settings.__file__).read_text() + Path(catchment.app.watch_tables.__file__).read_text()
    named = set(re.findall(r'(?:table|tls)\.(?!error|has|table)\w+\(\s*"(\w+)"', source))
    text = (Path(__file__).parents[2] / "docs/monitoring.md").read_text()
    assert len(named) > 25
    assert not {name for name in named if f"`{name}`" not in text}


def test_a_log_of_1998_has_no_idle(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")
    file = tmp_path / "a.toml"
    file.write_text(
        '[site]\nname = "a"\ncoordinator = "127.0.0.1:7433"\nstate = "a"\ndevelopment = true\n'
        '[source]\nformat = "wc98"\npath = "log"\nfollow = true\nkey = "object"\nidle = "5 seconds"\n'
    )
    with pytest.raises(SettingsError, match="leave it out"):
        read_site(file)
