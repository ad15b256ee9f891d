"""What we test with, shipped so that users test as we do.

Exact answers, seeded streams, the contract of a sketch, and for protocols a network with faults by seed.
"""

from catchment.testing.contract import check_sketch
from catchment.testing.exact import Exact, ExactWindow
from catchment.testing.faults import Faults
from catchment.testing.host import Node
from catchment.testing.network import Network
from catchment.testing.simulation import replay, simulate
from catchment.testing.streams import STREAMS, Events
from catchment.testing.trials import chance_to_notice, failures_allowed

__all__ = [
    "STREAMS",
    "Events",
    "Exact",
    "ExactWindow",
    "Faults",
    "Network",
    "Node",
    "chance_to_notice",
    "check_sketch",
    "failures_allowed",
    "replay",
    "simulate",
]
