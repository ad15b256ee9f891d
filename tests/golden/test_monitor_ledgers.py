"""What a coordinator keeps of each site is for ever: blob by blob it is read, and written the same again."""

from __future__ import annotations

import numpy as np
import pytest

from catchment.monitor import HeavyHitters, Items, Watch
from catchment.monitor.heavy_hitters.messages import HeavyReport
from catchment.monitor.heavy_hitters.names import Names
from catchment.monitor.items.ledger import ItemsLedger, ItemsPeer
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.peer import Ledger, Peer
from catchment.sketch.codec import open_envelope, seal_envelope
from tests.golden.states import GOES, LIFE, events_at, golden
from tests.golden.streams import SITES
from tests.golden.watches import CASES

_HEAVY = 29
"""The family of the blobs of heavy hitters."""


def _peer(watch: Watch, site: str, blobs: dict[str, bytes]) -> tuple[Ledger, Peer]:
    vector = watch.new_vector()
    ledger, peer = Ledger(watch, vector), Peer(np.zeros(vector.shape, np.int64), np.zeros(vector.shape, np.int64))
    ledger.read(site, peer, blobs)
    return ledger, peer


@pytest.mark.parametrize("name", CASES)
def test_the_whole_of_a_site_is_read_and_written_the_same(name: str) -> None:
    """By itself: with the entries that follow upon it, it would be written anew in other bytes."""
    blobs = golden(name).durable[COORDINATOR]
    for watch in CASES[name].watches:
        for site in SITES:
            if isinstance(watch, Watch):
                blob = f"{watch.number}.whole.{site}"
                ledger, peer = _peer(watch, site, {blob: blobs[blob]})
                assert ledger.whole(site, peer).blob == blobs[blob]
            elif isinstance(watch, Items):
                blob = f"{watch.number}.items.{site}"
                bands, items_peer = ItemsLedger(watch), ItemsPeer()
                bands.read(site, items_peer, {blob: blobs[blob]})
                assert bands.whole(site, items_peer).blob == blobs[blob]


@pytest.mark.parametrize("name", CASES)
def test_all_that_is_kept_of_a_site_is_read(name: str) -> None:
    blobs = golden(name).durable[COORDINATOR]
    events = {site: len(events_at(CASES[name], site, range(2))) for site in SITES}
    for watch in CASES[name].watches:
        for site in SITES:
            if isinstance(watch, Watch):
                peer: Peer | ItemsPeer = _peer(watch, site, blobs)[1]
            elif isinstance(watch, Items):
                peer = ItemsPeer()
                ItemsLedger(watch).read(site, peer, blobs)
            else:
                continue
            assert peer.stored[0] == LIFE
            assert peer.stored[1] > 0
            assert 0 < peer.cut[0] <= events[site]
            assert peer.left is (site == GOES)
            assert site != GOES or peer.cut[0] == events[site]


@pytest.mark.parametrize("name", [name for name in CASES if "heavy" in name or "shared" in name])
def test_blobs_of_heavy_hitters_are_read_and_written_the_same(name: str) -> None:
    blobs = golden(name).durable[COORDINATOR]
    for watch in CASES[name].watches:
        if not isinstance(watch, HeavyHitters):
            continue
        mark = watch.fingerprint.to_bytes(4, "little")
        for blob, kind in ((f"{watch.number}.heavy", Names), (f"{watch.number}.heavy.{GOES}", HeavyReport)):
            _, _, reader = open_envelope(blobs[blob])
            message = kind.from_bytes(reader.raw(reader.left))
            assert isinstance(message, Names) or message.leaving
            assert seal_envelope(_HEAVY, mark, message.to_bytes()) == blobs[blob]


def test_every_way_to_keep_a_site_has_a_golden_blob() -> None:
    peers: list[Peer] = []
    items: list[ItemsPeer] = []
    for name, case in CASES.items():
        blobs = golden(name).durable[COORDINATOR]
        for watch in case.watches:
            for site in SITES:
                if isinstance(watch, Watch):
                    peers.append(_peer(watch, site, blobs)[1])
                elif isinstance(watch, Items):
                    items.append(ItemsPeer())
                    ItemsLedger(watch).read(site, items[-1], blobs)
    for ways in (
        {peer.log > 0 for peer in peers}, {peer.ahead is None for peer in peers}, {peer.fell for peer in peers},
        {peer.left for peer in peers}, {peer.contribution.shape[0] > 1 for peer in peers},
        {peer.log > 0 for peer in items}, {peer.left for peer in items},
        {bool(np.any(peer.held.lows == 0)) for peer in items},
    ):  # fmt: skip
        assert ways == {True, False}
