"""Damaged bytes of Spark's sketches: a typed error or an answer, never the end of the process or of its memory.

The DataSketches library alone ends the process on some of these.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from datasketches import PyLongsSerDe, frequent_items_error_type, frequent_items_sketch
from pyspark.sql import functions as F  # noqa: N812

from catchment.errors import BytesError, ParameterError, QueryError, UnknownFormatError
from catchment.spark.builtin import (
    hll_answer,
    items_ranking,
    kll_quantile_answer,
    kll_rank_answer,
    theta_answer,
    tuple_answer,
)

pytestmark = pytest.mark.spark

SKETCHES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "hll": ("hll_sketch_agg(id, 8)", hll_answer),
    "theta": ("theta_sketch_agg(id, 6)", theta_answer),
    "tuple_double": ("tuple_sketch_agg_double(id, 1.0D, 6)", tuple_answer),
    "tuple_integer": ("tuple_sketch_agg_integer(id, 1, 6)", lambda blob: tuple_answer(blob, kind="integer")),
    "kll_bigint": ("kll_sketch_agg_bigint(id, 20)", lambda blob: kll_quantile_answer(blob, 0.3, kind="bigint")),
    "kll_float": (
        "kll_sketch_agg_float(CAST(id AS FLOAT), 20)",
        lambda blob: kll_rank_answer(blob, 3.0, kind="float"),
    ),
    "kll_double": ("kll_sketch_agg_double(CAST(id AS DOUBLE), 20)", lambda blob: kll_quantile_answer(blob, 0.3)),
}
ITEMS = {
    "BOOLEAN": ("id % 3 = 0", {True: 7, False: 13}),
    "TINYINT": ("CAST(-(id % 2) AS TINYINT)", {0: 10, -1: 10}),
    "SMALLINT": ("CAST(-(id % 2) AS SMALLINT)", {0: 10, -1: 10}),
    "INT": ("CAST(-(id % 2) AS INT)", {0: 10, -1: 10}),
    "BIGINT": ("IF(id < 5, NULL, -(id % 2))", {None: 5, 0: 7, -1: 8}),
    "FLOAT": ("CAST(id % 2 AS FLOAT) / 2", {0.0: 10, 0.5: 10}),
    "DOUBLE": ("CAST(id % 2 AS DOUBLE) / 2", {0.0: 10, 0.5: 10}),
    "STRING": ("CASE WHEN id < 5 THEN '' ELSE 'é日🙂' END", {"": 5, "é日🙂": 15}),
    "DATE": ("DATE'1969-12-31'", {datetime.date(1969, 12, 31): 20}),
    "TIMESTAMP": ("TIMESTAMP_MICROS(-id % 2)", {
        datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC): 10,
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC): 10,
    }),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2020-02-29 01:02:03'", {datetime.datetime(2020, 2, 29, 1, 2, 3): 20}),
    "DECIMAL(10,2)": ("CAST(id % 2 - 1.5 AS DECIMAL(10,2))", {Decimal("-1.50"): 10, Decimal("-0.50"): 10}),
    "DECIMAL(38,3)": ("-12345678901234567890123456789012345.678BD", {
        Decimal("-12345678901234567890123456789012345.678"): 20
    }),
}  # fmt: skip
ROWS = (0, 1, 5, 40, 5000)
MUTANTS = 3000


@pytest.fixture(scope="module")
def blobs(spark: Any) -> dict[str, list[bytes]]:
    """Every sketch of nothing, of one value, of few, of some, and of many."""
    columns = [f"{expression} FILTER (WHERE id < {rows}) AS {name}_{rows}"
               for name, (expression, _) in SKETCHES.items() for rows in ROWS]  # fmt: skip
    row = spark.range(max(ROWS)).selectExpr(*columns).first()
    return {name: [bytes(row[f"{name}_{rows}"]) for rows in ROWS] for name in SKETCHES}


@pytest.fixture(scope="module")
def states(spark: Any) -> Any:
    columns = [F.expr(f"approx_top_k_accumulate({item}, 100)").alias(type_) for type_, (item, _) in ITEMS.items()]
    return spark.range(20).agg(*columns).first()


def mutants(blobs: list[bytes], seed: str) -> list[bytes]:
    rng = random.Random(seed)
    found = []
    for _ in range(MUTANTS):
        data = bytearray(rng.choice(blobs))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(min(len(data), rng.choice((8, 48, 10**9))) or 1)
            match rng.randrange(6):
                case 0 | 1 | 2:
                    data[place : place + 1] = bytes([rng.randrange(256)])
                case 3:
                    del data[rng.randrange(len(data) + 1) :]
                case 4:
                    data[place : place + 4] = rng.choice([b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0" * 4])
                case _:
                    data[place:place] = rng.randbytes(rng.randint(1, 8))
        found.append(bytes(data))
    return [*found, *(rng.randbytes(rng.randrange(64)) for _ in range(200))]


@pytest.mark.parametrize("name", SKETCHES)
def test_damage_to_sketches(blobs: dict[str, list[bytes]], name: str) -> None:
    read = SKETCHES[name][1]
    for damaged in mutants(blobs[name], name):
        try:
            answer = read(damaged)
        except (BytesError, QueryError):
            continue
        assert answer.low <= answer.value <= answer.high or math.isnan(answer.value)


@pytest.mark.parametrize("name", SKETCHES)
def test_truncations_and_foreign_bytes(blobs: dict[str, list[bytes]], name: str) -> None:
    read = SKETCHES[name][1]
    for blob in blobs[name]:
        for length in range(0, len(blob), max(1, len(blob) // 200)):
            with pytest.raises(BytesError):
                read(blob[:length])
        with pytest.raises(BytesError):
            read(blob + b"\0")
    with pytest.raises(UnknownFormatError, match="give the column"):
        read(b"none of Spark's sketches at all, but a text")


@pytest.mark.parametrize("type_", ITEMS)
def test_items_of_every_type(states: Any, type_: str) -> None:
    ranking = items_ranking(states[type_], k=10)
    assert dict(zip(ranking.keys, ranking.answers.value.tolist(), strict=True)) == ITEMS[type_][1]  # type: ignore[union-attr]
    assert ranking.answers.low.tolist() == ranking.answers.high.tolist()  # type: ignore[union-attr]
    assert ranking.note.startswith("only ")
    assert items_ranking(tuple(states[type_])).keys == items_ranking(states[type_].asDict()).keys == ranking.keys


@pytest.mark.parametrize("type_", ITEMS)
def test_damage_to_items(states: Any, type_: str) -> None:
    blob, tracked, _, ddl = states[type_]
    for damaged in mutants([bytes(blob)], type_):
        try:
            ranking = items_ranking((damaged, tracked, None, ddl))
        except BytesError:
            continue
        assert len(ranking) <= 5


def test_the_library_reads_the_same_items(spark: Any) -> None:
    state = spark.range(3000).agg(F.expr("approx_top_k_accumulate(id * id % 97, 20)")).first()[0]
    theirs = frequent_items_sketch.deserialize(bytes(state.sketch), PyLongsSerDe())
    listed = theirs.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES, 0)
    ours = items_ranking(state, k=1000)
    assert sorted((key, a.value, a.low, a.high) for key, a in ours) == sorted(tuple(item) for item in listed)


def test_states_that_are_none(states: Any) -> None:
    with pytest.raises(UnknownFormatError, match="approx_top_k_accumulate"):
        items_ranking(b"only the bytes")
    with pytest.raises(UnknownFormatError, match="cast them to string"):
        items_ranking((states["INT"].sketch, 100, None, "item INTERVAL DAY NOT NULL"))
    with pytest.raises(ParameterError, match="k=0"):
        items_ranking(states["INT"], k=0)
