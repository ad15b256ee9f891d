"""Results as people and programs get them: every type, wide tables, and data that would like to steer the terminal."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catchment.app.sql.cells import distinct_names, json_values, texts
from catchment.app.sql.layout import CELL, ROWS, table_lines
from catchment.app.sql.outputs import Output, open_output
from catchment.errors import ParameterError

NOON = datetime(2020, 2, 29, 12, 0, 0, 500_000, tzinfo=UTC)
BACK = "INTERVAL '-1 00:00:00' DAY TO SECOND"
MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("column", "text", "json_value"),
    [
        (pa.array([9223372036854775807]), "9223372036854775807", 9223372036854775807),
        (pa.array([0.1], pa.float32()), "0.1", 0.1),
        (pa.array([5.0]), "5.0", 5.0),
        (pa.array([1e300]), "1e+300", 1e300),
        (pa.array([float("nan")]), "NaN", "NaN"),
        (pa.array([float("-inf")]), "-Infinity", "-Infinity"),
        (pa.array([Decimal("12345678901234567890.10")]), "12345678901234567890.10", "12345678901234567890.10"),
        (pa.array([True]), "true", True),
        (pa.array([date(2020, 2, 29)]), "2020-02-29", "2020-02-29"),
        (pa.array([2932897], pa.date32()), "10000-01-01", "10000-01-01"),
        (pa.array([NOON]), "2020-02-29 12:00:00.5", "2020-02-29 12:00:00.5"),
        (pa.array([NOON], pa.timestamp("us", "UTC")), "2020-02-29 12:00:00.5", "2020-02-29 12:00:00.5"),
        (pa.array([253402300800000000], pa.timestamp("us")), "10000-01-01 00:00:00", "10000-01-01 00:00:00"),
        (
            pa.array([timedelta(days=-1)]),
            "INTERVAL '-1 00:00:00' DAY TO SECOND",
            "INTERVAL '-1 00:00:00' DAY TO SECOND",
        ),
        (pa.array([b"\x00\xff"]), "X'00FF'", "AP8="),
        (pa.array(["é😀"]), "é😀", "é😀"),
        (pa.array([[1, None]]), "[1, NULL]", [1, None]),
        (pa.array([[]], pa.list_(pa.int8())), "[]", []),
        (pa.array([{"a": 1, "b": [b"\x01"]}]), "{a: 1, b: [X'01']}", {"a": 1, "b": ["AQ=="]}),
        (pa.array([[("k", 1), ("l", None)]], MAP), "{k: 1, l: NULL}", {"k": 1, "l": None}),
        (pa.array([[(1, "x")]], pa.map_(pa.int32(), pa.string())), "{1: x}", [[1, "x"]]),
        (pa.nulls(1), None, None),
        (pa.array([None], MAP), None, None),
        (pa.array([None], pa.list_(pa.int8())), None, None),
        (pa.array([None], pa.struct([("a", pa.int8())])), None, None),
    ],
)
def test_each_type_as_text_and_as_json(column: pa.Array, text: str | None, json_value: object) -> None:
    assert texts(column) == [text]
    assert json_values(column) == [json_value]
    json.dumps(json_values(column), allow_nan=False)
    # A part of a column is that part: Arrow's slices share the memory of the whole.
    twice = pa.concat_arrays([column, column])
    assert texts(twice.slice(1)) == texts(pa.chunked_array([column])) == [text]


def test_a_table_is_lined_up_by_cells_not_by_letters() -> None:
    table = pa.table({"name": ["東京", "é"], "n": [1, 20]})
    assert list(table_lines(table)) == [
        "name |  n",
        "-----+---",
        "東京 |  1",
        "é    | 20",
    ]


def test_data_cannot_steer_the_terminal() -> None:
    evil = pa.table({"\x1b[31mred": ["\x1b]0;title\x07", "a\nb", "\u202eright", "\x9b2J"]})
    for width in (None, 80):
        said = "\n".join(table_lines(evil, width=width))
        assert said.replace("\n", "").isprintable()
        assert r"\x1b]0;title\x07" in said
        assert r"a\nb" in said


def test_a_table_wider_than_the_terminal_is_shown_in_records() -> None:
    table = pa.table({f"column_{n}": [f"value {n}"] for n in range(20)})
    lines = list(table_lines(table, width=80))
    assert lines[:3] == ["-- row 1", "column_0  | value 0", "column_1  | value 1"]
    assert len(lines) == 21
    assert next(table_lines(table)).startswith("column_0 | column_1 |")


def test_a_long_cell_is_cut_on_a_terminal_and_whole_in_a_file() -> None:
    table = pa.table({"text": ["x" * 200], "n": [1]})
    assert max(map(len, table_lines(table, width=100))) < CELL + 10
    assert "x" * 200 in "\n".join(table_lines(table))


def test_a_terminal_gets_the_first_rows_of_many_and_is_told() -> None:
    table = pa.table({"n": range(ROWS + 5)})
    lines = list(table_lines(table, width=80))
    assert lines[-1] == "… 5 more rows: ask for fewer, or write them to a file"
    assert len(lines) == ROWS + 3
    assert len(list(table_lines(table))) == ROWS + 7


def test_csv_keeps_null_apart_from_the_empty_text() -> None:
    stream = io.StringIO()
    table = pa.table({'a"b': ["", None, 'x,"y"\n'], "n": [1, None, 3], "l": [[1], None, []]})
    Output("csv", stream).result(table, {})
    assert stream.getvalue() == '"a""b","n","l"\n"",1,"[1]"\n,,\n"x,""y""\n",3,"[]"\n'
    assert list(csv.reader(io.StringIO(stream.getvalue())))[3] == ['x,"y"\n', "3", "[]"]


def test_csv_on_a_terminal_is_tame() -> None:
    stream = io.StringIO()
    Output("csv", stream, width=80).result(pa.table({"a": ["\x1b[2J"]}), {})
    assert stream.getvalue() == '"a"\n"\\x1b[2J"\n'


def test_json_names_every_column_and_what_is_missing() -> None:
    stream = io.StringIO()
    table = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    Output("json", stream).result(table, {"partial": True, "missing": {"rome": "down"}})
    assert json.loads(stream.getvalue()) == {
        "rows": [{"n": 1, "n_2": 2}],
        "partial": True,
        "missing": {"rome": "down"},
    }


def test_names_are_made_distinct_whatever_they_are() -> None:
    assert distinct_names(["n", "n", "n_2", "n"]) == ["n", "n_3", "n_2", "n_4"]


def test_parquet_holds_one_result_with_its_types(tmp_path: Path) -> None:
    table = pa.table({"d": [Decimal("1.10")], "t": pa.array([NOON], pa.timestamp("us", "UTC"))})
    file = tmp_path / "a.parquet"
    with open_output("parquet", file) as output:
        output.result(table, {})
    assert pq.read_table(file).equals(table)
    with suppress(ParameterError), open_output("parquet", file) as output:
        output.result(table.slice(0, 0), {})
        output.result(table, {})  # a second result is refused
        raise AssertionError
    assert pq.read_table(file).equals(table), "what was there stays"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_appears_when_all_went_well(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("old")
    with suppress(ZeroDivisionError), open_output("csv", file) as output:
        output.result(pa.table({"n": [1]}), {})
        raise ZeroDivisionError
    assert file.read_text() == "old"
    with open_output("csv", file) as output:
        output.result(pa.table({"n": [1]}), {})
    assert file.read_text() == '"n"\n1\n'
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("form", "to", "problem"),
    [("xml", None, "--output xml"), ("parquet", None, "without a file"), ("csv", "no/such/a.csv", "cannot write")],
)
def test_an_output_that_cannot_be_is_refused_before_anything_is_asked(
    tmp_path: Path, form: str, to: str | None, problem: str
) -> None:
    with pytest.raises(ParameterError, match=problem), open_output(form, None if to is None else tmp_path / to):
        pass
