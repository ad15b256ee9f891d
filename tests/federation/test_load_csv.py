"""CSV files in blocks: what Python's own reader reads, whatever the size of a block, and each bad record by itself."""

from __future__ import annotations

import csv
import gzip
import io
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import InputError, ParameterError
from catchment.federation.cloud import Column
from catchment.federation.load.csv_files import CsvFile, CsvForm, Rejected
from catchment.federation.load.dealing import Deal
from catchment.federation.load.types import columns_of

TWO = columns_of("n BIGINT, s STRING")
GOOD = ["1,a", "22,", '3,""', '4,"a, b"', '5,"say ""so"""', "6,é😀", "-7, spaced ", '8,5" pipe']
BAD = ["x,a", "1", "1,2,3", "9999999999999999999,a", '1,"open', "1.5,a", ' ,"']


def loaded(data: bytes, form: CsvForm, block: int, folder: Path) -> tuple[list[tuple[object, ...]], list[Rejected]]:
    path = folder / "a.csv"
    path.write_bytes(data)
    bad: list[Rejected] = []
    file = CsvFile(path, form, bad.append, block_bytes=block)
    rows = [tuple(row.values()) for table in file.tables(TWO) for row in table.to_pylist()]
    assert file.position == len(data)
    return rows, bad


@given(
    lines=st.lists(st.sampled_from([*GOOD, *BAD, ""]), max_size=30),
    block=st.integers(1, 200),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
)
def test_each_line_is_judged_by_itself_whatever_stands_around_it(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block: int, end: str, closed: bool
) -> None:
    folder = tmp_path_factory.getbasetemp()
    data = (end.join(lines) + (end if closed and lines else "")).encode()
    alone = {line: loaded((line + end).encode(), CsvForm(), 1 << 20, folder) for line in {*lines} - {""}}
    rows, bad = loaded(data, CsvForm(), block, folder)
    assert rows == [row for line in lines if line for row in alone[line][0]]
    assert [(each.line, each.record) for each in bad] == [
        (number, line) for number, line in enumerate(lines, 1) if line and not alone[line][0]
    ]
    assert [each.reason for each in bad] == [alone[line][1][0].reason for line in lines if line and not alone[line][0]]


@pytest.mark.parametrize("line", GOOD)
def test_good_lines_are_what_pythons_reader_makes_of_them(tmp_path: Path, line: str) -> None:
    rows, bad = loaded(f"{line}\n".encode(), CsvForm(), 1 << 20, tmp_path)
    (number, text), *_ = csv.reader(io.StringIO(line))
    assert rows == [(int(number), None if line.endswith(",") else text)]
    assert bad == []


@pytest.mark.parametrize("line", BAD)
def test_bad_lines_are_bad(tmp_path: Path, line: str) -> None:
    rows, bad = loaded(f"1,before\n{line}\n2,after\n".encode(), CsvForm(), 1 << 20, tmp_path)
    assert rows == [(1, "before"), (2, "after")]
    assert [(each.line, each.record) for each in bad] == [(2, line)]


@given(
    values=st.lists(st.text(alphabet='ab",\n\r;é', max_size=8), max_size=20),
    block=st.integers(1, 100),
)
def test_line_breaks_in_quotes_are_part_of_the_value(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], block: int
) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(enumerate(values))
    form = CsvForm(multiline=True)
    rows, bad = loaded(text.getvalue().encode(), form, block, tmp_path_factory.getbasetemp())
    assert rows == list(enumerate(values))
    assert bad == []


def test_lines_of_bad_records_are_counted_through_line_breaks(tmp_path: Path) -> None:
    rows, bad = loaded(b'1,"a\nb"\nx,c\n2,"d\n\n\ne"\ny,"f\ng"\n', CsvForm(multiline=True), 5, tmp_path)
    assert rows == [(1, "a\nb"), (2, "d\n\n\ne")]
    assert [(each.line, each.record) for each in bad] == [(3, "x,c"), (8, 'y,"f\ng"')]


def test_other_letters_can_separate_quote_and_be_null(tmp_path: Path) -> None:
    rows, bad = loaded(b"1\t'a\tb'\n2\tNA\n3\t'NA'\n4\t\n", CsvForm(delimiter="\t", quote="'", null="NA"), 9, tmp_path)
    assert rows == [(1, "a\tb"), (2, None), (3, "NA"), (4, "")]
    assert bad == []


def test_a_record_without_end_is_an_error_and_not_all_memory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the record that begins in line 2 is longer than"):
        loaded(b'1,a\n2,"' + b"x\n" * 50_000, CsvForm(multiline=True), 100, tmp_path)


def test_gzip_reads_the_same_and_its_position_is_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d,x\n" % n for n in range(10_000))))
    file = CsvFile(path, CsvForm(), lambda _: None, block_bytes=1000)
    assert [n for table in file.tables(TWO) for n in table["n"].to_pylist()] == list(range(10_000))
    assert file.position == path.stat().st_size


def test_a_header_is_matched_by_name_and_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf S ,N\r\na,1\r\n")
    file = CsvFile(path, CsvForm(header=True), lambda _: None)
    assert [table.to_pylist() for table in file.tables(TWO)] == [[{"n": 1, "s": "a"}]]
    assert file.guess() == (Column("S", "string"), Column("N", "bigint"))


@pytest.mark.parametrize("header", [b"", b"\n", b"n,\n", b"n,N\n"])
def test_a_header_that_names_no_columns_is_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(header)
    with pytest.raises(InputError, match=r"line 1: .* does not name each column once"):
        CsvFile(path, CsvForm(header=True), lambda _: None).guess()


def test_times_with_and_without_a_zone(tmp_path: Path) -> None:
    columns = columns_of("at TIMESTAMP")
    path = tmp_path / "a.csv"
    found = []
    for text in ("2020-01-01 02:00:00+02:00\n", "2020-01-01T00:00:00\n", "2020-01-01\n"):
        path.write_text(text)
        (table,) = CsvFile(path, CsvForm(), lambda _: None).tables(columns)
        found.append(table["at"][0].as_py().isoformat())
    assert found == ["2020-01-01T00:00:00+00:00"] * 3


@pytest.mark.parametrize(
    "ddl", ["", "n", "n INT, N STRING", "n ARRAY<INT>", "n DECIMAL(39,0)", "n DECIMAL(5,6)", "n INT NOT NULL", "1 2 3"]
)
def test_a_schema_that_cannot_be_read_is_refused(ddl: str) -> None:
    with pytest.raises(ParameterError):
        columns_of(ddl)


@given(count=st.integers(0, 50), clouds=st.integers(1, 4), hand=st.integers(1, 7), cuts=st.lists(st.integers(0, 50)))
def test_dealing_depends_on_the_place_in_the_file_alone(count: int, clouds: int, hand: int, cuts: list[int]) -> None:
    whole = pa.table({"n": range(count)})
    edges = sorted({0, count, *(cut for cut in cuts if cut < count)})
    deal = Deal(clouds, hand)
    parts: list[list[int]] = [[] for _ in range(clouds)]
    for start, end in pairwise(edges):
        for part, rows in zip(parts, deal(whole.slice(start, end - start)), strict=True):
            part += rows["n"].to_pylist()
    assert parts == [[n for n in range(count) if n // hand % clouds == cloud] for cloud in range(clouds)]
