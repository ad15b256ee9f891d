"""`catchment coordinator`, `catchment site` and what belongs to them: monitors over real networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["certificates", "claims", "coordinator", "site"]

# gRPC and the protocols take as long to import as the rest together: the commands import them when they run.

HEARTBEAT = 5.0
"""Seconds after which a site reports, unless it is told otherwise."""

File = Annotated[Path, typer.Argument(help="Its file of settings, TOML.")]


def coordinator(
    file: File,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks at the claims.")] = 1.0,
) -> None:
    """Add up what the sites see, and say what is true of it; it goes to the terminal and to claims.json."""
    from catchment.app.jobs.monitor import start_coordinator

    raise typer.Exit(start_coordinator(file, every=every, heartbeat=HEARTBEAT))


def site(
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="Leave when the source has ended and all of it is safe.")
    ] = False,
    heartbeat: Annotated[float, typer.Option(min=0.1, help="Seconds after which it reports in any case.")] = HEARTBEAT,
    keep: Annotated[int, typer.Option(min=1, help="Make the state durable after so many events.")] = 1_000_000,
    keep_every: Annotated[float, typer.Option(min=0.1, help="And after so many seconds, if there were any.")] = 30.0,
) -> None:
    """Read events, keep the sketches, and tell the coordinator what it must know."""
    from catchment.app.jobs.monitor import start_site

    raise typer.Exit(start_site(file, once=once, heartbeat=heartbeat, keep=keep, keep_every=keep_every))


def claims(
    file: Annotated[Path, typer.Argument(help="The coordinator's file of settings.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a running coordinator claims, with bounds, sites and the cut that it is about."""
    from catchment.app.jobs.claims import OLD, claim_line, read_claims

    text, age = read_claims(file)
    if age > OLD:
        typer.echo(f"the coordinator has not been seen for {age:,.0f} seconds: what it said last", err=True)
    if as_json:
        print(text)
        return
    for name, claim in json.loads(text).items():
        print(claim_line(name, claim))


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where they go.")],
    sites: Annotated[list[str], typer.Option("--site", help="A site's name; repeat it.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", help="A name or address of the coordinator; repeat it. This machine alone if left out."),
    ] = None,
    days: Annotated[int, typer.Option(help="How long they are good.")] = 365,
) -> None:
    """Make an authority and certificates for the coordinator and the sites; those that are there stay."""
    from catchment.net.certificates import make_certificates

    made = make_certificates(folder, hosts, sites, days=days)
    for name, files in made.items():
        print(f"{name}: {files.certificate}, {files.key}")
