"""Long streams for monitors: the keys and the sites of real logs, drawn again as often as needed; seeded without them.

The logs are looked for in `../shared/data` of the checkout, or in the folder that CATCHMENT_DATA names. What is drawn
has the keys' frequencies of the log and the share of each server, and not its order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.traces import flow_like, load, web_like

I64 = NDArray[np.int64]

WEB, FLOW = "wc98", "netflow"
_FILES = {WEB: "wc98/wc_day6_1_sample_sorted.csv.gz", FLOW: "netflow/ctu13_s6_capture20110816.binetflow.csv.gz"}
_SERVERS = "wc98/wc_day50_4.head"


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A stream: the key and the site of each event."""

    keys: I64
    places: I64
    note: str


def draw(which: str, events: int, sites: int, *, seed: int = 1) -> Drawn:
    """So many events of a log's kind at so many sites."""
    rng = np.random.default_rng([seed, events, sites])
    keys, note = _keys(which)
    return Drawn(rng.choice(keys, events), rng.choice(sites, events, p=_shares(which, sites)), note)


def _folder() -> Path:
    return Path(os.environ.get("CATCHMENT_DATA", Path(__file__).parents[2] / "shared" / "data"))


@cache
def _keys(which: str) -> tuple[I64, str]:
    file = _folder() / _FILES[which]
    if file.is_file():
        return load(file).keys, f"{which}: keys drawn from {file.name}, without their order."
    return (web_like if which == WEB else flow_like)(500_000).keys, f"{which}: keys drawn from a seeded stream."


def _shares(which: str, sites: int) -> NDArray[np.float64]:
    """The share of each site: those of the log's servers, dealt out; equal ones where the log has none."""
    file = _folder() / _SERVERS
    if which != WEB or not file.is_file():
        return np.full(sites, 1 / sites)
    servers = load(file).servers
    assert servers is not None
    counts = np.sort(np.unique(servers, return_counts=True)[1])[::-1]
    shares = np.bincount(np.arange(counts.size) % sites, counts, minlength=sites).astype(np.float64)
    if counts.size < sites:  # as if each server were several
        shares = counts[np.arange(sites) % counts.size].astype(np.float64)
    share: NDArray[np.float64] = shares / shares.sum()
    return share
