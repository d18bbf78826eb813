"""HTTP connections from commands to the service of a home."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

#: Loopback addresses for a service that listens on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound


def connect(address: str, seconds: float) -> http.client.HTTPConnection:
    """
    Return a connection to the service. It uses no proxy.

    :param address: The address that the service noted in its home.
    :param seconds: The time limit of each operation on the socket.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    return http.client.HTTPConnection(_LOOPBACK.get(host, host), parts.port, timeout=seconds)
