"""Rule for the addresses that the service sends records to, and the classes of IP addresses."""

from __future__ import annotations

import ipaddress
import socket
from enum import Enum
from typing import TYPE_CHECKING

from datapipe_local.common.authority import is_loopback, unmapped

if TYPE_CHECKING:
    from datapipe_local.common.authority import Address

#: Option and environment variable of ``datapipe-local serve``.
OPTION = "--http-destinations"
VARIABLE = "DATAPIPE_LOCAL_HTTP_DESTINATIONS"

# Services of cloud providers that answer with credentials, at addresses outside 169.254.0.0/16 and fe80::/10.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")


class EgressRule(Enum):
    """Largest class of addresses that records are sent to; each rule includes those before it."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    ANY = "any"

    def allows(self, address: Address) -> bool:
        """Return True if records may be sent to the address."""
        order = list(EgressRule)
        return order.index(required_rule(address)) <= order.index(self)


_ALLOWED = {
    EgressRule.PUBLIC: "public addresses",
    EgressRule.LOOPBACK: "public addresses and this machine",
    EgressRule.PRIVATE: "public addresses, private networks and this machine",
}
_CLASSES = {
    EgressRule.LOOPBACK: "an address of this machine",
    EgressRule.PRIVATE: "an address of a private network",
    EgressRule.ANY: "a link-local, cloud metadata or reserved address",
}


class RefusedDestinationError(Exception):
    """
    Destination that the rule does not allow.

    :param host: The host of the URL.
    :param address: Its address.
    :param rule: The rule.
    """

    def __init__(self, host: str, address: Address, rule: EgressRule) -> None:
        needed = required_rule(address)
        is_literal = host.strip("[]").partition("%")[0] == str(address).partition("%")[0]
        subject = f"{host} is" if is_literal else f"{host} has the address {address},"
        super().__init__(
            f"{subject} {_CLASSES[needed]}, and this service sends only to {_ALLOWED[rule]}. To allow it, start"
            f" `datapipe-local serve` with {OPTION} {needed.value} (or {VARIABLE}={needed.value})"
        )


def required_rule(address: Address) -> EgressRule:
    """Return the strictest rule that allows an address. Addresses that embed an IPv4 address count as that one."""
    address = _embedded(address)
    if is_loopback(address):
        return EgressRule.LOOPBACK
    is_special = address.is_link_local or address.is_unspecified or address.is_multicast or address.is_reserved
    if is_special or address in _METADATA or address in _THIS_NETWORK:
        return EgressRule.ANY
    return EgressRule.PUBLIC if address.is_global else EgressRule.PRIVATE


def literal_address(host: str) -> Address | None:
    """Return the address if a host is written as one, in any form that the resolver reads (127.1); without DNS."""
    try:
        return _addresses(host, 0, socket.AI_NUMERICHOST)[0]
    except OSError:
        return None


def resolve(host: str, port: int) -> list[Address]:
    """
    Return the addresses of a host.

    :raises OSError: it has none.
    """
    return _addresses(host, port, 0)


def allowed_addresses(host: str, addresses: list[Address], rule: EgressRule) -> list[Address]:
    """
    Return the addresses of a host that the rule allows.

    :raises RefusedDestinationError: the rule allows none of them.
    """
    allowed = [address for address in addresses if rule.allows(address)]
    if not allowed:
        raise RefusedDestinationError(host, addresses[0], rule)
    return allowed


def _addresses(host: str, port: int, flags: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:
        # Names with empty or overlong labels.
        raise OSError(str(error)) from error
    return [ipaddress.ip_address(entry[4][0]) for entry in found]


def _embedded(address: Address) -> Address:
    address = unmapped(address)
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.sixtofour is not None:
        return address.sixtofour
    is_compatible = address in _IPV4_COMPATIBLE and int(address) > 1
    if address in _NAT64 or is_compatible:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
