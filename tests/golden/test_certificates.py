"""Certificates outlive versions: golden ones pass, and their authority signs for sites that come later."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.errors import ParameterError
from catchment.monitor.machine import COORDINATOR
from catchment.net.certificates import make_certificates
from catchment.net.identity import Certificates, name_in_pem
from tests.golden.archives import unpack
from tests.golden.certificates import HOSTS, SITE, TARGET


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpack(TARGET, tmp_path)


def of(folder: Path, name: str) -> Certificates:
    return Certificates(folder / "authority.pem", folder / f"{name}.pem", folder / f"{name}.key")


def test_golden_certificates_pass_and_name_the_site(folder: Path) -> None:
    of(folder, COORDINATOR).check(server=True)
    of(folder, SITE).check(server=False)
    assert name_in_pem(folder / f"{SITE}.pem") == SITE


def test_a_site_is_added_and_what_is_there_stays(folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    made = make_certificates(folder, HOSTS, [SITE, "south"])
    assert made[SITE] == of(folder, SITE)
    made["south"].check(server=False)
    assert name_in_pem(made["south"].certificate) == "south"
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"south.pem", "south.key"}
    with pytest.raises(ParameterError, match=r"is not for example\.org"):
        make_certificates(folder, ["example.org"], [SITE])
