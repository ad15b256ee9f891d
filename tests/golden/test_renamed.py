"""Classes may be called otherwise: what is durable and what crosses the wire stays what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.renamed import classes_of, copy_renamed, failures, renamed

GOLDEN = sorted(f"golden/{path.name}" for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__))
BALANCE = (
    "partition_bytes.py::test_bytes_of_the_first_version_are_read_and_written_still",
    "scheduler_bytes.py::test_bytes_are_for_ever",
    "shed_bytes.py::test_bytes_are_for_ever",
)


@pytest.mark.long("fuzz")
def test_what_is_durable_does_not_hang_on_the_names_of_classes(tmp_path: Path) -> None:
    assert failures(copy_renamed(tmp_path), [*GOLDEN, *(f"balance/test_{name}" for name in BALANCE)]) == []


def test_names_in_code_are_changed_and_data_is_not(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Total:\n    class _Part: ...\n")
    names = classes_of(tmp_path)
    assert names == {"Total", "_Part"}
    assert renamed('Total.Totals("Total", _Part)', names) == 'TotalRenamed.Totals("Total", _PartRenamed)'


def test_names_from_other_libraries_are_not_changed() -> None:
    names = frozenset({"Total"})
    ours, theirs = "from catchment.rules import Total\nTotal()", "from totals import Total\nTotal()"
    assert renamed(ours, names) == "from catchment.rules import TotalRenamed\nTotalRenamed()"
    assert renamed(theirs, names) == theirs
    code = "import totals.rules as rules, catchment\nrules.all.Total(catchment.rules.Total)"
    assert renamed(code, names) == code.replace("catchment.rules.Total", "catchment.rules.TotalRenamed")
