"""What can go wrong, told by who has to hear it: a caller, the person at the command line, or a run."""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """
    A request is refused; becomes an ``ErrorDto``.

    :param message: What is wrong and what to do, in a line.
    :param error_code: A stable name of the error, for programs.
    :param active_run_id: The run that stands in the way, once it exists (409 only).
    """

    status = 500
    default_code = "internal_error"

    def __init__(self, message: str, *, error_code: str | None = None, active_run_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code or self.default_code
        self.active_run_id = active_run_id

    def as_json(self) -> dict[str, Any]:
        """Give the body of the answer; what is absent is left out."""
        body: dict[str, Any] = {"error_code": self.error_code, "message": self.message}
        if self.active_run_id is not None:
            body["active_run_id"] = self.active_run_id
        return body


class BadRequestError(ServiceError):
    """400: the request, or the state of what it asks about, does not allow it."""

    status = 400
    default_code = "bad_request"


class UnauthorizedError(ServiceError):
    """401: no key, or a wrong one."""

    status = 401
    default_code = "unauthorized"


class NotFoundError(ServiceError):
    """
    404: there is no such resource.

    :param kind: What was looked for, such as ``ELT stream``.
    :param resource_id: The id that nothing has.
    """

    status = 404
    default_code = "not_found"

    def __init__(self, kind: str, resource_id: str) -> None:
        super().__init__(f"There is no {kind} with the id {resource_id[:100]!r}.")
        self.resource_id = resource_id


class ConflictError(ServiceError):
    """409: a run is active or scheduled already."""

    status = 409
    default_code = "conflict"


class PayloadTooLargeError(ServiceError):
    """413: the body has more bytes than are taken."""

    status = 413
    default_code = "payload_too_large"


class UnsupportedMediaTypeError(ServiceError):
    """415: the body is of another kind than is taken."""

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
    """A run cannot go on. The message is what the run shows: one line with what, where and what to do."""


class SetupError(Exception):
    """The command line cannot do what it was asked; the message is all that is printed."""
