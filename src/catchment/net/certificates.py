"""Certificates for a start: an authority, one certificate for the coordinator, one for each site.

For development and small installations. A company that has an authority of its own signs with that; what the
certificates must say is in `identity`.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from catchment.errors import NameNotFoundError, ParameterError
from catchment.monitor.machine import COORDINATOR
from catchment.net.identity import Certificates, check_site_name, site_uri

__all__ = ["Authority", "make_certificates"]

_DNS = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_DAY = datetime.timedelta(days=1)
_SLACK = datetime.timedelta(minutes=5)
"""Clocks differ: a certificate is good from a little before it was made."""


def make_certificates(
    folder: Path, hosts: list[str] | None, sites: list[str], *, days: int = 365
) -> dict[str, Certificates]:
    """Write an authority, or use the one that is there, and a certificate for the coordinator and for each site.

    - `folder`: gets `authority.pem`, `authority.key`, `coordinator.pem`, `coordinator.key`, `<site>.pem`, `<site>.key`.
      Keep `authority.key` away from the sites: whoever has it can be any of them.
    - `hosts`: DNS names and addresses under which sites reach the coordinator; None is this machine alone, or whatever
      a certificate of the coordinator that is there already has.
    - `days`: how long they are good.

    Files that are there already are not touched, so that a site can be added later; other hosts than those in a
    certificate of the coordinator are refused.
    """
    if not 1 <= days <= 36_500:
        raise ParameterError(f"days={days}", "give 1 to 36500 days")
    for check, names in ((check_site_name, sites), (_host, hosts or [])):
        for name in names:
            check(name)  # before anything is written
    _check_hosts(folder / f"{COORDINATOR}.pem", hosts or [])
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "authority.pem").exists() or (folder / "authority.key").exists():
        authority = Authority.load(folder)  # both, or an error: a new authority would make all certificates worthless
    else:
        authority = Authority.make(days=max(days, 3650))
        authority.save(folder)
    made = {}
    for name in (COORDINATOR, *sites):
        made[name] = Certificates(folder / "authority.pem", folder / f"{name}.pem", folder / f"{name}.key")
        if made[name].certificate.exists():
            continue
        if name == COORDINATOR:
            pair = authority.coordinator(["localhost", "127.0.0.1"] if hosts is None else hosts, days=days)
        else:
            pair = authority.site(name, days=days)
        _write(made[name].certificate, pair[0])
        _write(made[name].key, pair[1], secret=True)
    return made


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs: a certificate that both ends trust, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, *, days: int = 3650) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("catchment authority")
        certificate = (
            _builder(name, name, key, _now() - _SLACK, _now() + days * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        try:
            key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), password=None)
            certificate = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
        except FileNotFoundError as problem:
            raise NameNotFoundError(
                f"no file {problem.filename}, which signs",
                "bring it back for as long as that takes, or choose another folder",
            ) from None
        except (ValueError, TypeError) as problem:
            raise ParameterError(f"the authority in {folder} ({problem})", "choose another folder") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ParameterError(f"{folder / 'authority.key'} is not of an elliptic curve", "choose another folder")
        return cls(certificate, key)

    def save(self, folder: Path) -> None:
        _write(folder / "authority.pem", self.certificate.public_bytes(serialization.Encoding.PEM))
        _write(folder / "authority.key", _pem(self.key), secret=True)

    def coordinator(self, hosts: list[str], *, days: int = 365) -> tuple[bytes, bytes]:
        """Certificate and key, in PEM, of the coordinator under these names."""
        if not hosts:
            raise ParameterError("no hosts", "name the coordinator as sites dial it, such as example.org or 127.0.0.1")
        names = [_host(host) for host in hosts]
        return self._sign(COORDINATOR, names, ExtendedKeyUsageOID.SERVER_AUTH, _now() + days * _DAY)

    def site(self, name: str, *, days: float = 365) -> tuple[bytes, bytes]:
        """Certificate and key, in PEM, of a site; a negative number of days makes one that has expired."""
        names = [x509.UniformResourceIdentifier(site_uri(name))]
        return self._sign(name, names, ExtendedKeyUsageOID.CLIENT_AUTH, _now() + days * _DAY)

    def _sign(
        self, name: str, names: Sequence[x509.GeneralName], use: x509.ObjectIdentifier, until: datetime.datetime
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        since = min(_now(), until) - _SLACK
        certificate = (
            _builder(_name(name), self.certificate.subject, key, since, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _check_hosts(file: Path, hosts: list[str]) -> None:
    """Refuse hosts that a certificate which is there, and stays, does not have."""
    if not file.exists():
        return
    try:
        names = x509.load_pem_x509_certificate(file.read_bytes()).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (OSError, ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as problem:
        raise ParameterError(f"{file} is no certificate of a coordinator ({problem})", "remove it") from None
    served = {str(name.value).lower() for name in names.value}
    lacking = [host for host in hosts if not {host.lower(), f"*.{host.lower().partition('.')[2]}"} & served]
    if lacking:
        raise ParameterError(
            f"{file} is there already, and is not for {', '.join(lacking)}",
            f"name its own hosts, or remove it and {file.with_suffix('.key')}, to have one made for these",
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _DNS.fullmatch(host):
            raise ParameterError(
                f"the host {host!r}", "give a name or an address alone, without a port; other alphabets as xn--…"
            ) from None
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    since: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(file: Path, data: bytes, *, secret: bool = False) -> None:
    """Keys are for their owner's eyes from the first moment on."""
    with open(file, "wb", opener=lambda path, flags: os.open(path, flags, 0o600 if secret else 0o644)) as out:
        out.write(data)
