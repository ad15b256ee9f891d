"""When clouds are asked about their indexes: for a plan that reads one, and now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from catchment.federation.cloud import Errand, Index, Purpose
from catchment.federation.index_belief import IndexBelief
from catchment.federation.index_catalog import Believed, IndexCatalog
from catchment.federation.ledger import Ledger

OLD: dict[str, tuple[Index, ...]] = {"t": (Index("i", "t", "a", "int", ("a",)),)}
NEW: dict[str, tuple[Index, ...]] = {"t": (Index("j", "t", "b", "int", ("b",)),)}


class Catalogue:
    """What a cloud would say: `OLD` last time, `now` this time."""

    def __init__(self, now: dict[str, tuple[Index, ...]], believed: Believed | None) -> None:
        self.now, self._believed, self.asked = now, believed, 0

    def of(self, _tables: Iterable[str], _errand: Errand) -> dict[str, tuple[Index, ...]]:
        self.asked += 1
        return self.now

    def believed(self, _tables: Iterable[str]) -> Believed | None:
        return self._believed


def _submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(function(*arguments))
    return done


def _belief(catalogue: Catalogue) -> IndexBelief:
    errand = Errand("q", Purpose.STATISTICS, Ledger())
    return IndexBelief({"paris": cast(IndexCatalog, catalogue)}, ["t"], errand, _submit)


def test_a_scan_soon_after_another_query_asks_nothing() -> None:
    catalogue = Catalogue(NEW, Believed(OLD, is_young=True))
    belief = _belief(catalogue)
    assert belief.indexes == {"paris": OLD}
    assert catalogue.asked == 0


@pytest.mark.parametrize(("now", "holds"), [(OLD, True), (NEW, False), ({}, False)])
def test_who_reads_an_index_asks_once_whether_it_stands(now: dict[str, tuple[Index, ...]], holds: bool) -> None:
    catalogue = Catalogue(now, Believed(OLD, is_young=True))
    belief = _belief(catalogue)
    belief.check()
    belief.check()
    assert belief.holds() is holds
    assert catalogue.asked == 1


def test_what_was_said_just_now_is_not_asked_unless_something_fails() -> None:
    catalogue = Catalogue(NEW, Believed(OLD, is_young=True, is_fresh=True))
    belief = _belief(catalogue)
    belief.check()
    assert belief.holds()
    assert catalogue.asked == 0
    assert not belief.holds_now()
    assert catalogue.asked == 1


def test_what_is_old_is_asked_again_and_still_believed() -> None:
    catalogue = Catalogue(NEW, Believed(OLD, is_young=False))
    belief = _belief(catalogue)
    assert belief.indexes == {"paris": OLD}
    assert catalogue.asked == 1
    assert not belief.holds()


def test_what_was_never_asked_is_waited_for() -> None:
    belief = _belief(Catalogue(NEW, None))
    assert belief.indexes == {"paris": NEW}
    assert belief.holds()
