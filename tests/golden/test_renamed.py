"""Classes may be called otherwise: what is durable and what crosses the wire stays what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.renamed import classes_of, copy_renamed, failures, renamed

TESTS = sorted(path.name for path in Path(__file__).parent.glob("test_monitor_*.py"))


@pytest.mark.long("fuzz")
def test_golden_monitors_do_not_hang_on_the_names_of_classes(tmp_path: Path) -> None:
    assert failures(copy_renamed(tmp_path), TESTS) == []


def test_names_in_code_are_changed_and_data_is_not(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Total:\n    class _Part: ...\n")
    names = classes_of(tmp_path)
    assert names == {"Total", "_Part"}
    assert renamed('Total.Totals("Total", _Part)', names) == 'TotalRenamed.Totals("Total", _PartRenamed)'
