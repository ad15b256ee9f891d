"""A pipeline that goes on from a savepoint: its source is read on from where that was taken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from catchment.errors import PipelineError
from catchment.spark.pipeline.spec import Pipeline
from catchment.spark.savepoint import savepoint_offsets

__all__ = ["resumed"]


def resumed(pipeline: Pipeline, savepoint: Path, *, new_source: bool = False) -> Pipeline:
    """The pipeline with its source set on; refused where Spark has no way to say from where to read.

    With `new_source`, the source is taken to hold only events that the savepoint has not seen.
    """
    if "://" not in pipeline.checkpoint and (Path(pipeline.checkpoint) / "offsets").is_dir():
        raise PipelineError(
            f"{pipeline.places.file}: the checkpoint {pipeline.checkpoint} is not new",
            "run it without the savepoint, or name another folder under [checkpoint]",
        )
    options = dict(pipeline.source.options)
    offsets = savepoint_offsets(savepoint)
    if not new_source:
        if pipeline.source.format == "generator":
            done = int(offsets[0]["events"])
            left = int(options["events"]) - (done - int(options.get("first", 0))) if "events" in options else None
            options |= {"first": str(done)} | ({} if left is None else {"events": str(max(left, 0))})
        elif pipeline.source.format == "kafka":
            options["startingOffsets"] = json.dumps(offsets[0])
        else:
            raise PipelineError(
                f"{pipeline.places.file}: a {pipeline.source.format} source cannot be told from where to read on",
                "name a folder with only the files that are still to be read, and say --new-source",
            )
    return replace(pipeline, source=replace(pipeline.source, options=options))
