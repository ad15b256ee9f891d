"""merge_check: does a window sketch's claimed interval still hold the truth after merging? For ours and anybody's.

    from catchment.testing.merge_check import Claims, merge_check
    outcomes = merge_check(MyAdapter(), sites=[1, 4, 16])
    assert all(outcome.holds for outcome in outcomes)

`WindowCounterAdapter` is what to write for a sketch of your own; `catchment merge-check` runs it from the command line.
"""

from catchment.testing.merge_check.adapter import Claims, WindowCounterAdapter
from catchment.testing.merge_check.check import check_cell, merge_check
from catchment.testing.merge_check.ours import OURS, OurAdapter
from catchment.testing.merge_check.outcome import Outcome, Violation, pooled
from catchment.testing.merge_check.registry import PEERS, is_ours, load_adapter
from catchment.testing.merge_check.scenarios import SCENARIOS, Scenario, Scene, Stream
from catchment.testing.merge_check.trees import TREES

__all__ = [
    "OURS",
    "PEERS",
    "SCENARIOS",
    "TREES",
    "Claims",
    "OurAdapter",
    "Outcome",
    "Scenario",
    "Scene",
    "Stream",
    "Violation",
    "WindowCounterAdapter",
    "check_cell",
    "is_ours",
    "load_adapter",
    "merge_check",
    "pooled",
]
