"""An authority with certificates of a coordinator and of a site, for every later version to accept and to add to.

`python -m tests.golden.certificates` made `certificates-v1.tar.gz`; it is never made again. They are good for a hundred
years, and for nothing but these tests: the keys are there for all to see.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from catchment.net.certificates import make_certificates
from tests.golden.archives import pack, refuse_again

__all__ = ["HOSTS", "SITE", "TARGET"]

TARGET = Path(__file__).with_name("certificates-v1.tar.gz")
HOSTS = ["localhost", "127.0.0.1"]
SITE = "north"


def main() -> None:
    refuse_again(TARGET)
    with tempfile.TemporaryDirectory() as name:
        make_certificates(Path(name), HOSTS, [SITE], days=36_500)
        pack(Path(name), TARGET)


if __name__ == "__main__":
    main()
