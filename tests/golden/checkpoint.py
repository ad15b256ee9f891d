"""Writes the golden checkpoint: a stream stopped half-way, for every later version to go on with.

`python -m tests.golden.checkpoint` made `checkpoint-v1.tar.gz`. It is never made again: a new layout of the state is a
new file beside it.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from pathlib import Path

from catchment.spark.session import session
from catchment.spark.source import register_sources

TARGET = Path(__file__).with_name("checkpoint-v1.tar.gz")


def relocate(checkpoint: Path, address: str) -> None:
    """Tell a checkpoint that it lies elsewhere: Spark writes the whole path of the state's schema into it."""
    for file in (checkpoint / "state").glob("*/_metadata/v2/[0-9]*"):
        file.write_text(re.sub(r'file:[^"]*?/checkpoint/', f"file:{address}/", file.read_text()))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def main() -> None:
    from tests.spark.test_stream import RECIPE, run

    if TARGET.exists():
        raise SystemExit(f"{TARGET} exists: golden files are never changed")
    spark = session()
    register_sources(spark)
    stream = spark.readStream.format("catchment_events")
    for name, value in {**RECIPE, "events": 7000, "per_batch": 3000}.items():
        stream = stream.option(name, value)
    with tempfile.TemporaryDirectory() as folder:
        run(stream.load(), Path(folder) / "checkpoint", every="1 minute")
        relocate(Path(folder) / "checkpoint", "/golden/checkpoint")
        with tarfile.open(TARGET, "w:gz") as archive:
            archive.add(Path(folder) / "checkpoint", arcname="checkpoint")
    spark.stop()


if __name__ == "__main__":
    main()
