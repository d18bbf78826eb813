"""Client settings from an Airflow connection."""

from __future__ import annotations

import difflib
import logging
from ipaddress import IPv6Address
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.api.settings import Settings

try:
    from airflow.sdk.configuration import conf
except ModuleNotFoundError:  # before Airflow 3.2
    from airflow.configuration import conf

E = TypeVar("E", bound=BaseModel)

log = logging.getLogger(__name__)

#: Longest timeout of a request in seconds. Sockets refuse timeouts beyond 64 bits of nanoseconds.
_LONGEST_TIMEOUT = 1_000_000_000


class AirflowConnection(Protocol):
    """Attributes of an Airflow connection that this module uses."""

    conn_id: str
    host: str | None
    port: int | None
    schema: str | None
    password: str | None

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """Extra fields of the connection."""


class HttpExtra(BaseModel):
    """Extra fields of all connections of this package, for their HTTP requests."""

    # Trigger arguments are strict JSON.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    timeout: float = Field(default=60, gt=0, le=_LONGEST_TIMEOUT)
    retry_budget: float = Field(default=60, ge=0)
    proxy: str | None = Field(default=None, repr=False)
    ca_bundle: str | None = None
    allow_plain_http: bool = False

    @field_validator("*", mode="before")
    @classmethod
    def _default_if_empty(cls, value: object, info: Any) -> object:
        # Airflow's connection form stores an empty field as null or as an empty string.
        return cls.model_fields[info.field_name].default if value in (None, "") else value


class ConnectionExtra(HttpExtra):
    """Extra fields of a connection, described in :mod:`airflow_provider_datapipe.get_provider_info`."""

    poll_interval: float | None = Field(default=None, gt=0)
    max_poll_interval: float = Field(default=60, ge=2)
    defer_after: float | None = Field(default=None, ge=0)
    max_connections: int = Field(default=16, ge=1)
    max_requests_per_second: float | None = Field(default=None, gt=0)
    link: str | None = None
    lineage_warehouse: str | None = None

    @field_validator("link")
    @classmethod
    def _is_template(cls, value: str | None) -> str | None:
        if value is not None and not (value.startswith(("https://", "http://")) and "{id}" in value):
            raise ValueError(
                "must be an http or https address that has {id} in it, and may have {resource} and {run_id}"
            )
        return value


def named(conn_id: str) -> str:
    """Return the name of an Airflow connection for messages."""
    return f"the Airflow connection `{conn_id}`"


def read_extra(connection: AirflowConnection, model: type[E]) -> E:
    """
    Read the extra fields of a connection, and log unknown fields that look like typing errors.

    :param connection: the connection.
    :param model: the fields.
    :raises ConfigurationError: if the extra is not an object, or if a field is invalid.
    """
    given: Any = connection.extra_dejson
    known = model.model_fields
    if not isinstance(given, dict):
        # The most likely cause is JSON that is encoded twice.
        raise ConfigurationError(
            f"The extra is JSON, but a value of type {type(given).__name__}. It must be an object, such as "
            f'{{"timeout": 60}}, without quotes around it.\nCheck {named(connection.conn_id)}.'
        )
    for name in given.keys() - known.keys():
        if near := difflib.get_close_matches(name, known, n=1):
            log.warning("Connection %s: extra field %s is unknown. Did you mean %s?", connection.conn_id, name, near[0])
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"Extra field {field}: {message}.\nCheck {named(connection.conn_id)}.") from None


def base_url(connection: AirflowConnection) -> str:
    """
    Return the base URL from the host, which can be a host name or a URL, the scheme and the port.

    :raises ConfigurationError: if there is no host.
    """
    host = (connection.host or "").strip()
    if not host:
        raise ConfigurationError("There is no base address: set it as the connection's host.")
    if "://" not in host:
        host = f"{connection.schema or 'https'}://{_with_brackets(host)}"
    # Airflow's connection form sends an empty port as 0.
    port = connection.port or None
    return host if port is None else _with_port(host, port)


def _with_brackets(host: str) -> str:
    """Add brackets to an IPv6 address, which Airflow removes when it reads a connection from a URI."""
    name, slash, path = host.partition("/")
    try:
        IPv6Address(name)
    except ValueError:
        return host
    return f"[{name}]{slash}{path}"


def _with_port(url: str, port: int) -> str:
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    # A port in the URL takes precedence over the port field.
    has_port = authority.rpartition("]")[2].count(":") == 1
    return url if has_port else f"{scheme}://{authority}:{port}{slash}{path}"


def _share_of_machine(requests_per_second: float | None) -> float | None:
    """
    Return the requests per second of this machine: the limit of the connection, divided by the number of machines.

    :param requests_per_second: the limit of the connection; None for no limit.
    :raises ConfigurationError: if ``[datapipe] rate_limit_shares`` is not a number of machines.
    """
    if requests_per_second is None:
        return None
    given = (conf.get("datapipe", "rate_limit_shares", fallback="") or "1").strip()
    if not (given.isascii() and given.isdigit() and int(given) > 0):
        raise ConfigurationError(
            f"[datapipe] rate_limit_shares must be a whole number, 1 or more, not {given!r}. It divides "
            "max_requests_per_second."
        )
    return requests_per_second / int(given)


def settings_of(connection: AirflowConnection, extra: ConnectionExtra) -> Settings:
    """
    Return the client settings of a connection.

    :param connection: the connection, with the address and the API key.
    :param extra: its extra fields.
    :raises ConfigurationError: if the connection is invalid.
    """
    try:
        return Settings(
            base_url=base_url(connection),
            api_key=connection.password or "",
            timeout=extra.timeout,
            retry=RetryPolicy(budget=extra.retry_budget),
            proxy=extra.proxy,
            ca_bundle=extra.ca_bundle,
            max_connections=extra.max_connections,
            max_requests_per_second=_share_of_machine(extra.max_requests_per_second),
            allow_plain_http=extra.allow_plain_http,
            connection=named(connection.conn_id),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}\nCheck {named(connection.conn_id)}.") from None
