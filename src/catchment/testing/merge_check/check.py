"""merge_check: drive a sketch through trees of sites, and count how often the truth leaves what it claims."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from catchment.errors import MergeError, NameNotFoundError, ParameterError
from catchment.testing.exact import Exact
from catchment.testing.merge_check.adapter import Claims, WindowCounterAdapter
from catchment.testing.merge_check.outcome import Outcome, Violation
from catchment.testing.merge_check.scenarios import SCENARIOS, Scenario, Scene, Stream
from catchment.testing.merge_check.trees import TREES

__all__ = ["check_cell", "merge_check"]

_MOST_SITES = 4096


class Question(NamedTuple):
    """The events after `now - last`, up to and including `now`."""

    last: int
    now: int


def merge_check(
    adapter: WindowCounterAdapter,
    *,
    sites: Sequence[int] = (1, 2, 4, 16),
    scenarios: Sequence[str] | None = None,
    trials: int = 10,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> list[Outcome]:
    """One outcome for each scenario that the sketch claims to stand and each number of sites.

    Every adapter is given the same streams by the same seed.

    >>> from catchment.testing.merge_check import load_adapter
    >>> outcome, = merge_check(load_adapter("wave"), sites=[4], scenarios=["bursty"], trials=5)
    >>> outcome.trials, outcome.violations, outcome.holds
    (5, 0, True)
    """
    if trials < 1:
        raise ParameterError(f"trials={trials}", "ask for 1 and more")
    if not sites or not all(1 <= count <= _MOST_SITES for count in sites):
        raise ParameterError(f"sites={list(sites)}", f"give numbers from 1 to {_MOST_SITES}")
    names = list(SCENARIOS) if scenarios is None else scenarios
    for name in names:
        if name not in SCENARIOS:
            raise NameNotFoundError(f"no scenario is called {name!r}", f"there are {', '.join(SCENARIOS)}")
    chosen = [SCENARIOS[name] for name in names if SCENARIOS[name].applies(adapter.claims)]
    cells = [(count, scenario) for count in sites for scenario in chosen]
    found = []
    for place, (count, scenario) in enumerate(cells):
        progress(place / len(cells))
        found.append(check_cell(adapter, scenario, count, trials=trials, seed=seed))
    return found


def check_cell(adapter: WindowCounterAdapter, scenario: Scenario, sites: int, *, trials: int, seed: int) -> Outcome:
    """So many trials of one scenario with so many sites; the trees take turns."""
    outcome = Outcome(adapter.name, scenario.name, sites, adapter.claims.delta)
    for trial in range(trials):
        rng = np.random.default_rng([seed, zlib.crc32(scenario.name.encode()), sites, trial])
        scene = scenario.make(rng, sites, adapter.claims)
        tree = list(TREES)[(trial + sites + len(scenario.name)) % len(TREES)]  # a few trials meet all of them too
        outcome.trials += 1
        try:
            state = _merged(adapter, scene, tree, rng)
        except MergeError:
            outcome.refused += 1
            continue
        about = {"scenario": scenario.name, "sites": sites, "seed": seed, "trial": trial, "tree": tree}
        _ask(adapter, state, scene.events(), rng, outcome, about)
    return outcome


def _merged(adapter: WindowCounterAdapter, scene: Scene, tree: str, rng: np.random.Generator) -> Any:
    """The state of all sites, merged through the tree, and of what came after."""
    seed = int(rng.integers(2**63))
    states = [_fed(adapter, adapter.new(seed), stream, rng) for stream in scene.sites]
    return _fed(adapter, TREES[tree](states, adapter.merge, rng), scene.after, rng)


def _fed(adapter: WindowCounterAdapter, state: Any, stream: Stream, rng: np.random.Generator) -> Any:
    """In a few batches, as streams come."""
    cuts = np.sort(rng.integers(0, len(stream) + 1, int(rng.integers(3))))
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if stop > start:
            adapter.update(state, stream.keys[start:stop], stream.times[start:stop])
    return state


def _ask(
    adapter: WindowCounterAdapter,
    state: Any,
    events: Stream,
    rng: np.random.Generator,
    outcome: Outcome,
    about: dict[str, Any],
) -> None:
    claims = adapter.claims
    keys = _keys_to_ask(events, claims, rng)
    for place, question in enumerate(_questions(events, claims, rng)):
        truths = [_truth(events, question)]
        if claims.either_edge:
            truths.append(_truth(events, Question(question.last + 1, question.now)))
        for key in keys:
            value, low, high = answer = adapter.estimate(state, key, *question)
            counts = [truth.total() if key is None else truth.frequency(key) for truth in truths]
            truth = min(counts, key=lambda count: abs(value - count))
            outcome.questions += 1
            if place == 0:
                outcome.measure(truth, truths[0].total(), answer)
            if not any(low <= count <= high for count in counts):
                outcome.violations += 1
                delta = claims.total_delta if key is None else claims.delta
                outcome.surely += not delta or (claims.high_always and all(count > high for count in counts))
                outcome.first = outcome.first or Violation(
                    **about, key=key, last=question.last, now=question.now, truth=truth, value=value, low=low, high=high
                )


def _keys_to_ask(events: Stream, claims: Claims, rng: np.random.Generator) -> list[int | None]:
    """The heaviest key, any two events' keys, one that never came, and all of them together."""
    keys: list[int | None] = [None] if claims.totals else []
    if claims.keys:
        heaviest = int(np.bincount(events.keys).argmax())
        keys += [*dict.fromkeys([heaviest, *rng.choice(events.keys, 2).tolist()]), 10**6]
    return keys


def _questions(events: Stream, claims: Claims, rng: np.random.Generator) -> list[Question]:
    """What the claims allow: the plainest first, then parts of the window, and ends before and after the newest."""
    window, newest = claims.window, int(events.times.max())
    found = [Question(window, newest), Question(window, newest + window // 3), Question(window, newest + 2 * window)]
    if claims.ranges:
        lengths = (window // 2, window // 10, 1, int(rng.integers(1, window + 1)))
        found += [Question(max(1, last), newest) for last in lengths]
    if claims.past and claims.ranges and window > 1:
        back = int(rng.integers(1, window))
        shorter = int(rng.integers(1, window - back + 1))
        found += [Question(window - back, newest - back), Question(shorter, newest - back)]
    return found


def _truth(events: Stream, question: Question) -> Exact:
    """The slow and obvious way."""
    truth = Exact()
    truth.update(
        key
        for key, time in zip(events.keys.tolist(), events.times.tolist(), strict=True)
        if question.now - question.last < time <= question.now
    )
    return truth
