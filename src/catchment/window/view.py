"""View: what panes say about one range of time, from the merge of those inside it and of those around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.answer import Answer, Ranking
from catchment.sketch.base import Sketch
from catchment.sketch.checks import check_fraction
from catchment.sketch.space_saving import NO_FALSE_POSITIVES

__all__ = ["View"]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Two sketches, with the events of the range between them: all of `inside` are in it, all of it are in `around`.

    They are one and the same where no pane is cut by an end of the range; every answer is then that sketch's own.
    """

    window: tuple[int, int]
    inside: Sketch
    around: Sketch
    share: float
    """How much of the time in which the cut panes had events lies in the range."""

    @property
    def cut(self) -> bool:
        return self.inside is not self.around

    def from_around(self, question: str, *args: Any) -> Any:
        """What the panes around the range say."""
        answer = getattr(self.around, question)(*args)
        return replace(answer, window=self.window) if isinstance(answer, Answer) else answer

    def growing(self, question: str, *args: Any) -> Answer:
        """About what can only grow with more events."""
        around: Answer = getattr(self.around, question)(*args)
        if not self.cut:
            return replace(around, window=self.window)
        return self.between(getattr(self.inside, question)(*args), around)

    def between(self, inside: Answer, around: Answer) -> Answer:
        """At least what is inside, at most what is around; the union bound over the two says how surely."""
        # The ends may only cross where a bound has failed.
        low, high = np.minimum(inside.low, around.high), np.maximum(inside.low, around.high)
        with np.errstate(invalid="ignore"):
            steps = np.where(np.equal(inside.value, around.value), 0, np.subtract(around.value, inside.value))
        value = np.clip(inside.value + self.share * steps, low, high)
        sure = max(0.0, 1 - (1 - inside.confidence) - (1 - around.confidence))
        answer = Answer(value, low, high, sure, around.epsilon, self.window)
        return answer if value.ndim else replace(answer, value=value.item(), low=low.item(), high=high.item())

    # -- rankings ---------------------------------------------------------------------------------------------

    def top(self, k: int) -> Ranking:
        ranking: Ranking = self.around.top(k)  # type: ignore[attr-defined]
        return self._bounded(ranking)

    def heavy_hitters(self, phi: float | None, *, count: int | None, mode: str) -> Ranking:
        """Keys are sought where none that is asked for can be missing, or none be too many.

        A key with f >= phi * N in the range has at least phi * N(inside) around it: all such keys are among those
        that `around` has from there on. One with phi * N(around) inside it is such a key whatever the cut panes hold.
        """
        only_sure = mode == NO_FALSE_POSITIVES
        if self.cut and phi is not None and count is None:
            mass = (self.around if only_sure else self.inside).total().value  # type: ignore[attr-defined]
            count, phi = max(1, math.ceil(check_fraction("phi", phi) * mass)), None
        source = self.inside if only_sure else self.around
        ranking: Ranking = source.heavy_hitters(phi, count=count, mode=mode)  # type: ignore[attr-defined]
        return self._bounded(ranking)

    def _bounded(self, ranking: Ranking) -> Ranking:
        """The same keys, with the bounds of the range: those that can be the heaviest first."""
        if not self.cut:
            return replace(ranking, answers=replace(ranking.answers, window=self.window))
        answers = self.between(_look_up(self.inside, ranking.keys), _look_up(self.around, ranking.keys))
        order = np.argsort(-np.asarray(answers.high), kind="stable")
        value, low, high = (np.asarray(part)[order] for part in (answers.value, answers.low, answers.high))
        keys = tuple(ranking.keys[place] for place in order)
        return replace(ranking, keys=keys, answers=replace(answers, value=value, low=low, high=high))


def _look_up(sketch: Any, keys: Sequence[Any]) -> Answer:
    """The answer to each of these keys, which may be of several types, as no one question may."""
    answer: Answer = sketch.estimate([])
    value, low, high = np.zeros((3, len(keys)), dtype=np.asarray(answer.value).dtype)
    for kind in set(map(type, keys)):
        places = [place for place, key in enumerate(keys) if type(key) is kind]
        part = sketch.estimate([keys[place] for place in places])
        value[places], low[places], high[places] = part.value, part.low, part.high
    return replace(answer, value=value, low=low, high=high)
