"""catchment asks one question of many streams.

Small, mergeable sketches stay where the data is; kilobytes move; answers carry bounds that are still true after every
merge. The core imports with NumPy and numba alone; rooms beyond it are imported by name.
"""

from catchment.answer import Answer, Ranking
from catchment.errors import (
    BytesError,
    CatchmentError,
    DamagedBytesError,
    InputError,
    KernelCacheWarning,
    KeyTypeError,
    MergeError,
    NameNotFoundError,
    NullKeyError,
    PackageMissingError,
    ParameterError,
    QueryError,
    TimeError,
    UnknownFormatError,
    WeightError,
)
from catchment.sketch import (
    BloomFilter,
    BottomK,
    CountMin,
    FastAMS,
    FMSketch,
    Sketch,
    SpaceSaving,
    TugOfWar,
    UltraLogLog,
    ValueEstimator,
)
from catchment.window import (
    DyadicECM,
    ECMSketch,
    ExponentialHistogram,
    Panes,
    PerfectCountMin,
    ProportionalCountMin,
    RandomizedWave,
    SimpleCountMin,
    SplitterCountMin,
    Wave,
    WindowSketch,
)

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "BloomFilter",
    "BottomK",
    "BytesError",
    "CatchmentError",
    "CountMin",
    "DamagedBytesError",
    "DyadicECM",
    "ECMSketch",
    "ExponentialHistogram",
    "FMSketch",
    "FastAMS",
    "InputError",
    "KernelCacheWarning",
    "KeyTypeError",
    "MergeError",
    "NameNotFoundError",
    "NullKeyError",
    "PackageMissingError",
    "Panes",
    "ParameterError",
    "PerfectCountMin",
    "ProportionalCountMin",
    "QueryError",
    "RandomizedWave",
    "Ranking",
    "SimpleCountMin",
    "Sketch",
    "SpaceSaving",
    "SplitterCountMin",
    "TimeError",
    "TugOfWar",
    "UltraLogLog",
    "UnknownFormatError",
    "ValueEstimator",
    "Wave",
    "WeightError",
    "WindowSketch",
]
