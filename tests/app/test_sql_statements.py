"""Statements out of a text: every piece of SQL in which a semicolon is no end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.app.sql.statements import Statement, is_complete, split_statements, without_comments

HARMLESS = [
    "SELECT 1",
    "SELECT ';'",
    'SELECT ";"',
    "SELECT `a;b` FROM t",
    "SELECT 'it''s; fine'",
    r"SELECT 'it\'s; fine'",
    r"SELECT '\\'",
    r"SELECT r'\'",
    r'SELECT R"\", 2',
    "SELECT 1 -- a; b",
    "SELECT /* ; */ 1",
    "SELECT /* a /* ; */ ; */ 1",
    "SELECT '/*', 2",
    "SELECT '--', 2",
    "SELECT 1 - - 1",
    "SELECT a.r FROM a",
    "-- first\nSELECT '\n;\n'",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_semicolon_inside_is_no_end(text: str) -> None:
    found = split_statements(f"{text}\n; SELECT 2")
    assert len(found) == 2
    assert found[0].text.endswith(text.split("\n", 1)[-1])
    assert found[1].text == "SELECT 2"


@given(st.lists(st.sampled_from(HARMLESS), min_size=1, max_size=6))
def test_what_is_joined_comes_apart_again_at_its_lines(texts: list[str]) -> None:
    whole = "\n;\n".join(texts)
    found = split_statements(whole)
    assert len(found) == len(texts)
    for statement in found:
        line = whole.split("\n")[statement.line - 1]
        assert line.startswith(statement.text.split("\n")[0])


def test_lines_are_counted_from_one_and_comments_before_are_not_the_statement() -> None:
    assert split_statements("\n-- a\n/* b */ SELECT 1;\n\n  SELECT 2") == [
        Statement("SELECT 1", 3),
        Statement("SELECT 2", 5),
    ]


@pytest.mark.parametrize("text", ["", ";", " ;; ", "-- only", "/* only */;"])
def test_nothing_is_no_statement(text: str) -> None:
    assert split_statements(text) == []


@pytest.mark.parametrize("text", ["SELECT", "SELECT ';", "SELECT `a;", "SELECT /* ;", "SELECT 1; S", "SELECT -- ;"])
def test_what_is_open_waits_for_more(text: str) -> None:
    assert not is_complete(text)


@pytest.mark.parametrize("text", ["SELECT 1;", "SELECT 1; -- more", "SELECT ';';", "SELECT 1;\n", "-- nothing"])
def test_what_is_closed_may_run(text: str) -> None:
    assert is_complete(text)


@given(st.text(alphabet="a;'\"`-/*\\\n r"))
def test_any_text_is_cut_without_losing_a_letter_of_a_statement(text: str) -> None:
    for statement in split_statements(text):
        assert statement.text in text
    assert len(without_comments(text)) <= len(text) + text.count("/*") + text.count("--")
