"""Webhook settings from an Airflow connection."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol
from urllib.parse import parse_qsl, unquote

import httpx

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.settings import LOOPBACK, is_proxy, origin_of, trust
from airflow_provider_datapipe.api.webhook import Authentication, authentication_of
from airflow_provider_datapipe.hooks.connection import AirflowConnection, HttpExtra, base_url, named, read_extra

_HIGHEST_PORT = 65_535
# Path segments of at least this length may be keys. Shorter ones are words that messages may need.
_LIKE_A_KEY = 16
# Characters that would end the path, or that some servers treat as a slash.
_NO_PART = re.compile(r"[\x00-\x20\x7f#\\]")


class WebhookConnection(AirflowConnection, Protocol):
    """Attributes of an Airflow connection that this module uses."""

    login: str | None


class WebhookExtra(HttpExtra):
    """Extra fields of a connection, described in :mod:`airflow_provider_datapipe.get_provider_info`."""

    authentication: Literal["none", "basic", "token", "hmac"] = "none"
    header: str = ""


@dataclass(frozen=True)
class WebhookSettings:
    """
    Address and credentials of a webhook.

    :param url: address of a table, or the common beginning of the addresses of several tables. It may be the only
        secret that grants access.
    :param authentication: authentication method and secrets.
    :param timeout: time limit for the response to a request, in seconds.
    :param retry_budget: time for retries of a request, in seconds.
    :param proxy: URL of an HTTP proxy; None for that of the environment.
    :param ca_bundle: path of a file with the certificates to trust instead of the default ones; None for the default.
    """

    url: str = field(repr=False)
    authentication: Authentication
    timeout: float
    retry_budget: float
    proxy: str | None = field(repr=False)
    ca_bundle: str | None

    @property
    def origin(self) -> str:
        """Part of the address without secrets, for messages."""
        return origin_of(self.url)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Secrets to mask, longest first: the credentials, and parts of the address that may grant access."""
        url = httpx.URL(self.url)
        quoted = url.raw_path.decode().partition("?")[0]
        paths = [path.strip("/") for path in (quoted, url.path)]
        query = url.query.decode()
        parts = [part for path in paths for part in path.split("/") if len(part) >= _LIKE_A_KEY]
        values = [value for _, value in parse_qsl(query)]
        found = {*self.authentication.secrets, *paths, *parts, query, *values} - {""}
        return tuple(sorted(found, key=len, reverse=True))

    @property
    def is_here(self) -> bool:
        """True if the webhook is on this machine."""
        return httpx.URL(self.url).host in LOOPBACK


def webhook_settings(connection: WebhookConnection) -> WebhookSettings:
    """
    Return the webhook settings of a connection.

    :raises ConfigurationError: if the connection is invalid.
    """
    extra = read_extra(connection, WebhookExtra)
    try:
        url = base_url(connection)
        _check(url, allow_plain_http=extra.allow_plain_http)
        _check_transport(extra)
        authentication = authentication_of(
            extra.authentication,
            username=connection.login or "",
            secret=connection.password or "",
            header=extra.header,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}\nCheck {named(connection.conn_id)}.") from None
    return WebhookSettings(url, authentication, extra.timeout, extra.retry_budget, extra.proxy, extra.ca_bundle)


def address(settings: WebhookSettings, endpoint: str | None) -> str:
    """
    Return the address of a table.

    :param settings: settings of the connection.
    :param endpoint: end of the table's address; empty if the connection contains the whole address.
    :raises ConfigurationError: if the connection's address has a query, or if the endpoint is invalid.
    """
    if not endpoint:
        return settings.url
    steps = unquote(endpoint.partition("?")[0]).split("/")
    if endpoint == "None" or _NO_PART.search(unquote(endpoint)) or not {".", ".."}.isdisjoint(steps):
        raise ConfigurationError(f"The endpoint {endpoint!r} must be the end of a table's address, such as orders.")
    if "?" in settings.url:
        raise ConfigurationError("The connection's address has a query: no endpoint can follow it.")
    return f"{settings.url.rstrip('/')}/{endpoint.lstrip('/')}"


def _check_transport(extra: WebhookExtra) -> None:
    """Raise if the proxy or the CA bundle is invalid, with a clearer error than that of requests."""
    if extra.proxy is not None and not is_proxy(extra.proxy):
        raise ConfigurationError("The proxy must be a URL such as http://proxy.example.com:3128.")
    if extra.ca_bundle is not None:
        trust(extra.ca_bundle)


def _check(address: str, *, allow_plain_http: bool) -> None:
    """Raise if an address is not a valid URL, or would expose secrets."""
    try:
        url = httpx.URL(address)
        url.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        raise ConfigurationError("The address is not a URL.") from None
    if url.scheme not in ("http", "https") or not url.host or (url.port or 0) > _HIGHEST_PORT:
        raise ConfigurationError("The address must be a URL such as https://hooks.example.com/orders.")
    if url.userinfo or url.fragment:
        raise ConfigurationError("The address must not contain a user or a fragment: set login and password.")
    if url.scheme == "http" and url.host not in LOOPBACK and not allow_plain_http:
        raise ConfigurationError(
            f"Plain http to {url.host} would show data and credentials to the network: use https, or allow plain http "
            "in the connection."
        )
