"""Exceptions of the service: for HTTP clients, for the command line and for runs."""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """
    Refused request; becomes an ``ErrorDto``.

    :param message: The problem and the remedy, in one line.
    :param error_code: A stable name of the error, for programs.
    :param active_run_id: The conflicting run, once it exists (409 only).
    """

    status = 500
    default_code = "internal_error"

    def __init__(self, message: str, *, error_code: str | None = None, active_run_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code or self.default_code
        self.active_run_id = active_run_id

    def as_json(self) -> dict[str, Any]:
        """Return the response body, without absent fields."""
        body: dict[str, Any] = {"error_code": self.error_code, "message": self.message}
        if self.active_run_id is not None:
            body["active_run_id"] = self.active_run_id
        return body


class BadRequestError(ServiceError):
    """400: the request, or the state of its resource, does not allow it."""

    status = 400
    default_code = "bad_request"


class UnauthorizedError(ServiceError):
    """401: the key is missing or wrong."""

    status = 401
    default_code = "unauthorized"


class NotFoundError(ServiceError):
    """
    404: the resource does not exist.

    :param kind: The kind of resource, such as ``ELT stream``.
    :param resource_id: The unknown ID.
    """

    status = 404
    default_code = "not_found"

    def __init__(self, kind: str, resource_id: str) -> None:
        super().__init__(f"There is no {kind} with the id {resource_id[:100]!r}.")
        self.resource_id = resource_id


class ConflictError(ServiceError):
    """409: a run is already active or scheduled."""

    status = 409
    default_code = "conflict"


class PayloadTooLargeError(ServiceError):
    """413: the body has more bytes than the route accepts."""

    status = 413
    default_code = "payload_too_large"


class UnsupportedMediaTypeError(ServiceError):
    """415: the route does not accept the content type of the body."""

    status = 415
    default_code = "unsupported_media_type"


class InsufficientStorageError(ServiceError):
    """
    507: a write failed.

    :param reason: The reason, in the words of the operating system.
    :param advice: The remedy.
    """

    status = 507
    default_code = "insufficient_storage"

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason} in the home of the service, which its log names: {advice}, then try again.")


class RunError(Exception):
    """Failure of a run. The run shows the message: one line with the problem, the place and the remedy."""


class SetupError(Exception):
    """Failure of a command. The command prints only the message."""
