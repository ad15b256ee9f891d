"""The page about balanced partitions: its first example runs, and the names in it are there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import catchment.balance
import catchment.spark.keyed_state
import catchment.spark.partition
import catchment.spark.savepoint

PAGE = Path(__file__).parents[2] / "docs" / "balance-partitioning.md"


def test_the_example_says_what_it_says() -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert (failed, tried > 5) == (0, True)


def test_every_function_that_it_names_is_there() -> None:
    rooms = (catchment.balance, catchment.spark.partition, catchment.spark.keyed_state, catchment.spark.savepoint)
    named = set(
        re.findall(
            r"\b(\w*(?:balanced|learn_|measured|reconsider|read_keyed|read_offsets|hash_map|build_map)\w*)\(",
            PAGE.read_text(),
        )
    )
    named |= set(re.findall(r"`((?:Two|D)Choices|PairedPieces|hash_map|build_map)", PAGE.read_text()))
    assert len(named) >= 8
    assert {name for name in named if not any(hasattr(room, name) for room in rooms)} == set()
