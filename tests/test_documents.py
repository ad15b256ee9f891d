"""What the documents say is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import catchment
from benchmarks.readme import with_figures
from catchment import Sketch
from tests import house

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_readme_holds_the_figures_of_the_last_run() -> None:
    assert with_figures(README) == README
    assert "| count_min_int64 |" in README


def test_the_readme_opens_with_the_two_commands() -> None:
    first = README.split("```")[1]
    assert first.index("make run") < first.index("make test")


def test_every_sketch_has_a_row_in_the_readme() -> None:
    rows = [line for line in README.splitlines() if line.startswith("|")]
    for name in catchment.__all__:
        kind = getattr(catchment, name)
        if isinstance(kind, type) and issubclass(kind, Sketch) and "family" in vars(kind):
            assert any(f"`{name}`" in row for row in rows), name


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", ".ci/run"):
        named = set(re.findall(r"(?:`|^)make ([a-z]+)", (ROOT / document).read_text(), flags=re.MULTILINE))
        assert named <= targets, document


def test_the_floors_in_the_architecture_are_the_floors() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for floor in range(7):
        row = next(line for line in text.splitlines() if line.startswith(f"| {floor} |"))
        rooms = set(re.findall(r"`(\w+)`", row.split("|")[2]))
        assert rooms == {room for room, level in house.FLOORS.items() if level == floor}


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda p: p.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_public_class_has_guarantee_example_and_reference() -> None:
    for kind in {kind for family, kind in Sketch._families.items() if family < 192}:
        text = "".join(base.__doc__ or "" for base in kind.__mro__ if issubclass(base, Sketch))
        for part in ("**Guarantee.**", "Parameters\n", ">>> ", "References\n", "wins.**"):
            assert part in text or (part == "wins.**" and "**What it costs.**" in text), f"{kind.__name__}: {part}"
