"""check_sketch: what every sketch must do, checked on any class that is built like ours.

    from catchment.testing import check_sketch
    check_sketch(MySketch)

Each check is a function below; `CHECKS` lists them, so a test can also run them one by one. A check builds its
sketches with the class's defaults, or from `sizes` for one that is to be small, feeds it seeded streams through the
arrays that `inputs` names, and asks each question of `measures`, whose truth `Exact` knows by the name given there.
"""

from __future__ import annotations

import inspect
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catchment.answer import Answer
from catchment.errors import BytesError, MergeError
from catchment.sketch.base import KEYED_TRUTHS, Sketch
from catchment.testing.exact import Exact
from catchment.testing.streams import STREAMS, Events
from catchment.window.base import WindowSketch

__all__ = ["CHECKS", "build", "check_sketch", "failures_of", "feed", "truth_of"]

_EVENTS = 1500
_DELTA = 1e-6


def check_sketch(kind: type[Sketch], **sizes: Any) -> None:
    """Run every check; the first that fails raises `AssertionError`."""
    assert "family" in vars(kind), f"{kind.__name__} has no family of its own: give it a free number from 192 to 255"
    for check in CHECKS:
        check(kind, **sizes)


# -- the parts that checks share ------------------------------------------------------------------------------


def build(kind: type[Sketch], sizes: dict[str, Any]) -> Sketch:
    """An empty sketch: from sizes if there are any, with the defaults otherwise.

    Where it has a delta that the sizes do not fix, that is made so small that a bound which fails is a broken one.
    """
    parameters = sizes or kind(**kind.example).parameters
    doubt = {"delta": _DELTA} if "delta" in kind._layout and "delta" not in sizes else {}
    return kind.sized(**parameters | doubt)


def feed(sketch: Sketch, events: Events, *, weighted: bool = False) -> Sketch:
    """Update with the arrays that the sketch needs; weighted only where its update takes weights."""
    arrays: dict[str, Any] = {name: getattr(events, name) for name in sketch.inputs}
    if weighted and _takes_weights(sketch):
        arrays["weights"] = events.weights
    sketch.update(*([arrays.pop("keys")] if "keys" in arrays else []), **arrays)
    return sketch


def _takes_weights(sketch: Sketch) -> bool:
    return "weights" in inspect.signature(sketch.update).parameters


def truth_of(sketch: Sketch, events: Events, *, weighted: bool = False) -> Exact:
    """The exact answer to what `feed` gave the sketch."""
    truth = Exact()
    if isinstance(sketch, WindowSketch) and len(events):
        events = events.part(events.at > events.at.max() - sketch.window)
    truth.update(
        events.keys.tolist(),
        weights=events.weights.tolist() if weighted and _takes_weights(sketch) else None,
        values=events.values if "values" in sketch.inputs else None,
        attributes=events.attributes.tolist() if "attributes" in sketch.inputs else None,
    )
    return truth


def failures_of(sketch: Sketch, truth: Exact) -> dict[str, tuple[int, int]]:
    """For each question, how many of its answers do not hold the truth, and how many were asked."""
    outcome = {}
    for question, measure in sketch.measures.items():
        if measure in KEYED_TRUTHS:
            keys = truth.keys()
            answer: Answer = getattr(sketch, question)(keys)
            holds = answer.holds(np.array([getattr(truth, measure)(key) for key in keys]))
            outcome[question] = (int(np.sum(~holds)), len(keys))
        else:
            answer = getattr(sketch, question)()
            outcome[question] = (int(not answer.holds(getattr(truth, measure)())), 1)
    return outcome


def _answers(sketch: Sketch) -> list[Answer]:
    """The answer to every question, on a few keys where it is about keys."""
    return [
        getattr(sketch, question)(*([0, 1, 2],) if measure in KEYED_TRUTHS else ())
        for question, measure in sketch.measures.items()
    ]


def _within_bounds(sketch: Sketch, truth: Exact) -> None:
    for question, (failed, asked) in failures_of(sketch, truth).items():
        assert failed == 0, f"{question}: {failed} of {asked} answers miss the truth"


def _parts(kind: type[Sketch], sizes: dict[str, Any], stream: str) -> tuple[Events, list[Sketch]]:
    events = STREAMS[stream](_EVENTS, seed=11)
    return events, [feed(build(kind, sizes), part) for part in events.at_sites()]


def _same(one: Sketch, other: Sketch, truth: Exact) -> None:
    """Equal bytes for a linear sketch, the same guarantee for the rest."""
    if one.linear:
        assert one.to_bytes() == other.to_bytes(), "the bytes differ"
    _within_bounds(one, truth)
    _within_bounds(other, truth)


# -- the checks -----------------------------------------------------------------------------------------------


def check_merge_is_commutative(kind: type[Sketch], **sizes: Any) -> None:
    for stream in ("zipf-1.1", "uniform"):
        _, parts = _parts(kind, sizes, stream)
        assert kind.merge(parts).to_bytes() == kind.merge(parts[::-1]).to_bytes()


def check_merge_is_associative(kind: type[Sketch], **sizes: Any) -> None:
    for stream in ("zipf-1.1", "drifting"):
        events, (a, b, c, *rest) = _parts(kind, sizes, stream)
        left = kind.merge([kind.merge([kind.merge([a, b]), c]), *rest])
        right = kind.merge([a, kind.merge([b, kind.merge([c, *rest])])])
        _same(left, right, truth_of(a, events))


def check_empty_is_neutral(kind: type[Sketch], **sizes: Any) -> None:
    part = feed(build(kind, sizes), STREAMS["bursts"](_EVENTS, seed=3))
    empty = build(kind, sizes)
    assert kind.merge([part, empty]) == part
    assert kind.merge([empty, part]) == part
    assert kind.merge([empty, empty]) == empty
    assert kind.merge([part]) == part


def check_parts_merged_are_the_whole(kind: type[Sketch], **sizes: Any) -> None:
    for stream in STREAMS:
        events, parts = _parts(kind, sizes, stream)
        _same(kind.merge(parts), feed(build(kind, sizes), events), truth_of(parts[0], events))


def check_merging_leaves_the_parts_alone(kind: type[Sketch], **sizes: Any) -> None:
    _, parts = _parts(kind, sizes, "zipf-1.5")
    before = [part.to_bytes() for part in parts]
    merged = kind.merge(parts)
    feed(merged, STREAMS["uniform"](100, seed=5))
    assert [part.to_bytes() for part in parts] == before


def check_batch_equals_one_by_one(kind: type[Sketch], **sizes: Any) -> None:
    for stream in ("zipf-1.1", "uniform"):
        events = STREAMS[stream](300, seed=7, universe=200)
        for weighted in (False, True):
            whole = feed(build(kind, sizes), events, weighted=weighted)
            singly, unevenly = build(kind, sizes), build(kind, sizes)
            for at in range(len(events)):
                feed(singly, events.part(slice(at, at + 1)), weighted=weighted)
            for start, stop in ((0, 1), (1, 90), (90, 90), (90, 300)):
                feed(unevenly, events.part(slice(start, stop)), weighted=weighted)
            assert singly.to_bytes() == whole.to_bytes()
            assert unevenly.to_bytes() == whole.to_bytes()


def check_bytes_round_trip(kind: type[Sketch], **sizes: Any) -> None:
    for events in (0, 1, _EVENTS):
        sketch = feed(build(kind, sizes), STREAMS["zipf-1.1"](events, seed=2), weighted=True)
        blob = sketch.to_bytes()
        back = kind.from_bytes(blob)
        assert back.to_bytes() == blob
        assert back.parameters == sketch.parameters
        assert _answers(back) == _answers(sketch), "it answers differently after a round trip"
        assert type(Sketch.from_bytes(memoryview(blob))) is kind
        more = STREAMS["drifting"](_EVENTS, seed=9)
        assert feed(back, more).to_bytes() == feed(sketch, more).to_bytes(), "it goes on differently after a round trip"


def check_damage_is_refused(kind: type[Sketch], **sizes: Any) -> None:
    blob = feed(build(kind, sizes), STREAMS["zipf-1.1"](50, seed=4)).to_bytes()
    for damaged in (
        b"",
        blob[:10],
        blob[:-1],
        blob + b"\0",
        b"JUNK" + blob[4:],
        blob[:-5] + bytes([blob[-5] ^ 1]) + blob[-4:],
    ):
        try:
            kind.from_bytes(damaged)
        except BytesError:
            continue
        raise AssertionError("damaged bytes were taken")


def check_misfits_are_refused(kind: type[Sketch], **sizes: Any) -> None:
    sketch = build(kind, sizes)
    for name in sketch.parameters:
        for other in _others(kind, sketch.parameters, name):
            _refused(kind, [sketch, other])
    _refused(kind, [])
    stranger = next(other for other in Sketch._families.values() if other is not kind)
    _refused(kind, [sketch, stranger(**stranger.example)])


def _others(kind: type[Sketch], parameters: dict[str, Any], name: str) -> Sequence[Sketch]:
    """Sketches that differ in that one parameter, where it can take another value."""
    value, found = parameters[name], []
    for candidate in _candidates(value, kind._layout[name]):
        if candidate != value and (isinstance(value, float) or not isinstance(candidate, float)):
            try:
                found.append(kind.sized(**parameters | {name: candidate}))
            except ValueError:
                continue
    assert found, f"no other value of {name} could be built"
    return found


def _candidates(value: Any, layout: str | tuple[str, ...]) -> Sequence[Any]:
    if isinstance(value, Sketch):  # one of the same kind that differs in a parameter, for each of these
        return [other for name in value.parameters for other in _others(type(value), value.parameters, name)]
    if isinstance(layout, tuple):
        return layout
    return (not value,) if isinstance(value, bool) else (value + 1, value - 1, value / 2)


def _refused(kind: type[Sketch], sketches: list[Sketch]) -> None:
    before = [sketch.to_bytes() for sketch in sketches]
    try:
        kind.merge(sketches)
    except MergeError:
        assert [sketch.to_bytes() for sketch in sketches] == before
        return
    raise AssertionError(f"merged although they do not fit: {sketches}")


def check_memory_is_as_stated(kind: type[Sketch], **sizes: Any) -> None:
    events = STREAMS["zipf-1.1"](_EVENTS, seed=1)
    feed(build(kind, sizes), events)  # compile first: the compiler's memory is not ours
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sketch = build(kind, sizes)
        empty = sketch.nbytes, tracemalloc.get_traced_memory()[0] - before
        feed(sketch, events)
        full = sketch.nbytes, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # Beyond the arrays, only Python objects: for each sketch in it, its attributes and the headers of its arrays.
    for stated, taken in (empty, full):
        assert stated <= taken <= stated + 4096 + 2048 * _nested(sketch), f"nbytes says {stated}, {taken} were taken"


def _nested(sketch: Sketch) -> int:
    """How many sketches it holds in lists, and they in theirs."""
    parts = [part for value in vars(sketch).values() if isinstance(value, list) for part in value]
    sketches = (getattr(part, "sketch", part) for part in parts)
    return len(parts) + sum(_nested(part) for part in sketches if isinstance(part, Sketch))


def check_a_copy_is_independent(kind: type[Sketch], **sizes: Any) -> None:
    sketch = feed(build(kind, sizes), STREAMS["zipf-1.1"](1, seed=6))
    before, twin = sketch.to_bytes(), sketch.copy()
    assert twin == sketch
    feed(twin, STREAMS["uniform"](_EVENTS, seed=8))
    assert sketch.to_bytes() == before
    assert twin != sketch


def check_parameters_build_a_twin(kind: type[Sketch], **sizes: Any) -> None:
    sketch = build(kind, sizes)
    twin = kind.sized(**sketch.parameters)
    assert twin == sketch
    names = {other.__name__: other for other in Sketch._families.values()}  # a sketch may be made of others
    assert eval(repr(sketch), names | {kind.__name__: kind}) == sketch
    assert sketch.guarantee
    assert sketch.epsilon > 0


def check_answers_are_whole(kind: type[Sketch], **sizes: Any) -> None:
    """The value within its bounds, on empty and on fed sketches, one key or many."""
    for count in (0, 1, 2, 3, 10, _EVENTS):
        events = STREAMS["zipf-1.1"](count, seed=12)
        sketch = feed(build(kind, sizes), events)
        for question, measure in sketch.measures.items():
            if measure not in KEYED_TRUTHS:
                answer = getattr(sketch, question)()
                assert answer.low <= answer.value <= answer.high, f"{question}: {answer}"
                continue
            keys = truth_of(sketch, events).keys()
            many = getattr(sketch, question)(keys)
            assert np.all((many.low <= many.value) & (many.value <= many.high))
            assert len(many) == len(keys)
            for place, key in enumerate(keys[:5]):
                assert getattr(sketch, question)(key) == many[place], "one key and many disagree"


CHECKS: tuple[Callable[..., None], ...] = (
    check_parameters_build_a_twin,
    check_answers_are_whole,
    check_merge_is_commutative,
    check_merge_is_associative,
    check_empty_is_neutral,
    check_parts_merged_are_the_whole,
    check_merging_leaves_the_parts_alone,
    check_batch_equals_one_by_one,
    check_bytes_round_trip,
    check_damage_is_refused,
    check_misfits_are_refused,
    check_memory_is_as_stated,
    check_a_copy_is_independent,
)
"""Every check, in the order in which they run."""
