"""Sketches in time: each answers for the last hour, or any range in it."""

from catchment.window.base import WindowSketch
from catchment.window.dyadic import DyadicECM
from catchment.window.ecm import ECMSketch
from catchment.window.exponential_histogram import ExponentialHistogram
from catchment.window.panes import Panes
from catchment.window.perfect_count_min import PerfectCountMin
from catchment.window.proportional_count_min import ProportionalCountMin
from catchment.window.randomized_wave import RandomizedWave
from catchment.window.simple_count_min import SimpleCountMin
from catchment.window.splitter_count_min import SplitterCountMin
from catchment.window.wave import Wave

__all__ = [
    "DyadicECM",
    "ECMSketch",
    "ExponentialHistogram",
    "Panes",
    "PerfectCountMin",
    "ProportionalCountMin",
    "RandomizedWave",
    "SimpleCountMin",
    "SplitterCountMin",
    "Wave",
    "WindowSketch",
]
