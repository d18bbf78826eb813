"""
Exceptions of the API client.

.. code-block:: text

    DatapipeError
    ├── ConfigurationError          the connection settings are not usable
    ├── InvalidInputError           an argument violates a rule of the interface; nothing was sent
    ├── TransportError              no response; ``sent`` is True if the request may have arrived
    │   └── RequestTimeoutError
    ├── ProtocolError               the response does not match the interface
    └── ApiError                    the service rejected the request; subclass by HTTP status
        ├── InvalidRequestError     400, 422 and other 4xx
        ├── AuthenticationError     401
        ├── PermissionDeniedError   403
        ├── NotFoundError           404
        ├── ConflictError           409, with active_run_id if the service returns it
        ├── RateLimitError          429, with retry_after
        └── ServerError             5xx, with retry_after

The first line of a message is the cause. Further lines name the request, the host and the next step. A message never
contains the API key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.masking import Mask

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request

# C0 and C1 control characters, Unicode line separators and bidirectional controls.
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_LONGEST_TEXT = 500
_LONGEST_MESSAGE = 2000


def one_line(text: str, *, secret: Mask | str | None = None, longest: int = _LONGEST_TEXT) -> str:
    """
    Sanitize external text for messages: one line, limited length, no secrets.

    :param text: the text, of any length.
    :param secret: secrets to mask in any encoding, because a service may echo the API key.
    :param longest: maximum length in characters, default 500.
    """
    # Mask before truncating: a truncated secret no longer matches.
    if secret:
        text = (Mask((secret,)) if isinstance(secret, str) else secret).in_text(text)
    text = _CONTROL.sub(" ", text[: longest * 4]).strip()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, which is the cause, or the class name if the message is empty."""
    return str(error).partition("\n")[0] or type(error).__name__


def in_one_line(error: object) -> str:
    """Return the whole message of an error as one line, for lists of errors."""
    return one_line(str(error), longest=_LONGEST_MESSAGE)


class DatapipeError(Exception):
    """Base class of all errors of this package."""

    def add_detail(self, line: str) -> None:
        """
        Insert a line into the message, after the cause.

        :param line: the line.
        """
        cause, separator, rest = str(self).partition("\n")
        self.args = (f"{cause}\n{line}{separator}{rest}",)


class ConfigurationError(DatapipeError):
    """The connection settings are not usable; nothing was sent."""


class InvalidInputError(DatapipeError):
    """An argument of an endpoint function violates a rule of the interface; nothing was sent."""


class TransportError(DatapipeError):
    """
    The service did not respond.

    :param message: the request and the failure.
    :param sent: True if the service may have received and processed the request.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class RequestTimeoutError(TransportError):
    """The service did not respond in time."""


class PermitTimeoutError(DatapipeError):
    """The rate limit of the connection did not permit the request in time; nothing was sent."""


class ProtocolError(DatapipeError):
    """The response does not match the interface."""


class ApiError(DatapipeError):
    """
    The service rejected a request.

    :param message: the error message.
    :param status: HTTP status of the response.
    :param error_code: ``error_code`` of the response body, if present.
    :param retry_after: seconds from the ``Retry-After`` header, if present.
    :param active_run_id: the conflicting run, if the service names it.
    :param request: the rejected request.
    """

    #: Start of the message, before the text of the service.
    cause = "The service refused the request"
    #: Next step; ``{of_connection}`` names the Airflow connection.
    hint = ""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        error_code: str | None = None,
        retry_after: float | None = None,
        active_run_id: str | None = None,
        request: Request[Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.retry_after = retry_after
        self.active_run_id = active_run_id
        self.request = request


class InvalidRequestError(ApiError):
    """The request violates a rule of the service (400 and every 4xx without a class of its own)."""


class AuthenticationError(ApiError):
    """The API key is missing or wrong (401)."""

    cause = "The service does not accept the API key"
    hint = "Check {key}."


class PermissionDeniedError(ApiError):
    """The API key does not allow this (403)."""

    cause = "The API key does not allow this request"
    hint = "Check what the API key{of_connection} is allowed to do."


class NotFoundError(ApiError):
    """The requested resource does not exist (404)."""

    cause = "Not found"
    hint = "Check the ID, and that the API key{of_connection} belongs to the same account."


class ConflictError(ApiError):
    """The request conflicts with the current state, such as an active run (409)."""

    cause = "Conflict"


class RateLimitError(ApiError):
    """Too many requests (429)."""

    cause = "Too many requests"
    hint = "Raise the poll interval, or set a lower max_requests_per_second{of_connection}."


class ServerError(ApiError):
    """The service failed (5xx)."""

    cause = "The service failed"
    hint = "Try again later."


def class_of_status(status: int) -> type[ApiError]:
    """Return the error class for an HTTP status of 400 or more."""
    known: dict[int, type[ApiError]] = {
        401: AuthenticationError,
        403: PermissionDeniedError,
        404: NotFoundError,
        409: ConflictError,
        429: RateLimitError,
    }
    return known.get(status, ServerError if status >= 500 else InvalidRequestError)  # noqa: PLR2004 - HTTP's own limit
