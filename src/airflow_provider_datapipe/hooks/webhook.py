"""Hook that pushes data to webhooks of the service, which have their own addresses and credentials."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from ssl import SSLCertVerificationError
from typing import Any

import httpx
import requests
from airflow.providers.http.hooks.http import HttpHook
from requests.auth import AuthBase
from requests.exceptions import ConnectTimeout, RequestException, Timeout
from typing_extensions import override
from urllib3.exceptions import HTTPError, NewConnectionError, ProxyError

from airflow_provider_datapipe import __version__
from airflow_provider_datapipe.api.canonical import canonical
from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    TransportError,
    class_of_status,
    first_line,
    one_line,
)
from airflow_provider_datapipe.api.http_logs import mask_http_logs
from airflow_provider_datapipe.api.masking import Mask, user_info
from airflow_provider_datapipe.api.retry import RetryPolicy, retry_after_of
from airflow_provider_datapipe.api.settings import environment_proxy
from airflow_provider_datapipe.api.webhook import Authentication
from airflow_provider_datapipe.hooks.connection import named
from airflow_provider_datapipe.hooks.webhook_connection import WebhookSettings, address, webhook_settings
from airflow_provider_datapipe.hooks.webhook_transport import DirectSession, PunctualAdapter
from airflow_provider_datapipe.webhook.delivery import Sending, Sent, UnconfirmedError, send

# The most bytes of a response that are read. It has only the number of accepted rows, or an error.
_LONGEST_ANSWER = 64 << 10
_AT_A_TIME = 8 << 10
# Larger numbers of accepted rows in a response are ignored: no request has so many rows.
_MOST_ROWS = 1 << 53
_CONNECT_LIMIT = 10.0
_TEST_LIMIT = 15.0
_HINTS = {
    401: "Check the authentication of {connection}: the method, the header and the secret.",
    403: "Check the authentication of {connection}: the method, the header and the secret.",
    404: "Check the host of {connection}, and the endpoint: each table has its own address.",
    413: "Send less at a time: lower max_batch_bytes.",
    429: "Send less often.",
    507: "The disk of the service is full: free space there, then try again.",
}
_HINT_5XX = "The service has a problem; try again later."
_BAD_REQUESTS = (400, 422)
#: Introductions to an error in the message of Test Connection.
_MESSAGES_OF_TEST: tuple[tuple[type[DatapipeError] | tuple[type[DatapipeError], ...], str], ...] = (
    ((AuthenticationError, PermissionDeniedError), "The webhook is there, but does not accept the credentials. "),
    (
        NotFoundError,
        "No table has this address, so the credentials were not checked. This is expected if tasks set an endpoint. ",
    ),
    ((RateLimitError, ServerError), "The service is there, but has a problem. "),
    ((ApiError, ProtocolError), "The response does not come from a webhook. "),
)


class _Credentials(AuthBase):
    """
    Authentication of requests: adds the credentials, and the signature of the final body.

    :param authentication: authentication method and secrets.
    """

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body = request.body or b""
        request.headers.update(self._authentication.headers(body.encode() if isinstance(body, str) else body))
        return request


class WebhookIngestHook(HttpHook):
    """
    Hook that pushes JSON to a webhook connection of the service.

    It sends canonical JSON, and signs the bytes that it sends. It does not follow redirects, so that no other address
    gets the credentials.

    :param webhook_conn_id: the :ref:`webhook connection <webhook-connection>`.
    """

    conn_name_attr = "webhook_conn_id"
    default_conn_name = "datapipe_webhook_default"
    conn_type = "datapipe_webhook"
    hook_name = "Datapipe webhook"

    def __init__(self, webhook_conn_id: str = default_conn_name) -> None:
        super().__init__(method="POST", http_conn_id=webhook_conn_id)
        self.webhook_conn_id = webhook_conn_id
        #: Name of the connection in messages.
        self._connection_name = named(webhook_conn_id)

    @cached_property
    def settings(self) -> WebhookSettings:
        """
        Settings of the webhook.

        :raises ConfigurationError: if the connection is invalid.
        """
        return webhook_settings(self.get_connection(self.webhook_conn_id))

    @override
    def get_conn(
        self, headers: dict[Any, Any] | None = None, extra_options: dict[str, Any] | None = None
    ) -> requests.Session:
        """
        Create a session of requests that authenticates its requests.

        :param headers: further headers.
        :param extra_options: not used; the connection has all settings.
        :raises ConfigurationError: if the connection is invalid.
        """
        settings = self.settings
        self.base_url, self._base_url_initialized = settings.url, True
        self.adapter = PunctualAdapter(settings.timeout)
        session = self._configure_session_from_mount_adapters(DirectSession())
        # Set also without credentials, because requests would otherwise read a password from the user's .netrc.
        session.auth = _Credentials(settings.authentication)
        session.verify = settings.ca_bundle or True
        if proxy := settings.proxy or environment_proxy(settings.url):
            session.proxies = {"http": proxy, "https": proxy}
        elif settings.is_here:
            # Ignore a proxy of the environment: requests to the local service must not go through it.
            session.trust_env = False
        else:
            # requests would read NO_PROXY in another way.
            session.proxies = {"no_proxy": "*"}
        session.headers.update(
            {
                "accept": "application/json",
                "accept-encoding": "identity",
                "content-type": "application/json",
                "user-agent": f"airflow-provider-datapipe/{__version__}",
                **(headers or {}),
            }
        )
        return session

    @cached_property
    def _mask(self) -> Mask:
        proxy = self.settings.proxy or environment_proxy(self.settings.url)
        mask = Mask((*self.settings.secrets, *user_info(proxy)))
        mask_http_logs(mask)
        return mask

    @cached_property
    def _session(self) -> requests.Session:
        return self.get_conn()

    def close(self) -> None:
        """Close the HTTP connections of the session, if it was created."""
        if "_session" in self.__dict__:
            self._session.close()
            del self._session

    def push(self, payload: Any, endpoint: str | None = None) -> Sent:
        """
        Send a payload until it is accepted, or the connection's ``retry_budget`` is used up.

        A request without a response is sent again. Its rows may then be duplicated, which the result states.

        :param payload: an object or a list of objects, of types that :mod:`airflow_provider_datapipe.api.canonical`
            supports.
        :param endpoint: the end of the table's address, if the connection contains only its beginning.
        :raises NotCanonicalError: if the payload has no canonical form. Nothing was sent.
        :raises DatapipeError: if the payload was not accepted.
        """
        try:
            return send(canonical(payload), self.sending(endpoint))
        except UnconfirmedError as failed:
            raise failed.error from None

    def sending(self, endpoint: str | None = None) -> Sending:
        """
        Return the function that sends request bodies, with its retry policy and its log function.

        :param endpoint: the end of the table's address, if the connection contains only its beginning.
        :raises ConfigurationError: if the connection is invalid.
        """
        url = address(self.settings, endpoint)
        return Sending(
            lambda body: self._post(url, body), RetryPolicy(budget=self.settings.retry_budget), self.log.warning
        )

    def post(self, body: bytes, endpoint: str | None = None) -> int | None:
        """
        Send a request body unchanged, without retries.

        :param body: canonical JSON.
        :param endpoint: the end of the table's address, if the connection contains only its beginning.
        :return: number of rows that the service reports as accepted; None without a report.
        :raises DatapipeError: if the body was rejected, or its outcome is unknown.
        """
        return self._post(address(self.settings, endpoint), body)

    def _post(self, url: str, body: bytes, *, limit: float | None = None) -> int | None:
        session = self._session
        request = session.prepare_request(requests.Request("POST", url, data=body))
        return _rows(self._answer(session, request, limit)[1])

    @override
    def run_and_check(
        self, session: requests.Session, prepped_request: requests.PreparedRequest, extra_options: dict[Any, Any]
    ) -> requests.Response:
        """
        Send a request that :meth:`run` has prepared, with the limits and error handling of this hook.

        :param session: the return value of :meth:`get_conn`.
        :param prepped_request: the request.
        :param extra_options: not used.
        :raises DatapipeError: if the request was rejected, or its outcome is unknown.
        """
        response, text = self._answer(session, prepped_request)
        response._content = text  # noqa: SLF001 - it was read with limits of size and time
        # Masked, because callers may log it or return it as the result of their task.
        response.reason = self._sanitized(response.reason or "")
        return response

    def _answer(
        self, session: requests.Session, request: requests.PreparedRequest, limit: float | None = None
    ) -> tuple[requests.Response, bytes]:
        timeout = min(self.settings.timeout, limit or self.settings.timeout)
        options = session.merge_environment_settings(
            request.url, proxies=dict(session.proxies), stream=True, verify=session.verify, cert=None
        )
        deadline, mask = time.monotonic() + timeout, self._mask
        try:
            response = session.send(
                request, timeout=(min(_CONNECT_LIMIT, 0.9 * timeout), timeout), allow_redirects=False, **options
            )
        except (RequestException, HTTPError) as error:
            failure = self._transport_error(error, timeout)
        else:
            with closing(response):
                text = mask.in_json(_read(response, deadline))
            if httpx.codes.is_success(response.status_code):
                return response, text
            failure = self._refusal(response, text)
        # Raised outside the except block, because the error of a library may contain secrets.
        raise failure

    def _transport_error(self, error: Exception, timeout: float) -> DatapipeError:
        where, causes = self.settings.origin, list(_causes(error))
        advice = f"\nCheck the host of {self._connection_name}, and that the service is up."
        if untrusted := next((each for each in causes if isinstance(each, SSLCertVerificationError)), None):
            return ConfigurationError(
                f"{where} shows a certificate that is not trusted ({untrusted.verify_message}).\nIf it is the right "
                f"server, set ca_bundle of {self._connection_name} to the certificate of its authority."
            )
        sent = not any(isinstance(each, NewConnectionError | ConnectTimeout | ProxyError) for each in causes)
        if isinstance(error, Timeout):
            how = f"within {timeout:g} s" if sent else "in time: no connection was established"
            return RequestTimeoutError(f"The webhook at {where} did not respond {how}.{advice}", sent=sent)
        # The innermost error has the message of the operating system.
        reasons = [each.strerror for each in causes if isinstance(each, OSError) and each.strerror]
        reported = self._sanitized(reasons[-1] if reasons else type(causes[-1]).__name__, longest=100)
        return TransportError(f"The webhook at {where} did not respond ({reported}).{advice}", sent=sent)

    def _refusal(self, response: requests.Response, text: bytes) -> DatapipeError:
        where, status = self.settings.origin, response.status_code
        if not httpx.codes.is_error(status):
            return ProtocolError(
                f"The webhook at {where} answered {status}, and data was not accepted: redirects are not "
                f"followed.\nSet the host of {self._connection_name} to the address that accepts the data."
            )
        hint = _HINTS.get(status, _HINT_5XX if httpx.codes.is_server_error(status) else "")
        hint = hint.format(connection=self._connection_name)
        reported = _json(text)
        reason = self._sanitized(reported.get("message") or response.reason or "no reason").rstrip(".")
        return class_of_status(status)(
            f"The webhook at {where} answered {status}: {reason}.\n{hint}".rstrip(),
            status=status,
            error_code=self._sanitized(reported["error_code"]) if reported.get("error_code") else None,
            retry_after=retry_after_of(response.headers),
        )

    def _sanitized(self, text: object, longest: int = 500) -> str:
        """Return a text of the service on one line, without secrets that it may repeat."""
        return one_line(str(text), secret=self._mask, longest=longest)

    @override
    def test_connection(self) -> tuple[bool, str]:
        """
        Return True if the webhook accepts the credentials, else False, and a message (Airflow's Test Connection).

        The test sends a body of invalid JSON. A webhook rejects it only after it has checked the credentials.
        """
        # Airflow gives the connection of the form a random ID.
        self._connection_name = "this connection"
        try:
            self._post(self.settings.url, b"{", limit=_TEST_LIMIT)
        except ConfigurationError as error:
            return False, first_line(error)
        except DatapipeError as error:
            if isinstance(error, ApiError) and error.status in _BAD_REQUESTS:
                return True, f"The webhook at {self.settings.origin} is there and accepts the credentials."
            reported = next((reported for kind, reported in _MESSAGES_OF_TEST if isinstance(error, kind)), "")
            return False, f"{reported}{error}"
        finally:
            self.close()
        return False, f"The webhook at {self.settings.origin} accepted a body of invalid JSON. Check the address."


def _read(response: requests.Response, deadline: float) -> bytes:
    """Read a response body with limits of size and time. Ignore errors, because the status code is sufficient."""
    body = bytearray()
    try:
        while len(body) < _LONGEST_ANSWER and time.monotonic() < deadline:
            piece = response.raw.read1(_AT_A_TIME)
            if not piece:
                break
            body += piece
    except (HTTPError, OSError):
        pass
    return bytes(body)


def _rows(text: bytes) -> int | None:
    accepted = _json(text).get("accepted")
    return accepted if type(accepted) is int and 0 <= accepted <= _MOST_ROWS else None


def _json(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the innermost last, because requests wraps the errors of urllib3."""
    seen: list[BaseException] = []
    following: object = error
    while isinstance(following, BaseException) and following not in seen:
        seen.append(following)
        yield following
        reason = getattr(following, "reason", None)
        inner = [each for each in (reason, *following.args) if isinstance(each, BaseException)]
        following = inner[0] if inner else following.__cause__ or following.__context__
