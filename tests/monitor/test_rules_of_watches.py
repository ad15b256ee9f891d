"""Which rules a quantity has: one that it has not is refused with the watch, and each that it has can be begun with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catchment.errors import ParameterError
from catchment.monitor.quantities import Distinct, Frequency, InnerProduct, RangeSum, SelfJoin, Total
from catchment.monitor.rules.registry import NAMES
from catchment.monitor.watch import Watch

SKETCH: dict[str, Any] = {"theta": 0.6, "epsilon": 0.4, "delta": 0.4}
QUANTITIES: dict[str, tuple[type[Watch], dict[str, Any], set[str]]] = {
    "self_join": (SelfJoin, SKETCH, {"near", "full", "relative", "eager", "lazy"}),
    "self_join in a window": (SelfJoin, SKETCH | {"window": 50}, {"near", "full", "two-phase"}),
    "inner_product": (InnerProduct, SKETCH, {"full", "relative", "eager", "lazy"}),
    "inner_product in a window": (InnerProduct, SKETCH | {"window": 50}, {"full"}),
    "total": (Total, {}, {"near"}),
    "total in a window": (Total, {"window": 50}, {"near"}),
    "frequency": (Frequency, {"key": 1}, {"near"}),
    "range_sum": (RangeSum, {"keys": (1, 2)}, {"near"}),
    "range_sum in a window": (RangeSum, {"keys": (1, 2), "window": 50}, {"near"}),
    "distinct": (Distinct, SKETCH, {"near", "full"}),
    "distinct in a window": (Distinct, SKETCH | {"window": 50}, {"near", "full"}),
}
ALWAYS = {"auto", "push", "centralise"}


@pytest.mark.parametrize("rule", ["auto", *NAMES])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_rule_that_a_quantity_has_not_is_refused_with_the_watch(quantity: str, rule: str) -> None:
    kind, values, own = QUANTITIES[quantity]
    if rule not in ALWAYS | own:
        with pytest.raises(ParameterError, match="give one of"):
            kind(**values, rule=rule)
        return
    watch = kind(**values, rule=rule)
    shape = watch.new_vector().shape
    for total in (np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=np.int64)):
        for grows in (True, False):
            steersman = watch.steer(total, 3, grows=grows)
            assert steersman.name == rule or rule == "auto"
            assert steersman.zone()
