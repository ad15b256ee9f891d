"""How the AMPLab benchmark compares answers; the whole of it takes minutes, also when it is quick."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.amplab_parts.measure import same


def test_answers_are_the_same_by_rows_and_not_by_order_or_names() -> None:
    one = pa.table({"a": ["x", "y", "x"], "b": [1, 2, 3]})
    assert same(one, one.take([2, 0, 1]).rename_columns(["c", "d"]))
    never = pa.schema([pa.field("a", pa.string(), nullable=False), ("b", pa.int64())])
    assert same(one, one.cast(never))
    assert not same(one, one.slice(1))
    assert not same(one, pa.table({"a": ["x", "y", "x"], "b": [1, 2, 4]}))
    assert not same(one, one.set_column(1, "b", one.column("b").cast(pa.float64())))
    assert same(pa.table({"a": [0.5]}), pa.table({"a": [0.5]}))
    assert not same(pa.table({"a": [0.5]}), pa.table({"a": [0.5 + 2**-40]}))
