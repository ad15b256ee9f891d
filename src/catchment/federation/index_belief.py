"""The indexes of a query's tables: taken as they were last, held against what they are, which is asked meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from catchment.federation.cloud import Errand, Index
from catchment.federation.index_catalog import IndexCatalog
from catchment.federation.index_manifest import HIDDEN
from catchment.federation.plan import Plan, Put

__all__ = ["IndexBelief", "uses_index"]

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
        self._truth: dict[str, Future[Found]] = {
            cloud: submit(catalog.of, names, errand) for cloud, catalog in catalogs.items()
        }
        self.indexes: dict[str, Found] = {
            cloud: self._truth[cloud].result() if found is None else found for cloud, found in believed.items()
        }
        """By cloud and table."""

    def holds(self) -> bool:
        """Whether everything is as it was believed; waits until the clouds have said so."""
        return all(self._truth[cloud].result() == found for cloud, found in self.indexes.items())


def uses_index(plan: Plan) -> bool:
    """Whether an answer depends on what was believed."""
    return any(not isinstance(step, Put) and (step.probes or HIDDEN in step.sql) for step in plan)
