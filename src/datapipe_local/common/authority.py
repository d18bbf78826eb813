"""Strict parser for ``host[:port]`` (RFC 9110, RFC 3986), and the loopback test."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LONGEST_NAME = 253
_LAST_PORT = 65_535
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Browsers and C libraries read such a name as an IPv4 address: 127.1, 0x7f000001.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Authority(NamedTuple):
    """
    Host and port of a URL or of a ``Host`` header.

    :param host: Lowercase, without brackets and without the trailing dot.
    :param address: The host as an IP address; ``None`` if it is a name.
    :param port: The port; ``None`` if it is absent or empty.
    """

    host: str
    address: Address | None
    port: int | None

    @property
    def is_localhost(self) -> bool:
        """Return True for ``localhost`` and the names below it, which RFC 6761 reserves for this machine."""
        return self.host == "localhost" or self.host.endswith(".localhost")


def parse_authority(text: str) -> Authority:
    """
    Parse ``host[:port]``. User names, zone IDs, percent-encoding and non-ASCII characters are refused.

    :param text: The text, without surrounding white space.
    :raises ValueError: the text has another form.
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise ValueError("is not host[:port]")
    host, digits = match[1].lower(), match[2]
    port = int(digits) if digits else None
    if port is not None and port > _LAST_PORT:
        raise ValueError(f"has the port {port}, which is above {_LAST_PORT}")
    if host.startswith("["):
        return Authority(host[1:-1], ipaddress.IPv6Address(host[1:-1]), port)
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return Authority(host, ipaddress.IPv4Address(host), port)
    if len(host) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("is not a host name")
    return Authority(host, None, port)


def unmapped(address: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; return other addresses unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_loopback(address: Address) -> bool:
    """Return True if only this machine can connect to the address."""
    return unmapped(address).is_loopback
