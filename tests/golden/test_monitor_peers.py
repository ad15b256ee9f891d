"""Durable state of the peers of a top-k is for ever: it is read, written the same again, and gone on with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from catchment.errors import BytesError
from catchment.monitor.top_k.peer import STATE
from catchment.sketch.codec import Reader
from catchment.testing.lockstep import Lockstep
from tests.golden import store
from tests.golden.peers import PEERS, events_at, feed, golden, half_way, peer_of
from tests.golden.streams import SITES
from tests.golden.truth import in_cut


@pytest.mark.parametrize("name", PEERS)
def test_the_same_events_give_the_golden_state_of_a_peer(name: str) -> None:
    assert half_way(name)["durable"] == store.read(f"peers/{name}")["durable"]


@pytest.mark.parametrize("name", PEERS)
def test_the_state_of_a_peer_is_read_and_written_the_same(name: str) -> None:
    """All but its life, which is the next one."""
    for site, blob in golden(name).items():
        peer = peer_of(name, site, blob)
        reader = Reader(memoryview(blob[:-4]))
        life, size = reader.numbers("QI")
        assert bytes(reader.raw(size)).decode().split("\n") == list(peer.members) == list(SITES)
        assert peer.counts.to_bytes() == bytes(reader.raw(reader.left))
        assert peer.incarnation == life + 1
        assert peer.position == len(events_at(name, site, range(2)))


@pytest.mark.parametrize("name", PEERS)
def test_peers_go_on_from_the_golden_state(name: str) -> None:
    peers = {site: peer_of(name, site, blob) for site, blob in golden(name).items()}
    world = Lockstep(None, peers)
    feed(world, name, 2)
    streams = {site: events_at(name, site, range(3)) for site in SITES}
    assert {blob for _, blob in world.durable} == {STATE}
    for peer in peers.values():
        found = peer.answer()
        assert found.everywhere
        assert {site: cut.position for site, cut in found.cut.items()} == {site: len(streams[site]) for site in SITES}
        counts = Counter[Any]()
        for site, cut in found.cut.items():
            for event in in_cut(streams[site], (cut.position, cut.time), peer.counts.window):
                counts[event.key] += event.weight
        top = counts.most_common(3)
        assert top[1][1] > top[2][1]  # no ties, so there is one right answer
        keys, answers = found.ranking.keys, found.ranking.answers
        assert set(keys) == {key for key, _ in top[:2]}
        assert peer.ignored == 0
        assert found.settled or not PEERS[name].exact
        for place, key in enumerate(keys):
            assert np.asarray(answers.low)[place] <= counts[key] <= np.asarray(answers.high)[place]


@pytest.mark.parametrize("name", PEERS)
def test_damage_and_other_counts_are_refused(name: str) -> None:
    blob = golden(name)["a"]
    for place in range(0, len(blob), 1 + len(blob) // 40):
        with pytest.raises(BytesError):
            peer_of(name, "a", blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :])
    for other in PEERS:
        if PEERS[other].exact != PEERS[name].exact:
            with pytest.raises(BytesError):
                peer_of(other, "a", blob)


def test_all_golden_peers_are_there() -> None:
    assert {path.stem for path in (store.FOLDER / "peers").glob("*.json")} == set(PEERS)
