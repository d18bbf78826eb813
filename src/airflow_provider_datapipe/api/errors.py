"""
Everything that can go wrong between a caller and the service, as one tree.

.. code-block:: text

    DatapipeError
    ├── ConfigurationError          the connection can't be used as it is
    ├── InvalidInputError           an argument breaks a rule of the interface; nothing was sent
    ├── TransportError              no answer; sent tells whether the request may have arrived
    │   └── RequestTimeoutError
    ├── ProtocolError               the answer is not what the interface says
    └── ApiError                    the service refused: by the status of its answer
        ├── InvalidRequestError     400, 422 and other 4xx
        ├── AuthenticationError     401
        ├── PermissionDeniedError   403
        ├── NotFoundError           404
        ├── ConflictError           409, with active_run_id where the service gives it
        ├── RateLimitError          429, with retry_after
        └── ServerError             5xx, with retry_after

The first line of a message is the cause; further lines have the request, the host and the next step. A message never
holds the API key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.masking import Mask

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request

# Control characters of both sets, line ends of Unicode, and what turns the direction of writing.
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_LONGEST_TEXT = 500
_LONGEST_MESSAGE = 2000


def one_line(text: str, *, secret: Mask | str | None = None, longest: int = _LONGEST_TEXT) -> str:
    """
    Make somebody else's text safe to show: one line, short, without the key.

    :param text: the text, of any length.
    :param secret: what must not be shown, in any encoding; a service may echo the key.
    :param longest: how many characters are kept.
    """
    # The secret goes first: a cut in the middle of it would leave a part that no longer matches.
    if secret:
        text = (Mask((secret,)) if isinstance(secret, str) else secret).in_text(text)
    text = _CONTROL.sub(" ", text[: longest * 4]).strip()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def first_line(error: BaseException) -> str:
    """Return the cause: the first line of an error's message, or the name of its class."""
    return str(error).partition("\n")[0] or type(error).__name__


def in_one_line(error: object) -> str:
    """Return the whole message of an error as one line, for lists with an item for each error."""
    return one_line(str(error), longest=_LONGEST_MESSAGE)


class DatapipeError(Exception):
    """Base of all errors of this package."""

    def add_detail(self, line: str) -> None:
        """
        Add a line to the message, after the cause.

        :param line: the line.
        """
        cause, separator, rest = str(self).partition("\n")
        self.args = (f"{cause}\n{line}{separator}{rest}",)


class ConfigurationError(DatapipeError):
    """The connection can't be used as it is; nothing was sent."""


class InvalidInputError(DatapipeError):
    """An argument of an endpoint function breaks a rule of the interface; nothing was sent."""


class TransportError(DatapipeError):
    """
    The service gave no answer.

    :param message: what was asked, and what happened.
    :param sent: whether the request may have reached the service, so that it may have been carried out.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class RequestTimeoutError(TransportError):
    """The service gave no answer in time."""


class ProtocolError(DatapipeError):
    """The service answered something that the interface does not say."""


class ApiError(DatapipeError):
    """
    The service refused a request.

    :param message: one line for people.
    :param status: HTTP status of the answer.
    :param error_code: ``error_code`` of the answer's body, where it has one.
    :param retry_after: seconds after which the service wants to be asked again, where it says so.
    :param active_run_id: the run that stands in the way, where the service names it.
    :param request: the refused request.
    """

    #: Cause before the text of the service.
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
    """The request breaks a rule of the service (400 and every 4xx without a class of its own)."""


class AuthenticationError(ApiError):
    """The API key is missing or wrong (401)."""

    cause = "The service does not accept the API key"
    hint = "Check {key}."


class PermissionDeniedError(ApiError):
    """The API key does not allow this (403)."""

    cause = "The API key does not allow this request"
    hint = "Check what the API key{of_connection} is allowed to do."


class NotFoundError(ApiError):
    """What was asked for does not exist (404)."""

    cause = "Not found"
    hint = "Check the ID, and that the API key{of_connection} belongs to the same account."


class ConflictError(ApiError):
    """Something that is there already stands in the way (409)."""

    cause = "Conflict"


class RateLimitError(ApiError):
    """Too many requests (429)."""

    cause = "Too many requests"
    hint = "Raise the poll interval, or lower max_connections{of_connection}."


class ServerError(ApiError):
    """The service failed (5xx)."""

    cause = "The service failed"
    hint = "Try again later."


def class_of_status(status: int) -> type[ApiError]:
    """Tell which error a status of 400 or more is."""
    known: dict[int, type[ApiError]] = {
        401: AuthenticationError,
        403: PermissionDeniedError,
        404: NotFoundError,
        409: ConflictError,
        429: RateLimitError,
    }
    return known.get(status, ServerError if status >= 500 else InvalidRequestError)  # noqa: PLR2004 - HTTP's own limit
