"""`catchment simulate`: monitors on the deterministic network, seed by seed, every claim held to the truth."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from catchment.errors import SimulationError

__all__ = ["simulate"]


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many worlds.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    again: Annotated[int | None, typer.Option(help="Play this one seed, and print its last lines.")] = None,
) -> None:
    """Play worlds of monitors with loss, crashes, partitions, skew; fail if a claim is false or does not come back."""
    from catchment.testing.simulation import Outcome, replay
    from catchment.testing.simulation import simulate as play_seeds
    from catchment.testing.worlds import build_world

    if again is not None:
        try:
            network = replay(build_world, again)
        except SimulationError as failure:
            print(failure)
            raise typer.Exit(1) from None
        print("\n".join(network.trace(40)))
        print(f"seed {again}: {network.claims} claims held, trace {network.trace_hash}")
        return

    def tell(outcome: Outcome) -> None:
        print(f"{outcome.seeds:,} seeds, {outcome.claims:,} claims, {len(outcome.failures)} failures", file=sys.stderr)

    outcome = play_seeds(build_world, range(first, first + seeds), jobs=jobs, progress=tell)
    print(outcome)
    if not outcome.holds:
        raise typer.Exit(1)
