from __future__ import annotations

import numpy as np
import pytest

from catchment.testing import STREAMS, Exact
from catchment.testing.streams import bursts, drifting, zipf


@pytest.mark.parametrize("name", STREAMS)
def test_a_seed_gives_one_stream_and_another_gives_another(name: str) -> None:
    one, again, other = (STREAMS[name](500, seed=seed) for seed in (3, 3, 4))
    assert one.keys.tolist() == again.keys.tolist()
    assert one.sites.tolist() == again.sites.tolist()
    assert one.keys.tolist() != other.keys.tolist()
    assert len(one) == 500


@pytest.mark.parametrize("name", STREAMS)
def test_sites_split_the_stream_without_loss(name: str) -> None:
    events = STREAMS[name](500, seed=3, sites=4)
    parts = events.at_sites()
    assert len(parts) <= 4
    assert sorted(np.concatenate([part.keys for part in parts]).tolist()) == sorted(events.keys.tolist())
    assert all(np.all(part.weights > 0) for part in parts)


@pytest.mark.parametrize("skew", [0.5, 1.1, 3.0])
def test_zipf_has_its_skew(skew: float) -> None:
    counts = np.bincount(zipf(200_000, seed=1, skew=skew, universe=100).keys, minlength=100)
    assert counts[0] / counts[3] == pytest.approx(4**skew, rel=0.15)


def test_bursts_come_in_runs_at_one_site() -> None:
    events = bursts(5000, seed=1)
    same = events.keys[1:] == events.keys[:-1]
    assert same.mean() > 0.5
    assert (events.sites[1:] == events.sites[:-1])[same].mean() > 0.99


def test_drift_changes_the_heaviest_key() -> None:
    keys = drifting(10_000, seed=1, phases=5).keys
    heaviest = {int(np.bincount(part).argmax()) for part in np.array_split(keys, 5)}
    assert len(heaviest) >= 4


def test_exact_is_exact() -> None:
    truth = Exact()
    truth.update([1, 2, 1], weights=[2, 3, 5], values=[10, 20, 30], attributes=["x", "y", "x"])
    assert (truth.frequency(1), truth.total(), truth.self_join()) == (7, 10, 58)
    assert truth.mean_value(1) == (2 * 10 + 5 * 30) / 7
    assert (truth.distinct(), truth.distinct_self_join()) == (2, 2)
    assert truth.top(1) == [(1, 7)]
    assert truth.heavy_hitters(3) == {1, 2}
    other = Exact()
    other.update([1, 1, 9])
    assert truth.inner_product(other) == 14
