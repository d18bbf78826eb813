"""How one service is reached."""

from __future__ import annotations

# Encoding a host name imports it: not in an event loop.
import encodings.idna  # noqa: F401 - see above
import ssl
import urllib.request
from dataclasses import dataclass, field
from functools import cache, lru_cache
from urllib.parse import urlsplit

import httpx

from airflow_provider_datapipe import __version__
from airflow_provider_datapipe.api import retry
from airflow_provider_datapipe.api.errors import ConfigurationError

#: Hosts that are this machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Settings:
    """
    How to reach one service.

    :param base_url: base address of the management interface.
    :param api_key: sent as ``x-api-key``, to this origin only.
    :param timeout: seconds that one attempt may take until its answer is complete.
    :param connect_timeout: seconds that connecting may take.
    :param retry: how patient the client is.
    :param proxy: address of an HTTP proxy.
    :param ca_bundle: path of a file with the certificates to trust, in place of the usual ones.
    :param max_connections: the most connections, and so requests, at a time.
    :param max_answer_bytes: the largest answer that is read, unpacked.
    :param allow_plain_http: allow plain http to hosts other than this machine.
    :param connection: name of the Airflow connection in messages, such as "the Airflow connection `x`"; empty for none.
    :raises ConfigurationError: the address can't be used.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 60.0
    connect_timeout: float = 10.0
    retry: retry.RetryPolicy = field(default_factory=retry.RetryPolicy)
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    max_connections: int = 16
    max_answer_bytes: int = 64 * 1024 * 1024
    allow_plain_http: bool = False
    connection: str = ""

    def __post_init__(self) -> None:
        """Refuse an address that would lose the key, or that is none."""
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"The base address is not a URL: {error}.") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigurationError("The base address must be a URL such as https://api.example.com.")
        if not _is_host(url.host) or (url.port or 0) > _HIGHEST_PORT:
            raise ConfigurationError("The base address names a host or a port that can't exist.")
        if url.userinfo or url.query or url.fragment:
            raise ConfigurationError("The base address must not hold a user, a query or a fragment.")
        if url.scheme == "http" and url.host not in LOOPBACK and not self.allow_plain_http:
            raise ConfigurationError(
                f"Plain http to {url.host} would show the API key to the network: use https, or allow plain http "
                "in the connection."
            )
        if self.proxy is not None and not is_proxy(self.proxy):
            raise ConfigurationError("The proxy must be a URL such as http://proxy.example.com:3128.")
        if not self.api_key:
            raise ConfigurationError("There is no API key: set it as the connection's password.")
        if not self.api_key.isascii() or not self.api_key.isprintable():
            raise ConfigurationError("The API key has characters that no HTTP header can hold.")

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {
            "x-api-key": self.api_key,
            "accept": "application/json",
            "accept-encoding": "gzip",
            "user-agent": f"airflow-provider-datapipe/{__version__}",
        }

    @property
    def of_connection(self) -> str:
        """Words that name the connection in a message; empty without one."""
        return f" of {self.connection}" if self.connection else ""

    @property
    def key_field(self) -> str:
        """Name of the field with the API key, for messages."""
        return f"the password (API key){self.of_connection}" if self.connection else "the API key"

    @property
    def address_field(self) -> str:
        """Name of the field with the base address, for messages."""
        return f"the host (base address){self.of_connection}" if self.connection else "the base address"

    @property
    def connect_limit(self) -> float:
        """Seconds for connecting: less than the whole, so that no connection is told from no answer."""
        return min(self.connect_timeout, 0.9 * self.timeout)


def _is_host(name: str) -> bool:
    """Tell whether a name can be looked up: what can't be is no error of the network, and the libraries have none."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return bool(name)


def is_proxy(address: str) -> bool:
    """Tell whether an address can be that of an HTTP proxy."""
    try:
        url = httpx.URL(address)
        # The other HTTP libraries read addresses as the standard library does.
        urlsplit(address)
    except (httpx.InvalidURL, ValueError):
        return False
    # A path or query is the rest of a password with an unquoted slash or question mark.
    rest = url.raw_path not in (b"", b"/") or url.fragment
    return url.scheme in ("http", "https") and _is_host(url.host) and (url.port or 0) <= _HIGHEST_PORT and not rest


def environment_proxy(url: str) -> str | None:
    """
    Return the proxy that the environment sets for an address; the local service is asked directly.

    :raises ConfigurationError: the proxy can't be used. The message does not show it.
    """
    parsed = httpx.URL(url)
    if parsed.host in LOOPBACK or urllib.request.proxy_bypass(parsed.host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parsed.scheme) or proxies.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not is_proxy(proxy):
        raise ConfigurationError(
            f"The environment's proxy for {parsed.host} is no HTTP proxy: set the connection's proxy, or NO_PROXY. "
            "Percent-encode special characters in its password."
        )
    return proxy


@cache
def trust(ca_bundle: str | None) -> ssl.SSLContext:
    """Read the certificates to trust, once: that takes longer than many requests."""
    if ca_bundle is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The CA bundle {ca_bundle} can't be read: {error}.") from None


@lru_cache(maxsize=64)
def origin_of(url: str) -> str:
    """Return scheme, host and port in one spelling; return a text that is no URL as it is."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"
