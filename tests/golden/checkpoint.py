"""Writes the golden checkpoint: a stream stopped half-way, for every later version to go on with.

`python -m tests.golden.checkpoint` made `checkpoint-v1.tar.gz`. It is never made again: a new layout of the state is a
new file beside it.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from catchment.spark.session import session
from catchment.spark.source import register_sources
from tests.spark.test_stream import RECIPE, run

TARGET = Path(__file__).with_name("checkpoint-v1.tar.gz")


def main() -> None:
    if TARGET.exists():
        raise SystemExit(f"{TARGET} exists: golden files are never changed")
    spark = session()
    register_sources(spark)
    stream = spark.readStream.format("catchment_events")
    for name, value in {**RECIPE, "events": 7000, "per_batch": 3000}.items():
        stream = stream.option(name, value)
    with tempfile.TemporaryDirectory() as folder:
        run(stream.load(), Path(folder) / "checkpoint", every="1 minute")
        with tarfile.open(TARGET, "w:gz") as archive:
            archive.add(Path(folder) / "checkpoint", arcname="checkpoint")
    spark.stop()


if __name__ == "__main__":
    main()
