"""The random tables and queries that a federation is held to: the same by seed, varied, shrunk when they fail."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import date, datetime

import pyarrow as pa
import pytest

from catchment.testing.query_text import Cte, Item, Select, SetOperation, Source, shrink, text
from catchment.testing.random_queries import random_query
from catchment.testing.random_tables import CLOUDS, random_world
from catchment.testing.same_answer import difference

_PRINT = (
    "from catchment.testing.random_queries import random_query; from catchment.testing.random_tables import *; "
    "w = random_world(5); print(w.statements('lyon', 'd')); print([random_query(w, n).text for n in range(30)])"
)


def test_a_seed_gives_the_same_tables_and_texts_in_every_process() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", _PRINT], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    world = random_world(5)
    assert str([random_query(world, number).text for number in range(30)]) in runs[0]
    assert random_query(world, 1).text != random_query(world, 2).text


def test_worlds_have_what_hurts() -> None:
    worlds = [random_world(seed) for seed in range(30)]
    tables = [table for world in worlds for table in world.tables]
    assert any(set(table.rows) != set(CLOUDS) and len(table.rows) == 2 for table in tables)
    assert any(len(table.rows) == 1 for table in tables)
    assert any(not any(table.rows.values()) for table in tables)
    assert any(any(table.rows.values()) and not all(table.rows.values()) for table in tables)
    types = {column.type for table in tables for column in table.columns}
    assert {"bigint", "int", "double", "float", "decimal(12,2)", "string", "date", "timestamp", "boolean"} <= types
    values = {value for table in tables for rows in table.rows.values() for row in rows for value in row}
    assert {None, "", "ü", True, 2**53 + 1} <= values
    assert {date, datetime, float, int, str} <= {type(value) for value in values}
    whole = [Counter(row for rows in table.rows.values() for row in rows) for table in tables]
    assert any(count > 1 for rows in whole for count in rows.values())


def test_queries_have_all_features_and_none_too_often() -> None:
    seen: Counter[str] = Counter()
    for seed in range(8):
        world = random_world(seed)
        for number in range(100):
            query = random_query(world, number)
            seen.update(query.features)
            if query.uses_cloud:
                assert "*" not in query.text.replace("count(*)", "").replace(" * ", " ")
    wanted = """group by;whole aggregate;having;rollup;cube;count distinct;sum distinct;filter clause;statistics;window;
        distinct;order by;limit;offset;union;union all;intersect;except;intersect all;except all;join;left join;
        right join;full join;left semi join;left anti join;cross join;join on no equality;join on two keys;subquery: in;
        subquery: not in;subquery: exists;subquery: not exists;subquery: scalar;subquery: correlated scalar;
        derived table;common table twice;approximate;star;names by Spark;group by ordinal;group by alias"""
    for feature in (each.strip() for each in wanted.split(";")):
        assert 3 <= seen[feature] <= 560, feature


def test_a_failing_query_shrinks_to_what_makes_it_fail() -> None:
    inner = Select((Item("a", "a"), Item("b", "b")), (Source("t", "t"),), where=("a > 1", "b IS NULL"))
    join = Source(inner, "d", "JOIN", "ON d.a = u.a")
    block = Select(
        (Item("u.a", "x"), Item("count(*)", "n")),
        (Source("u", "u"), join),
        where=("u.b = 2",),
        group=("u.a",),
        having=("count(*) > 1",),
        order=("x",),
        limit="LIMIT 3",
    )
    whole = SetOperation("UNION", block, inner, ctes=(Cte("c", inner),))
    asked = []

    def fails(body: Select | SetOperation) -> bool:
        asked.append(text(body))
        return "b IS NULL" in text(body)

    assert text(shrink(whole, fails)) in (
        "SELECT a AS a FROM t WHERE b IS NULL",
        "SELECT b AS b FROM t WHERE b IS NULL",
    )
    assert len(asked) < 150
    assert text(shrink(whole, lambda _: False)) == text(whole)


A = pa.table({"k": [1, 1, None], "x": [0.1, float("nan"), -0.0]})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (A, ""),
        (A.take([2, 0, 1]), ""),
        (A.set_column(1, "x", pa.array([0.1 + 1e-12, float("nan"), 0.0])), ""),
        (A.set_column(1, "x", pa.array([0.1 + 1e-6, float("nan"), 0.0])), "rows missing"),
        (A.set_column(1, "x", pa.array([0.1, None, 0.0])), "rows missing"),
        (A.take([0, 1, 1]), "rows missing"),
        (A.slice(0, 2), "rows: expected 3"),
        (A.rename_columns(["K", "x"]), "columns"),
        (A.set_column(0, "k", pa.array([1, 1, None], pa.int32())), "types"),
    ],
)
def test_an_answer_is_the_same_or_the_difference_is_said(other: pa.Table, said: str) -> None:
    found = difference(A, other)
    assert (found is None) if not said else (found is not None and said in found)


def test_order_counts_where_it_is_asked_for() -> None:
    assert difference(A, A.take([1, 0, 2])) is None
    assert "row 0" in (difference(A, A.take([1, 0, 2]), ordered=True) or "")


def test_approximate_columns_have_their_share_and_no_more() -> None:
    exact = pa.table({"g": ["a", "b"], "n": [100, 3]})
    close, far = pa.table({"g": ["b", "a"], "n": [4, 109]}), pa.table({"g": ["a", "b"], "n": [130, 3]})
    assert difference(exact, close, approximate={"n": 0.1}) is None
    assert "expected about 100" in (difference(exact, far, approximate={"n": 0.1}) or "")
    assert "groups" in (difference(exact, close.set_column(0, "g", pa.array(["b", "c"])), approximate={"n": 0.1}) or "")
