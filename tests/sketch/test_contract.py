"""Every exported sketch passes every check of the contract, the day it is exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from catchment import BottomK, CountMin, Sketch, SpaceSaving, UltraLogLog
from catchment.testing import check_sketch, contract
from tests.sketch.cases import EXPORTED, name_of, variants


@pytest.mark.parametrize(("kind", "sizes"), variants(), ids=name_of)
@pytest.mark.parametrize("check", contract.CHECKS, ids=name_of)
def test_contract(check: Callable[..., None], kind: type[Sketch], sizes: dict[str, Any]) -> None:
    check(kind, **sizes)


def test_every_family_is_exported() -> None:
    assert {kind for family, kind in Sketch._families.items() if family < 192} == set(EXPORTED)


def test_every_check_is_listed() -> None:
    written = {name for name in vars(contract) if name.startswith("check_") and name != "check_sketch"}
    assert written == {check.__name__ for check in contract.CHECKS}


class Forgetful(CountMin):
    """Loses the last key of every batch: a batch is not its parts."""

    family: ClassVar[int] = 201

    def update(self, keys: Any, *, weights: Any = 1) -> None:
        super().update(keys[:-1], weights=weights[:-1] if isinstance(weights, np.ndarray) else weights)


class Optimist(CountMin):
    """Takes the smaller of two counters when merging: truth falls out of the bounds."""

    family: ClassVar[int] = 202

    def _absorb(self, others: list[Any]) -> None:
        for other in others:
            self._cells = np.minimum(self._cells, other._cells)


class Sharing(UltraLogLog):
    """A copy that is not one."""

    family: ClassVar[int] = 203

    def copy(self) -> Sharing:
        return self


class Careless(SpaceSaving):
    """Merges anything."""

    family: ClassVar[int] = 204

    @staticmethod
    def _check_fit(first: Sketch, other: Sketch) -> None:
        assert first.nbytes
        assert other.nbytes


class Boastful(BottomK):
    """Claims to need no memory."""

    family: ClassVar[int] = 205

    @property
    def nbytes(self) -> int:
        return 0


class Amnesiac(CountMin):
    """Forgets its total in its bytes."""

    family: ClassVar[int] = 206

    def _write(self, writer: Any) -> None:
        total, self._total = self._total, int(self._cells.max())
        super()._write(writer)
        self._total = total


class TestContractCatches:
    broken: ClassVar = [Forgetful, Optimist, Sharing, Careless, Boastful, Amnesiac]

    @pytest.mark.parametrize("kind", broken, ids=name_of)
    def test_a_broken_sketch(self, kind: type[Sketch]) -> None:
        with pytest.raises(AssertionError):
            check_sketch(kind)
