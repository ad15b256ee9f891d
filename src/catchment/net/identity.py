"""Identity: a site is who its certificate says, and nobody else.

Both ends show a certificate that one authority has signed. The name of a site is the URI `catchment://site/<name>` in
the subject alternative names of its certificate: a kind of name that no web server's certificate has, so a certificate
of the same authority for something else is no site. The coordinator's certificate has the DNS names and addresses under
which sites dial it, and they check them as for any server; a site's has none, so no site can pose as the coordinator.

Without certificates there is development mode: loopback addresses only, and the name is what the site says in the
call's metadata. Any process of the machine can then say any name; nothing but the loopback interface protects it.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from catchment.errors import IdentityError, NameNotFoundError, ParameterError
from catchment.monitor.machine import COORDINATOR

__all__ = ["SITE_METADATA", "Certificates", "check_site_name", "name_in_certificate", "name_in_pem", "site_uri"]

SITE_METADATA = "catchment-site"
"""The key of the metadata in which a site says its name in development mode, and only there."""

_URI = "catchment://site/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RESERVED = (COORDINATOR, "authority")
"""Whose certificates and keys lie beside those of the sites, in files by their names; some disks know no capitals."""


def check_site_name(name: str) -> str:
    """The name, if it can be a site's."""
    if not _can_be_a_site(name):
        raise ParameterError(
            f"the site name {name!r}",
            "use up to 63 letters, digits, dots, - and _, a letter or digit first, and not "
            + " or ".join(map(repr, _RESERVED)),
        )
    return name


def _can_be_a_site(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in _RESERVED


def site_uri(name: str) -> str:
    """What the certificate of a site says.

    >>> site_uri("berlin")
    'catchment://site/berlin'
    """
    return _URI + check_site_name(name)


def name_in_certificate(certificate: bytes) -> str:
    """The name of the site whose certificate, in DER, this is."""
    try:
        names = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError) as problem:
        raise IdentityError(f"a certificate without names ({problem})", _CURE) from None
    found = [uri.removeprefix(_URI) for uri in uris if uri.startswith(_URI)]
    if len(found) != 1 or not _can_be_a_site(found[0]):
        raise IdentityError(f"a certificate that names {', '.join(found) or 'no site'}", _CURE)
    return found[0]


def name_in_pem(file: Path) -> str:
    """The name of the site whose certificate is in this file."""
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError) as problem:
        raise IdentityError(f"{file} is no certificate ({problem})", _CURE) from None
    return name_in_certificate(certificate.public_bytes(serialization.Encoding.DER))


_CURE = f"make one with the URI {_URI}<name>, for instance with `catchment certificates`"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: the authority that both ends trust, and this end's certificate and key.

    They are read at each use, so that a renewed certificate counts from the next connection of a site on, and from the
    next start of a coordinator.
    """

    authority: Path
    certificate: Path
    key: Path

    def check(self, *, server: bool) -> None:
        """Refuse files that are missing or do not fit together, before anything is started.

        The other end would refuse them too, but to a site it says no more than that the connection is closed. So a
        handshake is made here, in memory: `server` says as which of the two ends the certificate must pass.
        """
        for file in (self.authority, self.certificate, self.key):
            if not file.is_file():
                raise NameNotFoundError(f"no file {file}", "make one with `catchment certificates`, or name another")
        there, here = self.server_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        here.check_hostname = False  # under which name sites dial it, only they know
        if server:
            here.load_verify_locations(self.authority)
            there.verify_mode = ssl.CERT_NONE
        else:
            here.verify_mode = ssl.CERT_NONE
            here.load_cert_chain(self.certificate, self.key)
        try:
            _shake_hands(there, here)
        except ssl.SSLError as problem:
            why = getattr(problem, "verify_message", None) or str(problem.reason).lower().replace("_", " ")
            raise IdentityError(
                f"{self.certificate} does not pass with the authority {self.authority} ({why})",
                "name the authority that signed it, or remove it and its key for `catchment certificates` to make new",
            ) from None
        _check_for_grpc(self.certificate)

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Authority, key and certificate, in the order in which gRPC takes them."""
        try:
            return self.authority.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes()
        except OSError as problem:
            raise IdentityError(f"{problem.filename}: {problem.strerror}", "make the file readable") from None

    @property
    def expired(self) -> bool:
        """Whether the time of this end's certificate is over; not known of one that cannot be read."""
        try:
            until = x509.load_pem_x509_certificate(self.certificate.read_bytes()).not_valid_after_utc
        except (OSError, ValueError):
            return False
        return until < datetime.datetime.now(datetime.UTC)

    def server_context(self) -> ssl.SSLContext:
        """TLS for a server that asks every client for a certificate of the authority."""
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (ssl.SSLError, OSError) as problem:
            raise IdentityError(
                f"{self.certificate}, {self.key} and {self.authority} cannot be used ({problem})",
                "give a certificate, its own key and its authority, in PEM and without a password",
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2"])  # gRPC is HTTP/2, and its clients insist on being told so
        return context


def _check_for_grpc(file: Path) -> None:
    """Refuse what OpenSSL takes and gRPC's own TLS does not."""
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    key = certificate.public_key()
    curve = key.curve.name if isinstance(key, ec.EllipticCurvePublicKey) else ""
    if curve not in ("secp256r1", "secp384r1") and not (isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048):
        raise IdentityError(
            f"{file} has a key that gRPC does not take ({curve or type(key).__name__})",
            "make one on the curve P-256 or P-384, or of RSA with 2048 bits or more",
        )
    with contextlib.suppress(x509.ExtensionNotFound):
        if not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature:
            raise IdentityError(
                f"{file} is not for digital signatures", "make one whose key usage has digitalSignature"
            )


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """A TLS handshake between two ends in memory; raise what either has to say against it."""
    out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [client.wrap_bio(back, out), server.wrap_bio(out, back, server_side=True)]
    while waiting:
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
