"""Connection settings of one service."""

from __future__ import annotations

# Import at load time: encoding a host name imports this module, which would block the event loop.
import encodings.idna  # noqa: F401 - see above
import math
import ssl
import urllib.request
from dataclasses import dataclass, field
from functools import cache, lru_cache
from urllib.parse import urlsplit

import httpx

from airflow_provider_datapipe import __version__
from airflow_provider_datapipe.api import retry
from airflow_provider_datapipe.api.errors import ConfigurationError

#: Host names of the local machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Connection settings of one service.

    :param base_url: base URL of the management interface.
    :param api_key: API key, sent as ``x-api-key`` to the origin of ``base_url`` only.
    :param timeout: maximum duration of one attempt, including the complete response, in seconds.
    :param connect_timeout: maximum time to connect, in seconds.
    :param retry: retry policy of the client.
    :param proxy: URL of an HTTP proxy; None for the proxy of the environment.
    :param ca_bundle: path of a file with the CA certificates to trust instead of the default ones.
    :param max_connections: maximum number of concurrent connections, and so of concurrent requests.
    :param max_requests_per_second: the most requests per second of this machine; None for no limit.
    :param max_answer_bytes: maximum size of a response in bytes, decompressed.
    :param allow_plain_http: True to allow plain http to hosts other than the local machine.
    :param connection: name of the Airflow connection for messages, such as "the Airflow connection `x`"; may be empty.
    :raises ConfigurationError: if a setting is invalid.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 60.0
    connect_timeout: float = 10.0
    retry: retry.RetryPolicy = field(default_factory=retry.RetryPolicy)
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    max_connections: int = 16
    max_requests_per_second: float | None = None
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
            raise ConfigurationError("The base address has an invalid host or port.")
        if url.userinfo or url.query or url.fragment:
            raise ConfigurationError("The base address must not contain a user, a query or a fragment.")
        if url.scheme == "http" and url.host not in LOOPBACK and not self.allow_plain_http:
            raise ConfigurationError(
                f"Plain http to {url.host} would show the API key to the network: use https, or allow plain http "
                "in the connection."
            )
        if self.proxy is not None and not is_proxy(self.proxy):
            raise ConfigurationError("The proxy must be a URL such as http://proxy.example.com:3128.")
        if self.max_requests_per_second is not None and not 0 < self.max_requests_per_second < math.inf:
            raise ConfigurationError("max_requests_per_second must be a number above 0.")
        if not self.api_key:
            raise ConfigurationError("There is no API key: set it as the connection's password.")
        if not is_header_value(self.api_key):
            raise ConfigurationError(
                "The API key must consist of printable ASCII characters, without leading or trailing spaces: correct "
                "the connection's password."
            )

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {
            "x-api-key": self.api_key,
            "accept": "application/json",
            "accept-encoding": "gzip",
            "user-agent": f"airflow-provider-datapipe/{__version__}",
        }

    @property
    def of_connection(self) -> str:
        """Phrase that names the Airflow connection in a message; empty if there is no connection."""
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
        """Connect timeout in seconds, shorter than the total timeout, to distinguish it from a response timeout."""
        return min(self.connect_timeout, 0.9 * self.timeout)


def _is_host(name: str) -> bool:
    """Return True if the name can be encoded as a host name. HTTP libraries raise unrelated errors if it can't."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return bool(name)


def is_header_value(text: str) -> bool:
    """Return True if the text can be sent as the value of a header. HTTP libraries refuse or change other texts."""
    return text.isascii() and text.isprintable() and text == text.strip()


def is_proxy(address: str) -> bool:
    """Return True if the address is a valid URL of an HTTP proxy."""
    try:
        url = httpx.URL(address)
        # aiohttp and urllib3 parse URLs like the standard library.
        urlsplit(address)
    except (httpx.InvalidURL, ValueError):
        return False
    # A path or query is the remainder of a password with an unquoted slash or question mark.
    rest = url.raw_path not in (b"", b"/") or url.fragment
    return url.scheme in ("http", "https") and _is_host(url.host) and (url.port or 0) <= _HIGHEST_PORT and not rest


def environment_proxy(url: str) -> str | None:
    """
    Return the proxy that the environment sets for a URL; None for the local machine, which needs no proxy.

    :param url: URL of the service.
    :raises ConfigurationError: if the proxy is invalid. The message does not contain it.
    """
    parsed = httpx.URL(url)
    # NO_PROXY can list a host alone or with its port, and an IPv6 address with or without brackets.
    if parsed.host in LOOPBACK or any(map(urllib.request.proxy_bypass, (parsed.host, parsed.netloc.decode("ascii")))):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parsed.scheme) or proxies.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not is_proxy(proxy):
        raise ConfigurationError(
            f"The environment's proxy for {parsed.host} is not an HTTP proxy: correct HTTPS_PROXY or ALL_PROXY, or set "
            "NO_PROXY or the proxy of the connection. Percent-encode special characters in the password of a proxy."
        )
    return proxy


@cache
def trust(ca_bundle: str | None) -> ssl.SSLContext:
    """Return the TLS context. It is cached, because loading the certificates takes longer than many requests."""
    if ca_bundle is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The CA bundle {ca_bundle} can't be read: {error}.") from None


@lru_cache(maxsize=64)
def origin_of(url: str) -> str:
    """Return scheme, host and port in normalized form; return invalid URLs unchanged."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    # httpx removes the default port of lowercase schemes only.
    parsed = parsed.copy_with(scheme=parsed.scheme)
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"


@lru_cache(maxsize=64)
def sent_url(url: str) -> str:
    """Return a base URL in the form in which clients send it: host in Punycode, percent-encoded path."""
    # aiohttp would send other characters unchanged.
    return origin_of(url) + httpx.URL(url).raw_path.decode("ascii").rstrip("/")
