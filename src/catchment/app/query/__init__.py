"""Questions to a pipeline's output folder, answered from its newest snapshots without Spark."""

from __future__ import annotations

from catchment.app.query.folder import PipelineFolder, Reading
from catchment.app.query.questions import QUESTIONS, Question, ask

__all__ = ["QUESTIONS", "PipelineFolder", "Question", "Reading", "ask"]
