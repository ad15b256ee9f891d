"""NetFlow as CSV in the columns of the CTU-13 data set, by Spark's own CSV reader.

S. García, M. Grill, J. Stiborek, A. Zunino: An empirical comparison of botnet detection methods. Computers & Security
45, 2014.

    flows = read_netflow(spark, "/data/netflow/*.csv.gz")
    good, bad = split_bad(flows, FLOW_CHECKS)
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from catchment.spark.source.dead_letters import Checks

__all__ = ["FLOW_CHECKS", "NETFLOW_FILE", "read_netflow"]

CORRUPT = "_corrupt_record"

NETFLOW_FILE = (
    "StartTime TIMESTAMP, Dur DOUBLE, Proto STRING, SrcAddr STRING, Sport STRING, Dir STRING, DstAddr STRING, "
    "Dport STRING, State STRING, sTos INT, dTos INT, TotPkts BIGINT, TotBytes BIGINT, SrcBytes BIGINT, Label STRING, "
    f"{CORRUPT} STRING"
)
"""The columns of the file. Ports are text: those of ICMP are hexadecimal, and some flows have none."""

_NAMES = {
    "time": "StartTime", "duration": "Dur", "protocol": "Proto", "source": "SrcAddr", "source_port": "Sport",
    "direction": "Dir", "destination": "DstAddr", "destination_port": "Dport", "state": "State",
    "source_tos": "sTos", "destination_tos": "dTos", "packets": "TotPkts", "bytes": "TotBytes",
    "source_bytes": "SrcBytes", "label": "Label", CORRUPT: CORRUPT,
}  # fmt: skip

FLOW_CHECKS = Checks(key="source", time="time", weight="bytes", corrupt=CORRUPT)
"""What `split_bad` asks of flows."""


def read_netflow(
    spark: SparkSession, path: str, *, stream: bool = False, time_zone: str = "UTC", max_files: int | None = None
) -> DataFrame:
    """Flows out of CSV files, plain or compressed: one row a line, also for lines that cannot be parsed.

    A line with too few or too many fields or with a field of the wrong type has `_corrupt_record` as it stands in the
    file, and null where it could not be read: `split_bad(flows, FLOW_CHECKS)` takes it to the dead letters. The first
    line of each file is its header and must name the columns in the order of `NETFLOW_FILE`.

    Spark parses only the columns that a query uses and finds a line corrupt in those alone; what `split_bad` gives does
    not depend on that.

    - `stream`: follow a folder instead of reading what is there; the path is then that of a folder.
    - `time_zone`: the files say local times without a zone; this is the zone.
    - `max_files`: the most files of a micro-batch.
    """
    reader = spark.readStream if stream else spark.read
    if max_files is not None:
        reader = reader.option("maxFilesPerTrigger", max_files)
    lines = (
        reader.format("csv")
        .schema(NETFLOW_FILE)
        .options(
            header=True,
            enforceSchema=False,
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=CORRUPT,
            timestampFormat="yyyy/MM/dd HH:mm:ss[.SSSSSS]",
            timeZone=time_zone,
            ignoreLeadingWhiteSpace=True,
            ignoreTrailingWhiteSpace=True,
        )
        .load(path)
    )
    return lines.select(*(f.col(column).alias(name) for name, column in _NAMES.items()))
