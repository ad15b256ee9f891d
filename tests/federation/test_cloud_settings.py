"""The file of clouds: what it takes, and what it refuses by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.errors import NameNotFoundError, SettingsError
from catchment.federation.settings import CloudSettings, read_clouds


def written(folder: Path, text: str) -> Path:
    file = folder / "clouds.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARIS_TOKEN", "secret")
    (tmp_path / "lyon.token").write_text("other\n")
    (tmp_path / "lyon.token").chmod(0o600)
    clouds = read_clouds(
        written(
            tmp_path,
            """
            [clouds.paris]
            address = "sc://spark.example.org:443"
            region = "eu-west-3"
            cost_in = 0.5
            cost_out = 2
            token_env = "PARIS_TOKEN"
            deadline = "2 minutes"

            [clouds.lyon]
            address = "sc://127.0.0.1"
            token_file = "lyon.token"
            """,
        )
    )
    assert list(clouds) == ["paris", "lyon"]
    assert clouds["paris"] == CloudSettings("paris", "spark.example.org", 443, "eu-west-3", 0.5, 2.0, True, 120.0)
    assert clouds["paris"].token == "secret"
    assert clouds["lyon"] == CloudSettings("lyon", "127.0.0.1", 15002)
    assert clouds["lyon"].token == "other"
    assert "secret" not in repr(clouds)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[clouds.paris]\naddress = "http://host:1"', 2, "sc://host"),
        ('[clouds.paris]\naddress = "sc://host:70000"', 2, "70000"),
        ('[clouds.paris]\naddress = "sc://host:1/;token=abc"', 2, "token_env"),
        ('[clouds.paris]\nregion = "x"', 1, "no address"),
        ('[clouds.paris]\naddress = "sc://host"\nregoin = "x"', 3, "did you mean 'region'"),
        ('[clouds.paris]\naddress = "sc://host"\ntls = false', 3, "without TLS"),
        ('[clouds.paris]\naddress = "sc://localhost"\ntoken_env = "NOT_SET_ANYWHERE"', 3, "is not set"),
        ('[clouds.paris]\naddress = "sc://localhost"\ntoken_file = "nowhere"', 3, "cannot be read"),
        ('[clouds.paris]\naddress = "sc://localhost"\ntoken_file = "open"', 3, "others may read"),
        ('[clouds.paris]\naddress = "sc://localhost"\ncost_out = -1', 3, "cost_out"),
        ('[clouds.paris]\naddress = "sc://localhost"\ndeadline = "soon"', 3, "deadline"),
        ('[clouds."pa ris"]\naddress = "sc://localhost"', 1, "small letters"),
        ("[clouds]", 1, "no cloud"),
        ('[cloud.paris]\naddress = "sc://localhost"', 1, "did you mean 'clouds'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    (tmp_path / "open").write_text("x")
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(SettingsError) as caught:
        read_clouds(written(tmp_path, text))
    assert f"clouds.toml, line {line}: " in str(caught.value)
    assert said in str(caught.value)


def test_a_token_never_crosses_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARIS_TOKEN", "secret")
    file = written(tmp_path, '[clouds.p]\naddress = "sc://example.org"\ntls = false\ntoken_env = "PARIS_TOKEN"')
    with pytest.raises(SettingsError, match="unencrypted") as caught:
        read_clouds(file)
    assert "secret" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="clouds up"):
        read_clouds(tmp_path / "clouds.toml")
