"""What we test with, shipped so that users test as we do: exact answers, seeded streams, the contract of a sketch."""

from catchment.testing.contract import check_sketch
from catchment.testing.exact import Exact, ExactWindow
from catchment.testing.streams import STREAMS, Events
from catchment.testing.trials import failures_allowed

__all__ = ["STREAMS", "Events", "Exact", "ExactWindow", "check_sketch", "failures_allowed"]
