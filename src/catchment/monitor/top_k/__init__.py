"""The most frequent items over many sites' windows, known at every site, with a certificate; no centre."""

from catchment.monitor.top_k.certificate import Certificate, certify
from catchment.monitor.top_k.exact_counts import ExactCounts
from catchment.monitor.top_k.neighbour import Cut
from catchment.monitor.top_k.peer import Arrived, Membership, Peer, TopK
from catchment.monitor.top_k.sketched_counts import SketchedCounts

__all__ = ["Arrived", "Certificate", "Cut", "ExactCounts", "Membership", "Peer", "SketchedCounts", "TopK", "certify"]
