"""The folder of the clouds that run on this machine, for every later version to find, to ask and to stop them.

`python -m tests.golden.servers` made `servers-v1.tar.gz`, with a real server; it is never made again. Of what the
server said the line is kept that tells its port; of its settings those that say where its tables are.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from catchment.spark.cloud_folder import start_clouds, stop_clouds
from tests.golden.archives import pack, refuse_again

__all__ = ["PLACE", "TARGET", "where_tables_are"]

TARGET = Path(__file__).with_name("servers-v1.tar.gz")
PLACE = "/golden/clouds"
"""Stands for the folder."""
_TABLES = ("spark.sql.warehouse.dir ", "spark.hadoop.javax.jdo.option.ConnectionURL ")


def where_tables_are(properties: str) -> str:
    """The settings of a server on which it depends that tables are found again."""
    return "".join(line for line in properties.splitlines(keepends=True) if line.startswith(_TABLES))


def main() -> None:
    refuse_again(TARGET)
    with tempfile.TemporaryDirectory() as name:
        clouds, kept = Path(name) / "clouds", Path(name) / "kept"
        try:
            start_clouds(1, clouds, heap="640m", cores=1)
            shutil.copytree(clouds, kept, ignore=lambda _, names: set(names) - {"clouds.toml", *_KEPT})
        finally:
            stop_clouds(clouds)
        log, settings = kept / "berlin" / "server.log", kept / "berlin" / "server.properties"
        log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if "started at:" in line))
        settings.write_text(where_tables_are(settings.read_text()).replace(str(clouds), PLACE))
        pack(kept, TARGET)


_KEPT = ("berlin", "token", "server.json", "server.log", "server.properties")


if __name__ == "__main__":
    main()
