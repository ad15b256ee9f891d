"""Who is let in: the right certificate, and no other."""

from __future__ import annotations

import asyncio
import logging
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtensionOID

from catchment.errors import IdentityError, NameNotFoundError, ParameterError, UnreachableError
from catchment.monitor.machine import COORDINATOR
from catchment.monitor.wire import write_frame
from catchment.net.address import Address
from catchment.net.certificates import Authority, make_certificates
from catchment.net.client import Client, check_health
from catchment.net.identity import SITE_METADATA, Certificates, check_site_name, name_in_pem
from catchment.net.server import Server
from tests.net.loop import HERE, QUICK, Numbers, running, until
from tests.net.toy import ToyCoordinator, ToyCount, ToySite, events_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificates]:
    return make_certificates(tmp_path_factory.mktemp("pki"), ["127.0.0.1", "localhost"], ["a", "b", "stranger"])


def pair(folder: Path, authority: Path, certificate: bytes, key: bytes) -> Certificates:
    (folder / "own.pem").write_bytes(certificate)
    (folder / "own.key").write_bytes(key)
    return Certificates(authority, folder / "own.pem", folder / "own.key")


def signer(certificates: Certificates) -> Authority:
    return Authority.load(certificates.authority.parent)


async def knock(server: Server, certificates: Certificates | None, host: str = "127.0.0.1") -> Client:
    """A site tries until it is let in or the server has refused it twice."""
    link = Client("a", Address(host, server.port), certificates, backoff=QUICK, deadline=30.0)
    await link.start()
    await until(lambda: link.connected or link.counts["unreachable"] >= 2, 120)
    return link


def test_with_certificates_counts_arrive(made: dict[str, Certificates], tmp_path: Path) -> None:
    async def play() -> None:
        machine = ToyCoordinator({})
        server = Server(Address("0.0.0.0", 0), ["a", "b"], made[COORDINATOR])  # beyond loopback: TLS allows it
        async with running(machine, server, tmp_path / "coordinator"):
            await until(lambda: server.port)
            sites = {name: ToySite({}) for name in "ab"}
            links = {
                "a": Client("a", Address("127.0.0.1", server.port), made["a"]),
                "b": Client("b", Address("localhost", server.port), made["b"]),
            }
            async with (
                running(sites["a"], links["a"], tmp_path / "a", source=Numbers(1000)),
                running(sites["b"], links["b"], tmp_path / "b", source=Numbers(500)),
            ):
                await until(lambda: events_of(machine, "a")[0] == 1000 and events_of(machine, "b")[0] == 500)
                assert await check_health(Address("127.0.0.1", server.port), made["a"])
        assert server.counts["refused"] == 0

    asyncio.run(play())


def test_large_frames_pass_through_tls_both_ways(made: dict[str, Certificates]) -> None:
    async def play() -> None:
        server = Server(HERE, ["a"], made[COORDINATOR])
        await server.start()
        link = await knock(server, made["a"])
        frame = bytes(range(256)) * 80_000
        link.send(COORDINATOR, frame)
        server.send("a", frame[::-1])
        await until(lambda: len(server.inbox) and len(link.inbox), 120)
        assert server.inbox.take() == ("a", frame)
        assert link.inbox.take() == (COORDINATOR, frame[::-1])
        await link.stop(1.0)
        await server.stop(1.0)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("case", "logged"),
    [
        ("another authority", "its certificate is not accepted (certificate signature failure)"),
        ("none", "the TLS handshake failed (peer did not return a certificate)"),
        ("expired", "its certificate is not accepted (certificate has expired)"),
        ("the coordinator's own", "its certificate is not accepted (un"),
        ("plain text", "the TLS handshake failed ("),
        ("not listed", "'stranger' is none of the sites"),
    ],
)
def test_whoever_is_not_a_site_is_refused_counted_and_in_the_log(
    made: dict[str, Certificates], tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, logged: str
) -> None:
    caplog.set_level(logging.INFO)
    mine = signer(made["a"])

    async def play() -> None:
        server = Server(HERE, ["a", "b"], made[COORDINATOR])
        await server.start()
        if case == "none":
            root = grpc.ssl_channel_credentials(made["a"].authority.read_bytes())
            async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", root) as channel:
                call = channel.stream_stream("/catchment.v1.Catchment/Connect")(metadata=((SITE_METADATA, "a"),))
                assert await call.code() == grpc.StatusCode.UNAVAILABLE
        else:
            shows: dict[str, Callable[[], Certificates | None]] = {
                "another authority": lambda: pair(tmp_path, made["a"].authority, *Authority.make().site("a")),
                "expired": lambda: pair(tmp_path, made["a"].authority, *mine.site("a", days=-1)),
                "the coordinator's own": lambda: made[COORDINATOR],
                "plain text": lambda: None,
                "not listed": lambda: made["stranger"],
            }
            link = await knock(server, shows[case]())
            assert not link.connected
            await link.stop(1.0)
        await until(lambda: server.counts["refused"] >= 1)
        assert server.connected == []
        assert logged in caplog.text
        told = {"none": "", "not listed": "", "expired": "own.pem has expired: remove it and its key"}
        assert told.get(case, "if the coordinator refuses this site, its log says why") in caplog.text
        # and who may come in still does
        link = await knock(server, made["b"])
        assert server.connected == ["b"]
        await link.stop(1.0)
        await server.stop(1.0)

    asyncio.run(play())


def test_the_name_is_that_of_the_certificate_whatever_the_site_says(
    made: dict[str, Certificates], tmp_path: Path
) -> None:
    async def play() -> None:
        machine = ToyCoordinator({})
        server = Server(HERE, ["a", "b"], made[COORDINATOR])
        async with running(machine, server, tmp_path):
            await until(lambda: server.port)
            root, key, chain = made["b"].read()
            credentials = grpc.ssl_channel_credentials(root, key, chain)
            async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", credentials) as channel:
                call = channel.stream_stream("/catchment.v1.Catchment/Connect")(metadata=((SITE_METADATA, "a"),))
                await call.write(write_frame(ToyCount(1, 1, 5, 5)))
                await until(lambda: machine.newest)
                call.cancel()
        assert list(machine.newest) == ["b"]

    asyncio.run(play())


def test_the_port_behind_the_door_takes_nobody_else(made: dict[str, Certificates]) -> None:
    async def play() -> None:
        server = Server(HERE, ["a"], made[COORDINATOR])
        await server.start()
        assert server._doorman is not None
        behind = server._doorman._behind
        async with grpc.aio.insecure_channel(f"127.0.0.1:{behind}") as channel:
            call = channel.stream_stream("/catchment.v1.Catchment/Connect")(metadata=((SITE_METADATA, "a"),))
            assert await call.code() == grpc.StatusCode.UNAUTHENTICATED
        assert server.counts["refused"] == 1
        await server.stop(1.0)

    asyncio.run(play())


def test_a_site_does_not_talk_to_a_coordinator_of_another_authority_or_name(
    made: dict[str, Certificates], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_certificates(tmp_path / "other", ["127.0.0.1"], ["a"])
    (tmp_path / "old").mkdir()
    mine = signer(made["a"])
    elsewhere = pair(tmp_path, made["a"].authority, *mine.coordinator(["elsewhere.example.org"]))
    old = pair(tmp_path / "old", made["a"].authority, *mine.coordinator(["127.0.0.1"], days=-1))
    a_site = made["b"]
    cases = (
        (other[COORDINATOR], f"the coordinator's certificate is of another authority than {made['a'].authority}"),
        (elsewhere, "certificate is not for 127.0.0.1: .* `catchment certificates --host 127.0.0.1`"),
        (old, "the coordinator's certificate has expired"),
        (a_site, "handshake failed"),
    )

    async def play() -> None:
        for shown, words in cases:
            server = Server(HERE, ["a"], shown)
            await server.start()
            link = await knock(server, made["a"])
            assert not link.connected
            assert re.search(words, caplog.text)
            with pytest.raises(UnreachableError):
                await check_health(Address("127.0.0.1", server.port), made["a"], deadline=3.0)
            await link.stop(1.0)
            await server.stop(1.0)

    asyncio.run(play())


def test_files_are_made_once_and_keys_are_for_their_owner(tmp_path: Path) -> None:
    first = make_certificates(tmp_path, ["127.0.0.1"], ["a"])
    before = first["a"].certificate.read_bytes()
    second = make_certificates(tmp_path, ["127.0.0.1"], ["a", "b"])
    assert second["a"].certificate.read_bytes() == before
    assert name_in_pem(second["b"].certificate) == "b"
    for file in tmp_path.glob("*.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    second["b"].check(server=False)
    second[COORDINATOR].check(server=True)
    with pytest.raises(IdentityError, match="names no site"):
        name_in_pem(second[COORDINATOR].certificate)
    with pytest.raises(IdentityError, match="without names"):
        name_in_pem(tmp_path / "authority.pem")
    mixed = Certificates(second["a"].authority, second["a"].certificate, second["b"].key)
    with pytest.raises(IdentityError, match="give a certificate, its own key"):
        mixed.check(server=False)
    with pytest.raises(NameNotFoundError, match="no file"):
        Certificates(tmp_path / "x", tmp_path / "y", tmp_path / "z").check(server=True)
    with pytest.raises(ParameterError, match="name the coordinator"):
        make_certificates(tmp_path / "new", [], [])


def test_a_certificate_that_the_other_end_would_refuse_is_refused_at_the_start(tmp_path: Path) -> None:
    ours, theirs = (make_certificates(tmp_path / name, None, ["a"]) for name in ("ours", "theirs"))
    for name, server in (("a", False), (COORDINATOR, True)):
        stranger = Certificates(theirs[name].authority, ours[name].certificate, ours[name].key)
        with pytest.raises(IdentityError, match=r"does not pass with the authority .* name the authority that signed"):
            stranger.check(server=server)
        with pytest.raises(IdentityError, match="purpose"):
            ours[name].check(server=not server)
    certificate, key = Authority.load(tmp_path / "ours").site("a", days=-1)
    ours["a"].certificate.write_bytes(certificate)
    ours["a"].key.write_bytes(key)
    with pytest.raises(IdentityError, match=r"expired.*remove it and its key"):
        ours["a"].check(server=False)
    for file in (ours["a"].certificate, ours["a"].key):
        file.unlink()
    make_certificates(tmp_path / "ours", None, ["a"])["a"].check(server=False)  # as the error says


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (ec.generate_private_key(ec.SECP256R1()), ""),
        (ec.generate_private_key(ec.SECP384R1()), ""),
        (rsa.generate_private_key(65537, 2048), ""),
        (ec.generate_private_key(ec.SECP521R1()), "does not take .secp521r1"),
        (ed25519.Ed25519PrivateKey.generate(), "does not take .Ed25519"),
        (ec.generate_private_key(ec.SECP256K1()), "no shared cipher"),
    ],
    ids=["P-256", "P-384", "RSA", "P-521", "Ed25519", "secp256k1"],
)
def test_keys_pass_at_the_start_if_grpc_takes_them(tmp_path: Path, key: Any, problem: str) -> None:
    """Signed by another authority's tools, as in a company: by ours there are P-256 alone."""
    made = make_certificates(tmp_path, None, ["a"])
    there = _with_key(made, key)

    async def play() -> bool:
        server = Server(HERE, ["a"], there)
        await server.start()
        try:
            return await check_health(Address("127.0.0.1", server.port), made["a"], deadline=5.0)
        finally:
            await server.stop(1.0)

    if not problem:
        there.check(server=True)
        assert asyncio.run(play())
        return
    with pytest.raises(IdentityError, match=problem):
        there.check(server=True)
    with pytest.raises(UnreachableError):  # so it would have been
        asyncio.run(play())


def _with_key(made: dict[str, Certificates], key: Any) -> Certificates:
    """The coordinator's certificate again, with another key."""
    authority, files = signer(made["a"]), made[COORDINATOR]
    old = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    builder = x509.CertificateBuilder(
        old.issuer, old.subject, key.public_key(), x509.random_serial_number(), old.not_valid_before_utc,
        old.not_valid_after_utc, [one for one in old.extensions if one.oid != ExtensionOID.SUBJECT_KEY_IDENTIFIER],
    )  # fmt: skip
    files.certificate.write_bytes(builder.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def test_other_hosts_than_those_of_a_certificate_that_stays_are_refused(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["Here.example", "10.0.0.1", "*.cloud.example"], ["a"])
    before = (tmp_path / "coordinator.pem").read_bytes()
    with pytest.raises(ParameterError, match=r"not for there.example.*: name its own hosts, or remove it and .*\.key"):
        make_certificates(tmp_path, ["here.example", "there.example"], ["b"])
    assert not (tmp_path / "b.pem").exists()
    for hosts in (None, ["10.0.0.1"], ["here.Example", "one.cloud.example"]):
        make_certificates(tmp_path, hosts, ["b"])
    assert (tmp_path / "coordinator.pem").read_bytes() == before
    (tmp_path / "coordinator.pem").write_text("rubbish")
    with pytest.raises(ParameterError, match="no certificate of a coordinator"):
        make_certificates(tmp_path, None, ["b"])


def test_an_authority_whose_key_is_kept_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    make_certificates(tmp_path, None, ["a"])
    before = (tmp_path / "authority.pem").read_bytes()
    (tmp_path / "authority.key").rename(tmp_path / "safe")
    with pytest.raises(NameNotFoundError, match=r"authority\.key, which signs: bring it back"):
        make_certificates(tmp_path, None, ["a", "b"])
    assert (tmp_path / "authority.pem").read_bytes() == before
    assert not (tmp_path / "b.pem").exists()


@pytest.mark.parametrize("name", ["", COORDINATOR, "a/b", "../a", "a b", "ü", "-a", "a" * 64, "a\n"])
def test_a_name_that_no_site_can_have_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="the site name"):
        check_site_name(name)


@pytest.mark.parametrize(
    ("hosts", "sites"),
    [
        (["127.0.0.1:7433"], ["a"]),
        (["bücher.example"], ["a"]),
        ([""], ["a"]),
        (["localhost"], ["coordinator"]),
        (None, ["authority"]),
        (None, ["Authority"]),
    ],
)
def test_names_that_can_be_in_no_certificate_are_refused_before_one_is_made(
    hosts: list[str] | None, sites: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ParameterError):
        make_certificates(tmp_path / "keys", hosts, sites)
    assert not (tmp_path / "keys").exists()
