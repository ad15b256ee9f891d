"""A pipeline as a file: events from a source, sketches of them by site, snapshots in a folder.

pipeline = read_pipeline(Path("pipeline.toml"))
spark = pipeline_session(pipeline)
Run(pipeline, spark, once=True).start()
"""

from __future__ import annotations

from catchment.spark.pipeline.folder import OutputFolder
from catchment.spark.pipeline.progress import Metrics
from catchment.spark.pipeline.read import EXAMPLE, parse_pipeline, read_pipeline
from catchment.spark.pipeline.resume import resumed
from catchment.spark.pipeline.run import Run, pipeline_session
from catchment.spark.pipeline.spec import Pipeline

__all__ = [
    "EXAMPLE",
    "Metrics",
    "OutputFolder",
    "Pipeline",
    "Run",
    "parse_pipeline",
    "pipeline_session",
    "read_pipeline",
    "resumed",
]
