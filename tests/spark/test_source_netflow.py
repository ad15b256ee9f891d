"""NetFlow by Spark's CSV reader: every line is a flow or a dead letter."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from catchment.spark.source import FLOW_CHECKS, read_netflow, split_bad

pytestmark = pytest.mark.spark

HEADER = "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,sTos,dTos,TotPkts,TotBytes,SrcBytes,Label\n"
GOOD = (
    "2011/08/16 10:01:46.972101,3599.986572,tcp,10.0.0.1,49213,  <?>,10.1.0.2,18250,A_PA,0,0,4,415389446,10,flow=B\n"
    "2011/08/16 10:01:47.000001,0.000467,icmp,10.0.0.2,0x0303,   ->,10.1.0.3,,URP,,,1,70,70,flow=To-Background\n"
    "2011/08/16 10:01:48,1,udp,10.0.0.1,53,  <->,10.1.0.2,1024,CON,0,0,2,236,174,flow=B\n"
)
BAD = {
    "corrupt record": [
        "2011/08/16 10:01:48.000000,1,udp,10.0.0.9",
        "2011-08-16T10:01,1,udp,10.0.0.1,53,  <->,10.1.0.2,1024,CON,0,0,2,236,174,flow=B",
        "2011/08/16 10:01:48.000000,1,udp,10.0.0.1,53,  <->,10.1.0.2,1024,CON,0,0,two,236,174,flow=B",
        "complete nonsense",
    ],
    "null key": ["2011/08/16 10:01:48.000000,1,udp,,53,  <->,10.1.0.2,1024,CON,0,0,2,236,174,flow=B"],
    "null time": [",1,udp,10.0.0.1,53,  <->,10.1.0.2,1024,CON,0,0,2,236,174,flow=B"],
    "negative weight": ["2011/08/16 10:01:48.000000,1,udp,10.0.0.1,53,<->,10.1.0.2,1024,CON,0,0,2,-1,174,flow=B"],
}


def test_good_lines_are_flows_and_bad_ones_dead_letters(spark: Any, tmp_path: Path) -> None:
    lines = [line for bad in BAD.values() for line in bad]
    (tmp_path / "a.csv").write_text(HEADER + GOOD + "\n".join(lines) + "\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress((HEADER + GOOD).encode()))
    good, bad = split_bad(read_netflow(spark, str(tmp_path)), FLOW_CHECKS)
    assert good.count() == 6
    assert good.select("source").count() == 6
    assert good.agg({"bytes": "count"}).collect()[0][0] == 6
    assert bad.count() == bad.select("seen").count() == len(lines)
    flows = good.orderBy("time", "source_port").collect()
    assert (flows[0]["time"], flows[0]["bytes"], flows[0]["direction"]) == (
        datetime(2011, 8, 16, 10, 1, 46, 972101), 415_389_446, "<?>",
    )  # fmt: skip
    assert (flows[2]["source_port"], flows[2]["destination_port"], flows[2]["source_tos"]) == ("0x0303", None, None)
    assert flows[4]["time"] == datetime(2011, 8, 16, 10, 1, 48)
    letters = bad.collect()
    assert sorted(letter["reason"] for letter in letters) == sorted(why for why, some in BAD.items() for _ in some)
    kept = {json.loads(letter["record"])["_corrupt_record"] for letter in letters if letter["reason"][0] == "c"}
    assert kept == set(BAD["corrupt record"])


def test_times_are_of_the_zone_that_is_given(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + GOOD)
    (prague,) = read_netflow(spark, str(tmp_path), time_zone="Europe/Prague").agg({"time": "min"}).collect()
    assert prague[0] == datetime(2011, 8, 16, 8, 1, 46, 972101)


def test_another_header_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER.replace("SrcAddr", "Source") + GOOD)
    with pytest.raises(Exception, match=r"(?i)header"):
        read_netflow(spark, str(tmp_path)).collect()


def test_a_stream_of_files_is_read_by_the_same_function(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text(HEADER + GOOD + "nonsense\n")
    taken: list[tuple[int, int]] = []

    def take(flows: Any, _: int) -> None:
        good, bad = split_bad(flows, FLOW_CHECKS)
        taken.append((good.count(), bad.count()))

    query = (
        read_netflow(spark, str(tmp_path / "in"), stream=True)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert taken == [(3, 1)]
