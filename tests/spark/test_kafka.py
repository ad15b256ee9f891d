"""Events and sketches through a real broker and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment import ECMSketch
from catchment.errors import NameNotFoundError, ParameterError
from catchment.spark.kafka import connector_settings, kafka_events, read_kafka_sketches, to_kafka_sketches
from tests.spark import kafka_broker

pytestmark = pytest.mark.spark

needs_kafka = pytest.mark.skipif(not kafka_broker.PRESENT, reason="needs the Kafka artifacts: make kafka")

SCHEMA = "site STRING NOT NULL, at BIGINT, page STRUCT<path: STRING>"
GOOD = {
    '{"site": "a", "at": 1, "page": {"path": "/cart"}, "more": [1]}': ("a", 1, "/cart"),
    '{"site": "b"}': ("b", None, None),
    '{"site": "ß日🙂", "at": -5, "page": null}': ("ß日🙂", -5, None),
}
BAD: dict[bytes | None, str] = {
    b'{"site": "a", "at": 1': "the value is not JSON",
    b"": "the value is not JSON",
    b"\xff\xfe": "the value is not UTF-8 text",
    b"[1, 2]": "the value is JSON, but not an object: ARRAY<BIGINT>",
    b"17": "the value is JSON, but not an object: BIGINT",
    b"null": "the value is JSON, but not an object: VOID",
    b'{"site": "a", "at": "noon"}': "the field at is not bigint",
    b'{"site": "a", "page": 3}': "the field page is not struct<path:string>",
    b'{"at": 3}': "the field site is missing or null",
    None: "the record has no value",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with kafka_broker.broker() as address:
        yield address


def send(df: Any, servers: str, topic: str) -> None:
    writer = df.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic)
    writer.option("kafka.max.request.size", 20_000_000).save()


def drained(spark: Any, stream: Any, folder: Path) -> list[Any]:
    """Everything that the stream has now, through a query that ends by itself."""
    writer = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query = writer.format("parquet").start(str(folder / "rows"))
    assert query.awaitTermination(120)
    return spark.read.parquet(str(folder / "rows")).collect()  # type: ignore[no-any-return]


@needs_kafka
def test_events_come_back_and_bad_ones_say_why(spark: Any, servers: str, tmp_path: Path) -> None:
    values = [text.encode() for text in GOOD] + list(BAD)
    send(spark.createDataFrame(pa.table({"value": pa.array(values, pa.binary())})), servers, "events")
    rows = drained(spark, kafka_events(spark, servers, "events", SCHEMA), tmp_path)
    assert len(rows) == len(values)
    good = {(row.site, row.at, row.page and row.page.path) for row in rows if row.reason is None}
    assert good == set(GOOD.values())
    bad = {None if row.raw is None else bytes(row.raw): row.reason for row in rows if row.reason is not None}
    assert bad == BAD
    assert all((row.site, row.at, row.page) == (None, None, None) for row in rows if row.reason is not None)
    assert all(row.raw is None for row in rows if row.reason is None)
    once = kafka_events(spark, servers, "events", SCHEMA, streaming=False).collect()
    assert sorted(once, key=str) == sorted(rows, key=str)


@needs_kafka
def test_sketches_come_back_byte_for_byte(spark: Any, servers: str, tmp_path: Path) -> None:
    sketches = {}
    for site in range(5):
        sketch = ECMSketch(epsilon=0.05, delta=0.01, window=500, seed=7)
        sketch.update([f"page {n % (site + 3)}" for n in range(1000)], at=range(1000))
        sketches[f"site {site}"] = sketch.to_bytes()
    large = ECMSketch(epsilon=0.001, delta=0.01, window=10**6, seed=7)
    large.update(np.arange(300_000), at=np.arange(300_000))
    sketches["large"] = large.to_bytes()
    assert len(sketches["large"]) > 2**20, "more than Kafka takes by default"
    table = pa.table({"site": [*sketches, "silent"], "sketch": pa.array([*sketches.values(), None], pa.binary())})
    send(to_kafka_sketches(spark.createDataFrame(table)), servers, "sketches")
    stray = pa.table({"key": ["stray", "empty"], "value": pa.array([b"hello", None], pa.binary())})
    send(spark.createDataFrame(stray), servers, "sketches")
    options = {"kafka.bootstrap.servers": servers, "subscribe": "sketches", "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options).load()
    rows = drained(spark, read_kafka_sketches(records), tmp_path)
    assert {row.site: bytes(row.sketch) for row in rows if row.reason is None} == sketches
    strays = {row.site: row.reason for row in rows if row.reason is not None}
    assert strays == {"stray": "the bytes start with 0x68656C6C: not a sketch", "empty": "the record has no value"}


def test_the_connector_is_named_by_version_or_by_its_jars(tmp_path: Path) -> None:
    assert connector_settings("4.3.0") == {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"}
    with pytest.raises(NameNotFoundError, match=r"no jar of spark-sql-kafka in .*: copy the connector"):
        connector_settings(jars=tmp_path)
    jars = [tmp_path / name for name in ("kafka-clients-3.9.2.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar")]
    for jar in jars:
        jar.touch()
    assert connector_settings(jars=tmp_path) == {"spark.jars": ",".join(jar.as_uri() for jar in jars)}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [("site STRING, reason STRING", "schema has a column 'reason'"), ("site TEXTUAL", "write columns as SQL does")],
)
def test_a_schema_that_cannot_be_is_refused(spark: Any, schema: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        kafka_events(spark, "127.0.0.1:9", "events", schema)
