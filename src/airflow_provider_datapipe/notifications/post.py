"""HTTP POST of JSON to an Airflow connection, with a time limit for the whole request."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from airflow_provider_datapipe import __version__
from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.settings import environment_proxy, trust
from airflow_provider_datapipe.hooks.connection import base_url

if TYPE_CHECKING:
    from airflow.sdk import Connection

#: Extra fields of an HTTP connection that are options of Airflow's HTTP hook. All other extra fields are headers.
_NO_HEADERS = frozenset(
    {
        *("timeout", "allow_redirects", "max_redirects", "check_response", "trust_env", "stream"),
        *("proxies", "proxy", "verify", "verify_ssl", "ssl_context", "cert"),
    }
)


class NotPostedError(Exception):
    """Error of a message that was not delivered. It contains no secrets, and no part of the address except its host."""


def post(connection: Connection, endpoint: str, body: Any, timeout: float) -> None:
    """
    Post JSON once, and wait for the response.

    :param connection: an HTTP connection with an address, login and password, and headers in its extra fields.
    :param endpoint: path that is appended to the address; may be empty.
    :param body: JSON body.
    :param timeout: time limit in seconds for name resolution, connecting, sending, and reading the response head.
    :raises NotPostedError: if the message was not delivered.
    """
    failures: list[str] = []
    late = f"no answer within {timeout:g} s"

    def attempt() -> None:
        try:
            _post(connection, endpoint, body, timeout)
        except httpx.TimeoutException:
            failures.append(late)
        except (NotPostedError, ConfigurationError) as error:
            failures.append(str(error))
        except Exception as error:  # noqa: BLE001 - its message may show the address, which may be a secret
            failures.append(f"{type(error).__name__}")

    # A thread, because HTTP timeouts do not limit name resolution.
    thread = threading.Thread(target=attempt, name="datapipe-notification", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise NotPostedError(late)
    if failures:
        raise NotPostedError(failures[0])


def _post(connection: Connection, endpoint: str, body: Any, timeout: float) -> None:
    address = base_url(connection)
    if endpoint:
        address = f"{address.rstrip('/')}/{endpoint.lstrip('/')}"
    extra: Mapping[str, Any] = connection.extra_dejson
    headers = {name: str(value) for name, value in extra.items() if name not in _NO_HEADERS}
    request = httpx.Request(
        "POST",
        address,
        headers={"user-agent": f"airflow-provider-datapipe/{__version__}"} | headers,
        json=body,
        extensions={"timeout": httpx.Timeout(timeout).as_dict()},
    )
    if connection.login:
        next(httpx.BasicAuth(connection.login, connection.password or "").auth_flow(request))
    # A transport, because a client of httpx would log the whole address. A transport does not follow redirects.
    with httpx.HTTPTransport(verify=trust(None), proxy=environment_proxy(address)) as transport:
        answer = transport.handle_request(request)
        answer.close()
    if not answer.is_success:
        raise NotPostedError(f"the answer was {answer.status_code}")
