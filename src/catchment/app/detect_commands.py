"""`catchment detect`: heavy destinations over many sites in a sliding window, out of recorded flows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from catchment.answer import plain
from catchment.app.terminal import progress_bar

__all__ = ["detect"]


def detect(
    file: Annotated[Path, typer.Argument(help="NetFlow as CSV in the columns of CTU-13, plain or gzipped.")],
    phi: Annotated[float, typer.Option(help="A target is heavy from this share of all flows on.")] = 0.1,
    window: Annotated[int, typer.Option(min=1, help="Seconds of the sliding window, which moves by panes.")] = 300,
    panes: Annotated[int, typer.Option(min=1, help="Into how many steps the window is cut.")] = 30,
    sites: Annotated[int, typer.Option(min=1, help="How many sites the flows are dealt out to at random.")] = 20,
    site: Annotated[str | None, typer.Option(help="The column that names a flow's site, in place of chance.")] = None,
    key: Annotated[str, typer.Option(help="The column that names the target.")] = "DstAddr",
    confidence: Annotated[float, typer.Option(help="Raise alarms from this confidence on; 0 misses none.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Other hash functions, and another deal.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find targets with a large share of all sites' flows in a sliding window: since when, through which sites.

    It replays a recording, dealt out to sites. For live traffic watch heavy_hitters: see catchment coordinator.
    """
    from catchment.app.jobs.detect import run_detect, to_json, to_report  # Arrow, and the protocols

    with progress_bar() as progress:
        found = run_detect(
            file, phi=phi, window=window, panes=panes, sites=sites, site=site, key=key, confidence=confidence,
            seed=seed, progress=progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps(plain(to_json(found, phi=phi, window=window)), indent=2, allow_nan=False))
        return
    report = to_report(found, phi=phi, window=window)
    console = Console(highlight=False, width=None if Console().is_terminal else 200)
    console.print(report.table())
    for note in report.notes:
        console.print(note)
