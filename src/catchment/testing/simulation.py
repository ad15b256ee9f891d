"""Many runs of a simulated world, one for each seed, over processes; and one of them again."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from time import perf_counter

from catchment.errors import ParameterError, SimulationError
from catchment.testing.faults import STRIKES
from catchment.testing.network import Network

__all__ = ["BuildWorld", "Outcome", "replay", "simulate"]

BuildWorld = Callable[[int], Network]
"""A world for a seed; to run in other processes it must be a function of a module, or a `functools.partial` of one."""

_SEEDS_IN_A_CHUNK = 10


@dataclass(slots=True)
class Outcome:
    """What became of many seeds: counts, and the runs that failed.

    `struck` counts faults by the names in `STRIKES`: those that are zero were not tried. `trace_hash` is one hash over
    the traces of all seeds in their order; the same worlds give the same one, over however many processes.
    """

    seeds: int = 0
    steps: int = 0
    messages: int = 0
    claims: int = 0
    struck: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(STRIKES, 0)))
    failures: list[SimulationError] = field(default_factory=list)
    trace_hash: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """No run failed, and something was claimed."""
        return not self.failures and self.claims > 0

    @property
    def never_struck(self) -> list[str]:
        """The faults that no run has met."""
        return [name for name in STRIKES if not self.struck[name]]

    def raise_failure(self) -> None:
        """Raise the first failure, if there is one."""
        if self.failures:
            raise self.failures[0]

    def __str__(self) -> str:
        struck = ", ".join(f"{name} {self.struck[name]:,}" for name in STRIKES)
        lines = [
            f"{self.seeds:,} seeds, {self.steps:,} steps, {self.messages:,} messages, {self.claims:,} claims checked, "
            f"{len(self.failures)} failures, {self.seconds:.1f} s",
            f"struck: {struck}",
            *([f"never struck: {', '.join(self.never_struck)}"] if self.never_struck else []),
            *map(str, self.failures[:1]),
        ]
        return "\n".join(lines)

    def _add_run(self, network: Network) -> None:
        self.seeds += 1
        self.steps += network.steps
        self.messages += network.delivered
        self.claims += network.claims
        self.struck.update(network.struck)

    def _add(self, other: Outcome, hashes: list[str]) -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.messages += other.messages
        self.claims += other.claims
        self.struck.update(other.struck)
        self.failures += other.failures
        for one in hashes:
            self.trace_hash = hashlib.sha256((self.trace_hash + one).encode()).hexdigest()


def simulate(
    build_world: BuildWorld,
    seeds: range,
    *,
    jobs: int = 2,
    stop_at_first: bool = True,
    progress: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Play the world of every seed and count what happened.

    `build_world` makes a network for a seed, and what `Network.play` does with it is the run. `seeds` are played in
    their order over `jobs` processes (1: here), and it is this order that decides which failure is the first. With
    `stop_at_first` the seeds after it are left out; otherwise all failures are collected. `progress` is called with
    what there is so far, now and then.

        outcome = simulate(build_world, range(1000))
        assert outcome.holds, outcome
        assert not outcome.never_struck
    """
    if jobs < 1:
        raise ParameterError(f"jobs={jobs}", "give 1 or more")
    started = perf_counter()
    whole = Outcome()
    chunks = [seeds[at : at + _SEEDS_IN_A_CHUNK] for at in range(0, len(seeds), _SEEDS_IN_A_CHUNK)]
    for part, hashes in _in_order(build_world, chunks, jobs, stop_at_first):
        whole._add(part, hashes)
        whole.seconds = perf_counter() - started
        if progress is not None:
            progress(whole)
        if whole.failures and stop_at_first:
            break
    return whole


def replay(build_world: BuildWorld, seed: int, *, steps: int | None = None) -> Network:
    """Play one seed again with the whole trace kept; a run that failed fails in the same step with the same words.

    With `steps=error.step - 1` it stops before the step that failed, and the network can be looked at.
    """
    network = build_world(seed)
    network.keep_trace()
    network.play(steps=steps)
    return network


_Part = tuple[Outcome, list[str]]


def _in_order(build_world: BuildWorld, chunks: list[range], jobs: int, stop_at_first: bool) -> Iterator[_Part]:
    if jobs == 1:
        for chunk in chunks:
            yield _play_all(build_world, chunk, stop_at_first)
        return
    # Spawned, not forked: a fork of a process with threads, such as numba's or Spark's, may hang.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    waiting: deque[Future[_Part]] = deque()
    left = iter(chunks)
    try:
        # A few ahead and no more, so that little is thrown away after a failure.
        for chunk in islice(left, 2 * jobs):
            waiting.append(pool.submit(_play_all, build_world, chunk, stop_at_first))
        while waiting:
            yield waiting.popleft().result()
            for chunk in islice(left, 1):
                waiting.append(pool.submit(_play_all, build_world, chunk, stop_at_first))
    finally:
        pool.shutdown(cancel_futures=True)


def _play_all(build_world: BuildWorld, seeds: range, stop_at_first: bool) -> _Part:
    outcome = Outcome()
    hashes = []
    for seed in seeds:
        network = build_world(seed)
        try:
            network.play()
        except SimulationError as failure:
            outcome.failures.append(failure)
        outcome._add_run(network)
        hashes.append(network.trace_hash)
        if outcome.failures and stop_at_first:
            break
    return outcome, hashes
