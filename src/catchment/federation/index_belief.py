"""The indexes of a query's tables: taken as they were last, held against what they are, which is asked meanwhile.

Only an answer that was read from an index depends on it, so the clouds are asked for such a plan alone, unless they
were a moment ago; and else now and then, because an index that was made meanwhile may serve the next query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from catchment.federation.cloud import Errand, Index
from catchment.federation.index_catalog import IndexCatalog
from catchment.federation.index_manifest import HIDDEN
from catchment.federation.plan import Plan, Put

__all__ = ["IndexBelief", "may_read_index"]

Found = Mapping[str, tuple[Index, ...]]


class IndexBelief:
    """What a query takes to be true of indexes, in each of its clouds.

    Parameters
    ----------
    catalogs
        Of the clouds, by their names.
    tables
        The names of the query's tables.
    errand
        For which query the clouds are asked.
    submit
        Runs a function in another thread.
    """

    def __init__(
        self,
        catalogs: Mapping[str, IndexCatalog],
        tables: Iterable[str],
        errand: Errand,
        submit: Callable[..., Future[Any]],
    ) -> None:
        names = frozenset(tables)
        believed = {cloud: catalog.believed(names) for cloud, catalog in catalogs.items()}
        self._ask = {cloud: partial(submit, catalog.of, names, errand) for cloud, catalog in catalogs.items()}
        self._truth: dict[str, Future[Found]] = {
            cloud: self._ask[cloud]() for cloud, found in believed.items() if found is None or not found.is_young
        }
        self.indexes: dict[str, Found] = {
            cloud: self._truth[cloud].result() if found is None else found.indexes for cloud, found in believed.items()
        }
        """By cloud and table."""
        self._fresh = {cloud for cloud, found in believed.items() if found is not None and found.is_fresh}

    def check(self) -> None:
        """Begin to ask every cloud that was not asked a moment ago: an index will be read."""
        for cloud, ask in self._ask.items():
            if cloud not in self._truth and cloud not in self._fresh:
                self._truth[cloud] = ask()

    def holds(self) -> bool:
        """Whether everything that was asked is as it was believed; waits until the clouds have said so."""
        self.check()
        return all(truth.result() == self.indexes[cloud] for cloud, truth in self._truth.items())

    def holds_now(self) -> bool:
        """The same after something failed: clouds that were not asked are asked."""
        self._fresh.clear()
        return self.holds()


def may_read_index(plan: Plan) -> bool:
    """Whether an answer may depend on what was believed."""
    return any(not isinstance(step, Put) and (step.probes or HIDDEN in step.sql) for step in plan)
