"""Map-reduce without Spark: pairs on their way, tasks, modules that go along, the last reduce."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catchment.errors import FunctionError, NameNotFoundError, ParameterError, StatementError, TooManyBytesError
from catchment.federation import map_reduce_tasks
from catchment.federation.cloud import Column, Errand, Table
from catchment.federation.map_reduce import Functions, MapReduce, Reduced, map_reduce
from catchment.federation.map_reduce_tasks import Program, map_task, reduce_task
from catchment.federation.modules import modules_needed
from catchment.federation.pairs import read_columns, read_pairs, write_columns, write_pairs

ROWS = [{"text": f"a b{n % 3} {'c ' * (n % 5)}", "n": n} for n in range(200)]


class HereCloud:
    """Runs the tasks in this process, on rows in memory: two tasks, three buckets."""

    def __init__(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.name = name
        self.rows = rows
        self.cancelled: list[str] = []

    def tables(self) -> dict[str, Table]:
        return {"lines": Table("lines", (Column("text", "string"), Column("n", "bigint")))}

    def run_functions(
        self, sql: str, functions: Functions, errand: Errand, progress: Callable[[float], None]
    ) -> pa.Table:
        assert sql == "SELECT `text`, `n` FROM `lines`"
        named = {"map": functions.map, "map_batches": functions.map_batches, "local_reduce": functions.local_reduce}
        program = _Loaded(named, 3)
        parts = [self.rows[::2], self.rows[1::2]]
        batches: list[pa.RecordBatch] = []
        for part in parts:
            rows = pa.Table.from_pylist(part, pa.schema([("text", pa.string()), ("n", pa.int64())])).to_batches(7)
            batches += map_task(program, rows)
        made = pa.Table.from_batches(batches)
        if functions.local_reduce is not None:
            buckets = sorted(set(made.column("bucket").to_pylist()))
            made = pa.concat_tables(
                reduce_task(program, made.filter(pa.compute.equal(made.column("bucket"), bucket))) for bucket in buckets
            )
        errand.ledger.add(self.name, errand.purpose, outward=True, size=made.nbytes, rows=made.num_rows)
        progress(0.5)
        return made

    def cancel(self, query: str) -> None:
        self.cancelled.append(query)


class _Loaded(Program):
    """A program of functions that are here already."""

    def __init__(self, named: dict[str, Any], buckets: int) -> None:
        super().__init__(b"", {}, buckets)
        self.__dict__["named"] = named

    def load(self) -> dict[str, Any]:
        found: dict[str, Any] = self.__dict__["named"]
        return found


def words(row: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for word in row["text"].split():
        yield word, 1


def total(_key: Any, values: list[int]) -> int:
    return sum(values)


def clouds() -> list[HereCloud]:
    return [HereCloud("paris", ROWS[:120]), HereCloud("rome", ROWS[120:])]


TRUTH = Counter(word for row in ROWS for word in str(row["text"]).split())


def test_words_are_counted_and_only_the_reduced_crosses() -> None:
    heard: list[tuple[str, float]] = []
    reduced = map_reduce(
        clouds(), MapReduce("Lines", Functions(words, None, total), total), progress=lambda *told: heard.append(told)
    )
    assert reduced.pairs == TRUTH
    assert reduced.rows == len(ROWS)
    assert reduced.map_pairs == TRUTH.total()
    assert reduced.crossed_pairs == 2 * len(TRUTH)  # each word once from each cloud
    assert sorted(heard) == [("paris", 0.5), ("paris", 1.0), ("rome", 0.5), ("rome", 1.0)]
    whole = map_reduce(clouds(), MapReduce("lines", Functions(words), total))
    assert whole.pairs == TRUTH
    assert whole.crossed_pairs == TRUTH.total()
    assert reduced.ledger.bytes(outward=True) < whole.ledger.bytes(outward=True)


def test_reductions_by_name_and_no_reduction_at_all() -> None:
    by_name = map_reduce(clouds(), MapReduce("lines", Functions(words, None, "sum"), "sum"))
    assert by_name.pairs == TRUTH
    listed = map_reduce(clouds(), MapReduce("lines", Functions(lambda row: [(row["n"] % 2, row["n"])])))
    assert {key: sorted(values) for key, values in listed.pairs.items()} == {
        0: list(range(0, 200, 2)),
        1: list(range(1, 200, 2)),
    }


@pytest.mark.parametrize("reduce", ["sum", None, total])
def test_batches_give_what_rows_give(reduce: Any) -> None:
    def batch_words(batch: pa.RecordBatch) -> pa.Table:
        found = pa.compute.list_flatten(
            pa.compute.utf8_split_whitespace(pa.compute.utf8_trim_whitespace(batch.column("text")))
        )
        return pa.table({"key": found, "value": np.ones(len(found), np.int64)})

    reduced = map_reduce(clouds(), MapReduce("lines", Functions(None, batch_words, reduce), reduce or "sum"))
    assert reduced.pairs == TRUTH
    assert reduced.map_pairs == TRUTH.total()
    assert set(reduced.to_arrow().column_names) == {"key", "value"}


def test_many_pairs_are_sent_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_reduce_tasks, "PAIRS_AT_ONCE", 16)
    reduced = map_reduce(clouds(), MapReduce("lines", Functions(lambda row: [(row["n"] // 3, 1)], None, total), total))
    assert reduced.pairs == Counter(row["n"] // 3 for row in ROWS)  # type: ignore[operator]


def test_keys_and_values_keep_their_types() -> None:
    given = [
        (("a", 1), [1, 2.5, None]),
        (date(2024, 1, 2), Decimal("1.10")),
        (2**80, {"x": {1, 2}}),
        (b"k", (1, (2, 3))),
        (None, np.arange(3)),
    ]
    found = list(read_pairs(write_pairs(given)))
    assert [key for key, _ in found] == [key for key, _ in given]
    assert [value for _, value in found[:4]] == [value for _, value in given[:4]]
    assert found[3][1] == (1, (2, 3))
    assert np.array_equal(found[4][1], np.arange(3))
    table = pa.table({"key": ["a"], "value": [1]})
    assert read_columns([write_columns(table), write_columns(table)]).num_rows == 2  # type: ignore[union-attr]


def test_a_cloud_cannot_send_code() -> None:
    class Harmful:
        def __reduce__(self) -> Any:
            return print, ("this ran",)

    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.print is no plain type"):
        write_pairs([("a", Harmful())])
    content = pickle.dumps((["a"], [Harmful()]), protocol=5)
    blob = len(content).to_bytes(8, "little") + pa.compress(content, codec="zstd", asbytes=True)
    with pytest.raises(pickle.UnpicklingError, match="no plain type"):
        list(read_pairs(blob))


def failing_map(row: dict[str, Any]) -> list[tuple[int, int]]:
    return [(row["n"], 100 // (row["n"] - 150))]


def failing_reduce(key: int, values: list[int]) -> int:
    if key == 1:
        raise LookupError("no such key here")
    return sum(values)


def test_a_function_that_fails_is_named_with_cloud_row_and_traceback() -> None:
    members = clouds()
    with pytest.raises(FunctionError, match="failing_map failed in cloud rome") as caught:
        map_reduce(members, MapReduce("lines", Functions(failing_map)))
    assert caught.value.cloud == "rome"
    assert "'n': 150" in caught.value.at
    assert "ZeroDivisionError" in caught.value.traceback
    assert "100 // (row" in caught.value.traceback
    assert all(member.cancelled for member in members)
    with pytest.raises(FunctionError, match=r"failing_reduce failed in cloud .* at 1 .*no such key here"):
        map_reduce(clouds(), MapReduce("lines", Functions(lambda row: [(row["n"] % 3, 1)], None, failing_reduce)))
    with pytest.raises(FunctionError, match=r"failing_reduce failed at 1 \(LookupError") as last:
        map_reduce(clouds(), MapReduce("lines", Functions(lambda row: [(row["n"] % 3, 1)]), failing_reduce))
    assert last.value.cloud == ""
    with pytest.raises(FunctionError, match="no plain type"):
        map_reduce(clouds(), MapReduce("lines", Functions(lambda row: [(row["n"], Path("x"))])))


def test_what_is_wrong_is_refused_before_anything_runs() -> None:
    with pytest.raises(ParameterError, match="give one of the two"):
        Functions()
    with pytest.raises(ParameterError, match="local_reduce='mean'"):
        Functions(words, None, "mean")
    with pytest.raises(NameNotFoundError, match="no cloud has a table nowhere"):
        map_reduce(clouds(), MapReduce("nowhere", Functions(words)))
    with pytest.raises(NameNotFoundError, match="has no column 'm'"):
        map_reduce(clouds(), MapReduce("lines", Functions(words), columns=["m"]))
    with pytest.raises(TooManyBytesError, match="100 are allowed"):
        map_reduce(clouds(), MapReduce("lines", Functions(words)), limit=100)


@pytest.mark.parametrize(
    "where",
    [
        "n IN (SELECT n FROM lines)",
        "n > 1 GROUP BY n",
        "n > 1 UNION ALL SELECT 2",
        "n > 1; DROP TABLE lines",
        "n > 1 LIMIT 3",
        "java_method('java.lang.System', 'exit', 1) = 1",
        "EXISTS (SELECT 1)",
        "n >",
    ],
)
def test_a_condition_is_one_condition(where: str) -> None:
    with pytest.raises(StatementError):
        MapReduce("lines", Functions(words), where=where)


def test_the_statement_of_a_cloud() -> None:
    table = Table("lines", (Column("Text", "string"), Column("n`m", "int")))
    job = MapReduce("lines", Functions(words), columns=["text", "n`m", "_cloud"], where="Text > 'b'")
    assert job.sql("l'aquila", table) == ("SELECT `Text`, `n``m`, 'l\\'aquila' AS _cloud FROM `lines` WHERE Text > 'b'")


def test_results_have_arrow_types() -> None:
    reduced = Reduced(0, 0, 0, None, {"a": 1, "b": 2})  # type: ignore[arg-type]
    assert reduced.to_arrow().schema == pa.schema([("key", pa.string()), ("value", pa.int64())])
    wanted = pa.schema([("key", pa.string()), ("value", pa.float32())])
    assert reduced.to_arrow(wanted).schema == wanted
    with pytest.raises(ParameterError, match="no one Arrow type"):
        Reduced(0, 0, 0, None, {"a": 1, "b": "x"}).to_arrow()  # type: ignore[arg-type]


def test_modules_of_the_users_own_are_found_with_what_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "their_package"
    (package / "plain").mkdir(parents=True)
    (package / "__init__.py").write_text("from . import parts\n")
    (package / "parts.py").write_text("import json, numpy\nfrom their_helper import one\n")
    (package / "plain" / "deep.py").write_text("x = 1\n")
    (tmp_path / "their_helper.py").write_text(
        "def one():\n    from their_package.plain import deep\n    return deep.x\n"
    )
    (tmp_path / "unneeded_helper.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    try:
        import their_package.plain.deep  # type: ignore[import-not-found]  # noqa: F401

        found = modules_needed(["their_package.parts", "json", "catchment.errors", "numpy", "no such thing", "pytest"])
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("their_"):
                del sys.modules[name]
    assert set(found) == {
        "their_package", "their_package.parts", "their_helper", "their_package.plain", "their_package.plain.deep",
    }  # fmt: skip
    assert found["their_package.plain"][1] is None
    assert found["their_package"][1] == "from . import parts\n"
