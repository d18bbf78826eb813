"""HTTP client that connects only to the addresses that the rule for destinations allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpcore
import httpx
from typing_extensions import override

from datapipe_local.common.authority import is_loopback
from datapipe_local.connectors.egress import EgressRule, allowed_addresses, literal_address, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable


def open_client(url: str, rule: EgressRule, *, timeout: float) -> httpx.Client:
    """
    Return a client for one destination. It does not follow redirects.

    The client connects to the address that was checked: another answer of DNS between check and connection cannot
    lead elsewhere. A proxy of the environment resolves names itself: there the names and addresses that this machine
    knows are checked before each request.

    :param url: The destination.
    :param rule: The rule. A refused request raises :class:`~datapipe_local.connectors.egress.RefusedDestinationError`.
    :param timeout: Seconds for each wait.
    :raises httpx.InvalidURL: the URL cannot be used.
    """
    # A proxy cannot reach this machine's own addresses.
    client = httpx.Client(timeout=timeout, trust_env=not _is_local(url))
    if rule is not EgressRule.ANY:
        # httpx has no parameter for the network of its transports. A test checks these names.
        pool: Any = client._transport._pool  # type: ignore[attr-defined]  # noqa: SLF001 - see above
        pool._network_backend = _CheckedNetwork(pool._network_backend, rule)  # noqa: SLF001 - see above
        for pattern, proxy in client._mounts.items():  # noqa: SLF001 - see above
            if proxy is not None:
                client._mounts[pattern] = _CheckedProxy(proxy, rule)  # noqa: SLF001 - see above
    return client


class _CheckedNetwork(httpcore.NetworkBackend):
    """Network that resolves a host once, and connects to its allowed addresses in turn."""

    def __init__(self, network: httpcore.NetworkBackend, rule: EgressRule) -> None:
        self._network = network
        self._rule = rule

    @override
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = resolve(host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        failure: Exception | None = None
        for address in allowed_addresses(host, addresses, self._rule):
            try:
                return self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")


class _CheckedProxy(httpx.BaseTransport):
    """Transport to a proxy that refuses hosts whose known addresses are not allowed."""

    def __init__(self, transport: httpx.BaseTransport, rule: EgressRule) -> None:
        self._transport = transport
        self._rule = rule

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            addresses = resolve(request.url.host, request.url.port or 0)
        except OSError:
            # Only the proxy knows the name.
            addresses = []
        if addresses:
            allowed_addresses(request.url.host, addresses, self._rule)
        return self._transport.handle_request(request)

    @override
    def close(self) -> None:
        self._transport.close()


def _is_local(url: str) -> bool:
    host = httpx.URL(url).host.removesuffix(".")
    address = literal_address(host)
    return host == "localhost" or host.endswith(".localhost") if address is None else is_loopback(address)
