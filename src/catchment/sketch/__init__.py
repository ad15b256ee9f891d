"""Sketches over the whole history: one class a file, the same verbs everywhere."""

from catchment.sketch.base import Sketch
from catchment.sketch.bloom import BloomFilter
from catchment.sketch.bottom_k import BottomK
from catchment.sketch.count_min import CountMin
from catchment.sketch.fast_ams import FastAMS
from catchment.sketch.fm import FMSketch
from catchment.sketch.space_saving import SpaceSaving
from catchment.sketch.tug_of_war import TugOfWar
from catchment.sketch.ultraloglog import UltraLogLog
from catchment.sketch.value_estimator import ValueEstimator

__all__ = [
    "BloomFilter",
    "BottomK",
    "CountMin",
    "FMSketch",
    "FastAMS",
    "Sketch",
    "SpaceSaving",
    "TugOfWar",
    "UltraLogLog",
    "ValueEstimator",
]
