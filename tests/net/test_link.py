"""Machines over real gRPC: counts arrive, whatever happens to connections and to the coordinator."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from catchment.errors import InsecureAddressError, ParameterError, UnreachableError
from catchment.monitor.machine import COORDINATOR, Received
from catchment.monitor.wire import LARGEST_FRAME, write_frame
from catchment.net.address import Address
from catchment.net.client import Backoff, Client, check_health, is_healthy
from catchment.net.disk import Disk
from catchment.net.link import Keepalive
from catchment.net.mailbox import Inbox, Limits, Mailbox
from catchment.net.server import Server
from catchment.sketch.keys import hash_keys
from tests.net.loop import HERE, QUICK, Numbers, client, free_port, running, until
from tests.net.toy import ToyAck, ToyCoordinator, ToyCount, ToySite, events_of


def knows(machine: ToyCoordinator, events: int) -> bool:
    return events_of(machine, "a")[0] >= events


def digest(events: int) -> int:
    return int(hash_keys(np.arange(events))[0].sum()) % 2**64


def test_three_sites_count_and_the_coordinator_knows(tmp_path: Path) -> None:
    async def play() -> None:
        machine = ToyCoordinator({})
        server = Server(HERE, ["a", "b", "c"])
        async with running(machine, server, tmp_path / "coordinator"):
            await until(lambda: server.port)
            sites = [ToySite({}) for _ in "abc"]
            async with (
                running(sites[0], client("a", server.port), tmp_path / "a", source=Numbers(1000)),
                running(sites[1], client("b", server.port), tmp_path / "b", source=Numbers(2000)),
                running(sites[2], client("c", server.port), tmp_path / "c", source=Numbers(3000)),
            ):
                await until(lambda: all(site.acked == site.seq > 0 and site.due is None for site in sites))
                assert server.connected == ["a", "b", "c"]
            for place, site in enumerate("abc"):
                assert events_of(machine, site) == (1000 * (place + 1), digest(1000 * (place + 1)))

    asyncio.run(play())


def test_a_coordinator_that_dies_and_comes_back_is_found_again(tmp_path: Path) -> None:
    async def play() -> None:
        port = free_port()
        link = client("a", port)
        async with running(ToySite({}), link, tmp_path / "a", source=Numbers(5000, batch=50, pause=0.02)):
            for known in (1000, 2500, 5000):
                with Disk(tmp_path / "coordinator") as disk:
                    machine = ToyCoordinator(disk.read())
                server = Server(Address("127.0.0.1", port), ["a"])
                async with running(machine, server, tmp_path / "coordinator"):
                    await until(partial(knows, machine, known))
            assert link.counts["connected"] == 3
            await until(lambda: link.counts["lost"] == 3)
        assert events_of(machine, "a") == (5000, digest(5000))

    asyncio.run(play())


def test_a_newer_connection_of_a_site_takes_the_place_of_the_older(tmp_path: Path) -> None:
    async def play() -> None:
        server = Server(HERE, ["a"])
        async with running(ToyCoordinator({}), server, tmp_path):
            await until(lambda: server.port)
            slow = Backoff(first=60.0, most=60.0)
            older, newer = (Client("a", Address("127.0.0.1", server.port), backoff=slow) for _ in range(2))
            await older.start()
            await until(lambda: older.connected)
            await newer.start()
            await until(lambda: newer.connected and not older.connected)
            assert server.connected == ["a"]
            assert server.counts["replaced"] == 1
            newer.send(COORDINATOR, write_frame(ToyCount(1, 1, 7, 7)))
            await until(lambda: len(newer.inbox))
            sender, frame = newer.inbox.take() or ("", b"")
            assert (sender, frame) == (COORDINATOR, write_frame(ToyAck(1, 1)))
            await older.stop(1.0)
            await newer.stop(1.0)

    asyncio.run(play())


def test_a_stop_lets_waiting_frames_leave_first(tmp_path: Path) -> None:
    async def play() -> None:
        machine = ToyCoordinator({})
        server = Server(HERE, ["a"])
        async with running(machine, server, tmp_path):
            await until(lambda: server.port)
            link = client("a", server.port, limits=Limits(frames=10_000))
            await link.start()
            await until(lambda: link.connected)
            for seq in range(200):
                link.send(COORDINATOR, write_frame(ToyCount(1, seq, seq, 0)))
            await link.stop(10.0)
            await until(lambda: events_of(machine, "a")[0] == 199)
        assert server.counts["dropped_in"] == 0
        assert len(machine.log) == 200

    asyncio.run(play())


def test_frames_up_to_the_largest_pass_and_larger_ones_never_leave() -> None:
    async def play() -> None:
        server = Server(HERE, ["a"], limits=Limits(frames=4, bytes=2 * LARGEST_FRAME))
        await server.start()
        link = client("a", server.port)
        await link.start()
        await until(lambda: link.connected)
        link.send(COORDINATOR, bytes(LARGEST_FRAME))
        await until(lambda: len(server.inbox))
        assert server.inbox.size == LARGEST_FRAME
        link.send(COORDINATOR, bytes(LARGEST_FRAME + 1))
        link.send("b", b"x")
        server.send("a", bytes(LARGEST_FRAME + 1))
        server.send("b", b"x")
        link.send(COORDINATOR, b"after it")
        await until(lambda: len(server.inbox) == 2)
        assert link.counts["connected"] == 1
        for end in (link, server):
            assert (end.counts["oversize"], end.counts["unknown_peer"]) == (1, 1)
        await link.stop(1.0)
        await server.stop(1.0)

    asyncio.run(play())


def test_a_hundred_thousand_malformed_frames_stop_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def play() -> None:
        machine = ToyCoordinator({})
        server = Server(HERE, ["a", "good"], limits=Limits(frames=200_000))
        async with running(machine, server, tmp_path / "coordinator") as driver:
            await until(lambda: server.port)
            bad = client("a", server.port, limits=Limits(frames=200_000))
            await bad.start()
            await until(lambda: bad.connected)
            random = np.random.default_rng(5)
            noise = random.integers(0, 256, size=1_000_000, dtype=np.uint8).tobytes()
            whole = write_frame(ToyCount(3, 4, 5, 2**63))
            for place in range(100_000):
                kind = place % 4
                frame = noise[place : place + place % 50]
                if kind == 1:
                    frame = whole[: place % len(whole)]
                elif kind == 2:
                    frame = whole + frame[:3] + b"\x00"
                elif kind == 3:
                    frame = write_frame(ToyAck(1, 2))[:-1] + b"\xff"
                if place % 10 == 0:
                    bad.send(COORDINATOR, frame)
                else:  # gRPC takes its time for each: most go straight to where it would put them
                    server.inbox.put("a", frame)
            site = ToySite({})
            async with running(site, client("good", server.port), tmp_path / "good", source=Numbers(10_000)):
                await until(lambda: site.position == 10_000 and site.acked == site.seq, 300)
            await until(lambda: driver.counts["malformed"] == 100_000, 300)
            assert "a" in server.connected
            assert bad.counts["connected"] == 1
            bad.send(COORDINATOR, write_frame(ToyCount(1, 1, 17, 1)))
            await until(lambda: events_of(machine, "a") == (17, 1))
            await bad.stop(1.0)
        assert events_of(machine, "good") == (10_000, digest(10_000))

    asyncio.run(play())


def test_a_flood_stays_within_the_limits_and_hurts_nobody_else() -> None:
    async def play() -> None:
        limits = Limits(frames=8, bytes=1 << 20)
        server = Server(HERE, ["a", "b"], limits=limits)
        await server.start()  # and nobody takes from its inbox
        flood, other = (client(name, server.port, limits=limits) for name in "ab")
        for link in (flood, other):
            await link.start()
            await until(partial(getattr, link, "connected"))
        other.send(COORDINATOR, b"one frame")
        await until(lambda: len(server.inbox) == 1)
        sent = 2000
        for number in range(sent):
            flood.send(COORDINATOR, number.to_bytes(4, "big") + bytes(100_000))
            assert flood._outbox.size <= limits.bytes
            if number % 4 == 0:
                await asyncio.sleep(0)
            assert server.inbox.size <= limits.bytes + 100
        last = (sent - 1).to_bytes(4, "big")
        await until(lambda: not len(flood._outbox))
        taken: list[tuple[str, bytes]] = []

        def take() -> bool:
            while (found := server.inbox.take()) is not None:
                taken.append(found)
            return any(frame[:4] == last for _, frame in taken)

        await until(take)
        assert ("b", b"one frame") in taken
        there = [frame[:4] for sender, frame in taken if sender == "a"]
        assert there == sorted(there)
        arrived = len(there) + server.counts["dropped_in"]
        assert arrived + flood.counts["dropped_out"] == sent
        for link in (flood, other):
            await link.stop(1.0)
        await server.stop(1.0)

    asyncio.run(play())


def test_peers_take_turns_and_the_oldest_goes_first() -> None:
    inbox = Inbox(Limits(frames=2, bytes=100))
    assert [inbox.put("a", bytes([n])) for n in range(4)] == [0, 0, 1, 1]
    inbox.put("b", b"x")
    assert [inbox.take() for _ in range(4)] == [("a", b"\2"), ("b", b"x"), ("a", b"\3"), None]
    box = Mailbox(Limits(frames=10, bytes=10))
    assert (box.put(bytes(6)), box.put(bytes(6)), box.size) == (0, 1, 6)
    assert (box.put(bytes(60)), box.size, len(box)) == (1, 60, 1)


def test_health_says_up_stopping_and_nobody() -> None:
    async def play() -> None:
        server = Server(HERE, ["a"])
        with pytest.raises(UnreachableError, match="see that the coordinator runs there"):
            await check_health(Address("127.0.0.1", free_port()), deadline=2.0)
        await server.start()
        here = Address("127.0.0.1", server.port)
        assert await check_health(here)
        assert await asyncio.to_thread(is_healthy, here)
        async with grpc.aio.insecure_channel(str(here)) as channel:  # as any probe asks
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            for request in (b"", b"\x0a\x16catchment.v1.Catchment"):
                assert await check(request, timeout=60) == b"\x08\x01"
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await check(b"\x0a\x01x", timeout=60)
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            with pytest.raises(grpc.aio.AioRpcError, match="INVALID_ARGUMENT"):
                await channel.unary_unary("/grpc.health.v1.Health/Check")(b"\xff", timeout=60)
        server.serving = False
        assert not await check_health(here)
        await server.stop(1.0)

    asyncio.run(play())


@pytest.mark.long("crashes")
def test_pings_are_welcome_as_both_ends_are_set_and_would_not_be_by_default() -> None:
    """The real settings in a twenty-fifth of their time, but for the patience with a machine that is busy; beside them
    a server with gRPC's five minutes, until it has closed the connection twice.
    """

    async def play() -> None:
        ends = []
        for least in (0.8, 300.0):
            scaled = Keepalive(every=1.2, timeout=30.0, least=least)
            server = Server(HERE, ["a"], keepalive=scaled)
            await server.start()
            link = Client("a", Address("127.0.0.1", server.port), keepalive=scaled, backoff=QUICK)
            await link.start()
            ends.append((server, link))
        (_, ours), (_, theirs) = ends
        await until(lambda: ours.connected and theirs.counts["connected"] >= 3, 120)
        assert ours.counts["connected"] == 1
        assert ours.connected
        for server, link in ends:
            await link.stop(1.0)
            await server.stop(1.0)

    assert Keepalive().every / Keepalive().least == pytest.approx(1.2 / 0.8)
    asyncio.run(play())


def test_a_site_that_is_not_listed_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        server = Server(HERE, ["a"])
        await server.start()
        stranger = client("stranger", server.port)
        await stranger.start()
        await until(lambda: stranger.counts["refused"] >= 2)
        assert server.counts["refused"] >= 2
        assert server.connected == []
        assert "'stranger' is none of the sites" in caplog.text
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:  # no name at all
            call = channel.stream_stream("/catchment.v1.Catchment/Connect")()
            assert await call.code() == grpc.StatusCode.UNAUTHENTICATED
        await stranger.stop(1.0)
        await server.stop(1.0)

    asyncio.run(play())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", "localhost.example.org"])
def test_without_tls_only_loopback_addresses_are_taken(host: str) -> None:
    for make in (lambda: Server(Address(host, 1), ["a"]), lambda: Client("a", Address(host, 1))):
        with pytest.raises(InsecureAddressError, match=r"without TLS: name certificates under \[tls\], or use 127"):
            make()
    with pytest.raises(InsecureAddressError):
        asyncio.run(check_health(Address(host, 1)))


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:70000", "::1:80", "a b:1", "host:-1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match='write "host:port"'):
        Address.parse(text)


def test_an_address_in_use_is_said() -> None:
    async def play() -> None:
        first = Server(HERE, ["a"])
        await first.start()
        second = Server(Address("127.0.0.1", first.port), ["a"])
        with pytest.raises(UnreachableError, match="cannot listen on"):
            await second.start()
        await first.stop(0.1)

    asyncio.run(play())


def test_delays_double_up_to_the_most_and_are_spread() -> None:
    backoff = Backoff(first=0.1, most=15.0)
    for failures, longest in ((0, 0.1), (1, 0.2), (3, 0.8), (10, 15.0), (10_000, 15.0)):
        delays: Any = [backoff.delay(failures) for _ in range(200)]
        assert longest / 2 <= min(delays) <= max(delays) <= longest
        assert max(delays) - min(delays) > longest / 4


def test_a_frame_says_who_sent_it_by_its_connection(tmp_path: Path) -> None:
    async def play() -> None:
        machine = ToyCoordinator({})
        server = Server(HERE, ["a", "b"])
        async with running(machine, server, tmp_path):
            await until(lambda: server.port)
            link = client("b", server.port)
            await link.start()
            link.send(COORDINATOR, write_frame(ToyCount(1, 1, 3, 3)))
            await until(lambda: machine.log)
            assert machine.log == [Received("b", write_frame(ToyCount(1, 1, 3, 3)))]
            await link.stop(1.0)

    asyncio.run(play())
