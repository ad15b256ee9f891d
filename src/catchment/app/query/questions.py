"""Which question fits which kind of sketch, and the asking, over the sites together or one by one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catchment.answer import Answer, Ranking
from catchment.app.query.folder import PipelineFolder, Reading, SketchAbout
from catchment.errors import QueryError
from catchment.sketch.base import Sketch

__all__ = ["QUESTIONS", "Question", "ask"]

_FITS = {
    "ecm": ("point", "self-join", "join", "total"),
    "top": ("top", "heavy", "point", "total"),
    "distinct": ("distinct",),
    "quantiles": ("quantile", "between", "heavy", "point", "self-join", "total"),
    "count": ("total",),
}
"""The questions that each kind of sketch answers."""

QUESTIONS = {
    "point": "how often each key was seen: point NAME KEY…",
    "top": "the most frequent keys: top NAME -k 10",
    "heavy": "the keys with at least a share phi of all: heavy NAME --phi 0.01",
    "distinct": "how many different keys there were: distinct NAME",
    "quantile": "the key below which a share of all lies: quantile NAME 0.5",
    "between": "how many events had a key from one to another: between NAME LOW HIGH",
    "self-join": "the sum of squared frequencies: self-join NAME",
    "join": "the sum of products of frequencies at two sites, or of two sketches: join NAME A B, join NAME OTHER",
    "total": "how many there were, by weight: total NAME",
}
"""What can be asked, and how it is written."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the sketch called `name`; times in ticks."""

    question: str
    name: str
    arguments: tuple[str, ...] = ()
    k: int = 10
    phi: float = 0.01
    last: int | None = None
    now: int | None = None
    sites: tuple[str, ...] = ()
    per_site: bool = False


def ask(folder: PipelineFolder, question: Question) -> dict[str, Any]:
    """The `Answer`, or the `Ranking` of `top` and `heavy`, by site, or over all sites under the name "".

    `sites` of an answer are those in it; `missing` those in it only up to their last snapshot, which ends before the
    range that was asked about does.
    """
    about = folder.sketch(question.name)
    _check(about, question)
    if question.question == "join":
        return {"": _join(folder, question)}
    reading = folder.read(question.name, sites=question.sites, now=question.now)
    asked = _asker(about, question, reading.now)
    if question.per_site:
        return {
            site: _signed(asked(sketch), (site,), tuple({site} & set(reading.behind)))
            for site, sketch in reading.sketches.items()
        }
    return {"": _signed(asked(_merged(reading)), tuple(reading.sketches), reading.behind)}


def _check(about: SketchAbout, question: Question) -> None:
    if question.question not in QUESTIONS:
        near = difflib.get_close_matches(question.question, QUESTIONS, n=1)
        hint = f"did you mean {near[0]!r}? Ask for " if near else "ask for "
        raise QueryError(f"no question is called {question.question!r}", hint + ", ".join(QUESTIONS))
    fits = _FITS.get(about.kind, ())
    if question.question not in fits:
        able = [kind for kind, questions in _FITS.items() if question.question in questions]
        raise QueryError(
            f"{about.name} is of kind {about.kind}, which cannot be asked for {question.question}",
            f"ask it for {', '.join(fits)}, or add a [[sketch]] of kind {' or '.join(able)}",
        )
    limits = {"point": (1, 10_000), "quantile": (1, 1), "between": (2, 2), "join": (1, 2)}
    least, most = limits.get(question.question, (0, 0))
    if not least <= len(question.arguments) <= most:
        raise QueryError(f"{question.question} with {len(question.arguments)} arguments", QUESTIONS[question.question])


def _merged(reading: Reading) -> Sketch:
    parts = list(reading.sketches.values())
    return parts[0] if len(parts) == 1 else type(parts[0]).merge(parts)


def _join(folder: PipelineFolder, question: Question) -> Answer:
    """Of two sites with one sketch, or of two sketches over all sites."""
    if len(question.arguments) == 2:
        reading = folder.read(question.name, sites=question.arguments, now=question.now)
        one, other = (reading.sketches[site] for site in question.arguments)
        sites, behind = tuple(dict.fromkeys(question.arguments)), reading.behind
    else:
        (second,) = question.arguments
        _check(folder.sketch(second), replace(question, name=second))
        reading = folder.read(question.name, sites=question.sites, now=question.now)
        there = folder.read(second, sites=question.sites, now=reading.now)
        one, other = _merged(reading), _merged(there)
        sites = tuple(sorted({*reading.sketches, *there.sketches}))
        behind = tuple(sorted({*reading.behind, *there.behind}))
    joined: Any = one
    answer: Answer = joined.inner_product(other, last=question.last, now=reading.now)
    return replace(answer, sites=sites, missing=behind)


def _signed(found: Any, sites: tuple[str, ...], missing: tuple[str, ...]) -> Any:
    """The answer with the names of the sites."""
    if isinstance(found, Ranking):
        return replace(found, answers=replace(found.answers, sites=sites, missing=missing))
    return replace(found, sites=sites, missing=missing)


def _asker(about: SketchAbout, question: Question, now: int) -> Callable[[Any], Any]:
    """What to ask of a sketch."""
    span = {"last": question.last, "now": now}
    match question.question:
        case "point":
            return lambda sketch: sketch.estimate(_keys(about, sketch, question.arguments), **span)
        case "top":
            return lambda sketch: sketch.top(question.k, **span)
        case "heavy":
            return lambda sketch: sketch.heavy_hitters(phi=question.phi, **span)
        case "distinct":
            return lambda sketch: sketch.estimate(**span)
        case "quantile":
            share = _number(question.arguments[0])
            return lambda sketch: sketch.quantile(share, **span)
        case "between":
            return lambda sketch: sketch.count_between(*_keys(about, sketch, question.arguments), **span)
        case "self-join":
            return lambda sketch: sketch.self_join(**span)
    return lambda sketch: sketch.total(**span)


def _keys(about: SketchAbout, sketch: Any, texts: Sequence[str]) -> list[Any]:
    """Keys as the column has them."""
    if getattr(sketch, "order", None) == "float":
        return [_number(text) for text in texts]
    if not about.integers:
        return list(texts)
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise QueryError(f"the keys of {about.name} are integers, and not {texts[0]!r}", "give integers") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QueryError(f"{text!r} is no number", "write for instance 0.5") from None
