"""Addresses, "host:port"; and which of them are this machine's own."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from catchment.errors import InsecureAddressError, ParameterError

__all__ = ["Address"]

_SHAPE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+)):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port.

    >>> Address.parse("example.org:7433")
    Address(host='example.org', port=7433)
    >>> str(Address.parse("[::1]:7433")), Address.parse("127.0.0.1:0").is_loopback
    ('[::1]:7433', True)
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        found = _SHAPE.fullmatch(text)
        if found is None or int(found[3]) > 65_535:
            raise ParameterError(
                f"the address {text!r}", 'write "host:port", such as "example.org:7433" or "[::1]:7433"'
            )
        return cls(found[1] or found[2], int(found[3]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can be meant; a name other than `localhost` may be any machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def check_loopback(self) -> None:
        """Refuse an address beyond this machine: what goes there without TLS is read and written by anyone."""
        if not self.is_loopback:
            raise InsecureAddressError(
                f"{self} without TLS", "name certificates under [tls], or use 127.0.0.1 for development"
            )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
