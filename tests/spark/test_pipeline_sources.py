"""Pipelines over each kind of source: answers equal to counting, and dead letters that are exactly what is bad."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catchment.app.query import PipelineFolder, Question, ask
from catchment.errors import PipelineError
from catchment.kernel.wc98 import NO_SIZE, RECORD
from catchment.spark.kafka import read_kafka_sketches
from catchment.spark.pipeline import Run, parse_pipeline
from catchment.spark.source import read_dead_letters
from tests.amounts import one_in
from tests.spark import kafka_broker

pytestmark = pytest.mark.spark

START = 893_970_000  # in the days of the WorldCup98 log, which takes no other times
FILES = 2


@dataclass(frozen=True, slots=True)
class Event:
    site: str
    at: int
    key: str | int
    value: int

    @property
    def time(self) -> str:
        return moment(self.at).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def line(self) -> str:
        return json.dumps({"site": self.site, "time": self.time, "key": self.key, "value": self.value})


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC)


KEYS = ("plain", 'a,"b"', "ß日🙂", "two words")
EVENTS = [Event(f"site {n % 2}", START + n, KEYS[(n * n + n // 5) % 4], n * 13 % 50) for n in range(60)]
HALVES = EVENTS[:35], EVENTS[35:]

Bad = list[tuple[str, Any]]
"""What the dead letters should be: the reason, and the text that did not parse or the row without its nulls."""


@dataclass(frozen=True, slots=True)
class Case:
    """A source: its table, its columns, what puts `FILES` files into a folder and tells what is in them, and what adds
    an event afterwards.
    """

    source: str
    put: Callable[[Path], tuple[list[Event], Bad]]
    columns: str = 'time = "time"\nsite = "site"'
    key: str = "key"
    value: str = "value"
    add: Callable[[Path], Event] | None = None


def described(case: Case, more: str = "", per_batch: int = 1) -> str:
    """A pipeline in which few keys are counted exactly: a key more or less in any answer would show."""
    return f"""
[pipeline]
name = "sources"
[source]
{case.source}
[columns]
{case.columns}
[window]
length = "1 hour"
[[sketch]]
name = "hits"
kind = "top"
key = "{case.key}"
epsilon = 0.01
panes = 10
[[sketch]]
name = "volume"
kind = "count"
weights = "{case.value}"
[output]
folder = "out"
mode = "updates"
{more}
[spark]
per_batch = {per_batch}
"""


def check_answers(out: Path, events: list[Event]) -> None:
    folder = PipelineFolder(out)
    counts = Counter(str(event.key) for event in events)
    answer = ask(folder, Question("point", "hits", (*counts, "77")))[""]
    assert dict(zip([*counts, "77"], answer.value.tolist(), strict=True)) == {**counts, "77": 0}
    assert ask(folder, Question("total", "hits"))[""].value == len(events)
    for site, total in ask(folder, Question("total", "volume", per_site=True)).items():
        assert total.value == sum(event.value for event in events if event.site == site)
    total = ask(folder, Question("total", "volume"))[""]
    assert total.sites == tuple(sorted({event.site for event in events}))
    assert total.value == sum(event.value for event in events)


def check_dead_letters(spark: Any, out: Path, bad: Bad) -> None:
    found = [
        (row["reason"], unpacked(row["record"]))
        for row in read_dead_letters(spark, str(out / "dead_letters")).collect()
    ]
    assert sorted(found, key=str) == sorted(bad, key=str)


def unpacked(record: str | None) -> Any:
    """The text that could not be parsed, or what is known of the row."""
    try:
        row = {name: value for name, value in json.loads(record or "").items() if value is not None}
    except ValueError:
        return record
    return row.get("_corrupt_record", row)


def told(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def put_parquet(folder: Path) -> tuple[list[Event], Bad]:
    """Folders for each site, as Spark writes them; the schema is that of the files."""
    numbered = [Event(event.site, event.at, KEYS.index(str(event.key)) - 2, event.value) for event in EVENTS]
    bad = {
        "site 0": ("null time", {"site": "site 0", "key": 1, "value": 3}),
        "site 1": ("negative weight", {"site": "site 1", "key": 2, "time": "1998-04-30T21:00:00.000Z", "value": -3}),
    }
    for site, (_, row) in bad.items():
        rows: list[dict[str, Any]] = [
            {"time": moment(event.at), "key": event.key, "value": event.value}
            for event in numbered
            if event.site == site
        ]
        rows.append({"time": moment(START) if "time" in row else None, "key": row["key"], "value": row["value"]})
        (folder / f"site={site}").mkdir()
        table = pa.Table.from_pylist(
            rows, pa.schema({"time": pa.timestamp("us", "UTC"), "key": "int64", "value": "int64"})
        )
        pq.write_table(table, folder / f"site={site}/part.parquet")
    return numbered, list(bad.values())


def put_csv(folder: Path) -> tuple[list[Event], Bad]:
    """A plain and a packed file, with keys that need quotes."""
    cells = [
        [f'{event.time},{event.site},"{event.key}",{event.value}'.replace('a,"b"', 'a,""b""') for event in half]
        for half in HALVES
    ]
    corrupt = ["1998-04-30T21:00:00Z,site 0,many,many", "noon,site 0,k,1", "1998-04-30T21:00:00Z,site 0"]
    header = "time,site,key,value\n"
    (folder / "a.csv").write_text(header + "\n".join([*corrupt, *cells[0]]) + "\n")
    last = "1998-04-30T21:00:00Z,site 1,,4"
    (folder / "b.csv.gz").write_bytes(gzip.compress((header + "\n".join([*cells[1], last])).encode()))
    bad: Bad = [("corrupt record", line) for line in corrupt]
    return EVENTS, [*bad, ("null key", {"site": "site 1", "time": "1998-04-30T21:00:00.000Z", "value": 4})]


def put_json(folder: Path) -> tuple[list[Event], Bad]:
    corrupt = ['{"site": "site 0", "time"', '{"site": "a", "time": "1998-04-30T21:00:00Z", "key": "k", "value": "two"}']
    nulls = {"site": "site 0", "key": "plain", "value": 1}
    odd = {"site": "site 0", "time": "noon", "key": "plain", "value": 2}
    (folder / "a.json").write_text("\n".join([corrupt[0], *(event.line for event in HALVES[0]), corrupt[1]]))
    (folder / "b.json").write_text(
        "\n".join([json.dumps(nulls), *(event.line for event in HALVES[1]), json.dumps(odd)])
    )
    bad: Bad = [("corrupt record", line) for line in corrupt]
    return EVENTS, [*bad, ("null time", nulls), ("unparseable time", odd)]


def put_netflow(folder: Path) -> tuple[list[Event], Bad]:
    """Flows whose site is the protocol, their key the source, their weight the bytes, at local times of Prague."""
    names = "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,sTos,dTos,TotPkts,TotBytes,SrcBytes,Label\n"
    events = [Event(("tcp", "udp")[n % 2], START + n, f"10.0.0.{n % 5}", n * 40) for n in range(60)]

    def line(event: Event) -> str:
        time = moment(event.at + 7200).strftime("%Y/%m/%d %H:%M:%S.%f")
        return f"{time},0.5,{event.site},{event.key},0x0303,  <->,10.1.0.2,,CON,,0,2,{event.value},1,flow=B"

    corrupt = [line(events[0]) + ",more", line(events[1]).replace("CON,,0", "CON,,zero"), "nonsense"]
    odd = line(Event("tcp", START, "10.0.0.1", -1))
    (folder / "a.csv").write_text(names + "\n".join([*map(line, events[:30]), *corrupt]) + "\n")
    (folder / "b.csv").write_text(names + "\n".join([odd, *map(line, events[30:])]) + "\n")
    row = {
        "time": "1998-04-30T21:00:00.000Z", "duration": 0.5, "protocol": "tcp", "source": "10.0.0.1",
        "source_port": "0x0303", "direction": "<->", "destination": "10.1.0.2", "state": "CON", "destination_tos": 0,
        "packets": 2, "bytes": -1, "source_bytes": 1, "label": "flow=B",
    }  # fmt: skip
    return events, [*(("corrupt record", text) for text in corrupt), ("negative weight", row)]


def web_log(count: int, first: int) -> Any:
    made = np.zeros(count, dtype=RECORD)
    made["at"] = START + first + np.arange(count)
    made["object"], made["size"], made["client"] = np.arange(count) % 6, np.arange(count) * 3, 7
    made["server"] = 32 * (np.arange(count) % 3)
    return made


def requests(made: Any) -> list[Event]:
    return [Event(str(row["server"] // 32), int(row["at"]), int(row["object"]), int(row["size"])) for row in made]


def put_wc98(folder: Path) -> tuple[list[Event], Bad]:
    """A plain file whose last record is not finished yet, and a packed one that was cut off."""
    plain, packed = web_log(20, 0), web_log(20, 20)
    plain["at"][3], plain["size"][4] = 1, NO_SIZE
    whole, left, head = 12, 13, 10 + 5  # level 0 keeps the bytes as they are, after the heads of gzip and of the block
    cut = gzip.compress(packed.tobytes(), compresslevel=0)[: head + 20 * whole + left]
    (folder / "a").write_bytes(plain.tobytes()[:-7])
    (folder / "b.gz").write_bytes(cut)
    strange, lost = plain[3:4].tobytes().hex(), packed[whole:].tobytes()[:left].hex()
    silent = {"time": "1998-04-30T21:00:04.000Z", "client": 7, "object": 4, "method": 0, "status": 0, "type": 0}
    return requests(np.concatenate([plain[:3], plain[5:-1], packed[:whole]])), [
        ("corrupt record", f"{folder}/a: the time of the record at 60 is outside the log: {strange}"),
        (
            "corrupt record",
            f"{folder}/b.gz: {left} of 20 bytes of a record at {20 * whole} (the gzip file ends early): {lost}",
        ),
        ("null weight", silent | {"server": 32, "region": 1}),
    ]


def finish_wc98(folder: Path) -> Event:
    """The rest of the record that was awaited, and was no dead letter for that."""
    made = web_log(20, 0)
    with (folder / "a").open("ab") as file:
        file.write(made.tobytes()[-7:])
    return requests(made)[-1]


SCHEMA = 'schema = "site STRING, time STRING, key STRING, value BIGINT"'
CASES = {
    "parquet": Case('format = "parquet"\npath = "in"', put_parquet),
    "csv": Case(
        'format = "csv"\npath = "in"\nschema = "time TIMESTAMP, site STRING, key STRING, value BIGINT"\n'
        "[source.options]\nheader = true\nescape = '\"'",
        put_csv,
    ),
    "json": Case(f'format = "json"\npath = "in"\n{SCHEMA}', put_json),
    "netflow": Case(
        'format = "netflow"\npath = "in"\n[source.options]\ntime_zone = "Europe/Prague"',
        put_netflow,
        columns='time = "time"\nsite = "protocol"',
        key="source",
        value="bytes",
    ),
    "wc98": Case(
        'format = "wc98"\npath = "in"',
        put_wc98,
        columns='time = "time"\nsite = "region"',
        key="object",
        value="size",
        add=finish_wc98,
    ),
}


@pytest.mark.parametrize("name", one_in(3, ("json", "csv", "netflow", "wc98", "parquet"), "fuzz"))
def test_files_are_counted_exactly_and_what_is_bad_is_kept(spark: Any, tmp_path: Path, name: str) -> None:
    case, out = CASES[name], tmp_path / "out"
    (tmp_path / "in").mkdir()
    events, bad = case.put(tmp_path / "in")
    pipeline = parse_pipeline(described(case), folder=tmp_path)
    Run(pipeline, spark, once=True).start()
    check_answers(out, events)
    check_dead_letters(spark, out, bad)
    lines = told(out)
    assert sum(line["events"] > 0 for line in lines) == FILES, "per_batch is one file"
    assert (lines[-1]["all_events"], lines[-1]["all_dead_letters"]) == (len(events), len(bad))
    if case.add is not None:
        events = [*events, case.add(tmp_path / "in")]
        Run(pipeline, spark, once=True).start()
        check_answers(out, events)
        check_dead_letters(spark, out, bad)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with kafka_broker.broker() as address:
        yield address


@pytest.mark.skipif(not kafka_broker.PRESENT, reason="needs the Kafka artifacts: make kafka")
def test_kafka_in_and_out(spark: Any, servers: str, tmp_path: Path) -> None:
    # Two keys that make a sketch larger than the megabyte that a producer of Kafka's sends unless told otherwise.
    events = [*EVENTS, *(Event("site 0", START + 60, sign * 600_000, 1) for sign in "xy")]
    nulls = {"site": "site 0", "time": "1998-04-30T21:00:00Z", "value": 1}
    broken = {
        '{"site": "site 0", "time"': "the value is not JSON",
        json.dumps(nulls | {"key": "k", "value": "two"}): "the field value is not bigint",
        '{"key": "k"}': "the field site is missing or null",
    }
    values = [event.line.encode() for event in events] + [text.encode() for text in (*broken, json.dumps(nulls))]
    records = spark.createDataFrame(pa.table({"value": pa.array([*values, b"\xff\xfe", None], pa.binary())}))
    writer = records.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "views")
    writer.save()

    schema = SCHEMA.replace("site STRING", "site STRING NOT NULL")
    source = f'format = "kafka"\nservers = "{servers}"\ntopic = "views"\n{schema}'
    text = described(
        Case(source, lambda _: (events, [])),
        f'[output.kafka]\nservers = "{servers}"\ntopic = "sketches"',
        per_batch=(len(values) + 2) // 2,
    )
    Run(parse_pipeline(text, folder=tmp_path), spark, once=True).start()
    out = tmp_path / "out"
    check_answers(out, events)
    bad: Bad = [(reason, unpacked(text)) for text, reason in broken.items()]
    bad += [("null key", nulls), ("the value is not UTF-8 text", "��"), ("the record has no value", None)]
    check_dead_letters(spark, out, bad)
    lines = told(out)
    assert sum(line["events"] > 0 for line in lines) >= 2
    assert (lines[-1]["all_events"], lines[-1]["all_dead_letters"]) == (len(events), len(bad))

    options = {"kafka.bootstrap.servers": servers, "subscribe": "sketches", "startingOffsets": "earliest"}
    sent = read_kafka_sketches(spark.read.format("kafka").options(**options).load()).collect()
    files = pa.concat_tables([pq.ParquetFile(file).read() for file in (out / "snapshots").rglob("part.parquet")])
    kept = Counter((f"{row['site']}/{row['name']}", row["sketch"]) for row in files.to_pylist())
    assert Counter((row["site"], bytes(row["sketch"])) for row in sent) == kept
    assert all(row["reason"] is None for row in sent)
    assert max(len(blob) for _, blob in kept) > 2**20


def test_an_option_that_netflow_has_not_is_named(spark: Any, tmp_path: Path) -> None:
    case = Case('format = "netflow"\npath = "in"\n[source.options]\ntimezone = "UTC"', put_netflow)
    with pytest.raises(PipelineError, match=r"line 4: netflow has no option 'timezone': did you mean 'time_zone'\?"):
        Run(parse_pipeline(described(case), folder=tmp_path), spark, once=True).start()
