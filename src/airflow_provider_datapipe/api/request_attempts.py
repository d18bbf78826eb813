"""Attempts of one request, without I/O: shared by the blocking and the asyncio client."""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from pydantic import TypeAdapter, ValidationError

from airflow_provider_datapipe.api import retry
from airflow_provider_datapipe.api.body import ENCODINGS, BodyReader, TooLarge, Unreadable, replace_unpaired_surrogates
from airflow_provider_datapipe.api.errors import (
    ConfigurationError,
    DatapipeError,
    InvalidInputError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
    class_of_status,
    one_line,
)
from airflow_provider_datapipe.api.masking import Mask, without_user_info
from airflow_provider_datapipe.api.models.common import Page, RunConflict
from airflow_provider_datapipe.api.request import NO_CONTENT, Request
from airflow_provider_datapipe.api.settings import Settings, origin_of, sent_url

T = TypeVar("T")

# Both clients log under one name.
log = logging.getLogger("airflow_provider_datapipe.api.client")

_REFUSED = 400
_REDIRECT = 300
#: Maximum URL length. Servers reject longer URLs.
_LONGEST_URL = 65_536


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """
    Prepared HTTP request of one attempt.

    :param method: HTTP method.
    :param url: complete, quoted URL.
    :param content: JSON body, None for no body.
    :param headers: all headers, including the API key.
    """

    method: str
    url: str
    content: bytes | None
    headers: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """
    Status line and headers of a response.

    :param status: HTTP status.
    :param reason: reason phrase.
    :param headers: headers, with case-insensitive names.
    """

    status: int
    reason: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """
    Failure of an attempt without a complete response.

    :param cause: exception of the HTTP library.
    :param sent: True if the service may have received the request.
    :param timed_out: True if the attempt timed out.
    :param reason: text for the error message.
    """

    cause: Exception
    sent: bool
    timed_out: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Instruction to retry after a delay in seconds."""

    delay: float


@cache
def _reader(answer: Any) -> TypeAdapter[Any]:
    """Return the response validator, cached because building one costs more than using it."""
    return TypeAdapter(answer)


class RequestAttempts(Generic[T]):
    """State of one request across its attempts. The client reports results and gets the response or a retry delay."""

    def __init__(self, settings: Settings, request: Request[T], mask: Mask | None = None) -> None:
        self._settings = settings
        self._mask = mask or Mask((settings.api_key,))
        self._request = request
        #: Time of the first attempt: a wait for the rate limit before it does not count as time without an answer.
        self._began = 0.0
        self._attempts = 0
        self.where = origin_of(settings.base_url)

    def attempt(self) -> PreparedRequest:
        """
        Count an attempt and return the HTTP request to send.

        :raises ProtocolError: if the service directed the client to another origin.
        :raises InvalidInputError: if the URL is too long, or if a text has no UTF-8 encoding.
        """
        if self._request.origin is not None and origin_of(self._request.origin) != self.where:
            raise self._protocol_error(
                f"The service at {self.where} sent its client to {self._request.origin} for "
                f"{self._request.label}: refused, because the API key is for one origin only."
            )
        if not self._attempts:
            self._began = time.monotonic()
        self._attempts += 1
        body = self._request.body
        try:
            query = urlencode(self._request.query, quote_via=quote)
            content = None
            if body is not None:
                content = json.dumps(
                    body.as_json(), ensure_ascii=False, separators=(",", ":"), allow_nan=False
                ).encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                f"{self._request.endpoint.name}: an argument contains text that UTF-8 can't encode, such as an "
                "unpaired surrogate. Nothing was sent."
            ) from None
        url = sent_url(self._settings.base_url) + self._request.path + (f"?{query}" if query else "")
        if len(url) > _LONGEST_URL:
            raise InvalidInputError(
                f"{self._request.endpoint.name}: the address would have {len(url):,} characters. Nothing was sent."
            )
        headers = self._settings.headers
        if content is not None:
            headers["content-type"] = "application/json"
        return PreparedRequest(self._request.endpoint.method, url, content, headers)

    def received(self, head: ResponseHead, body: bytes) -> T | RetryAfter:
        """Return the parsed response or a retry instruction, or raise. Mask secrets that the service echoes."""
        body = self._mask.in_json(replace_unpaired_surrogates(body))
        if head.status >= _REFUSED:
            return self._retry_or_raise(self._refusal(head, body))
        if head.status >= _REDIRECT:
            # Following the redirect would send the API key to another address.
            raise ProtocolError(
                f"{self._request.label} at {self.where} answered {head.status}, a redirect, which is not "
                f"followed.\nCheck {self._settings.address_field}."
            )
        if self._attempts > 1:
            log.info("%s succeeded at attempt %d.", self._request.label, self._attempts)
        if self._request.endpoint.answer is NO_CONTENT and _is_acknowledgment(head, body):
            return None  # type: ignore[return-value]  # T is None here
        try:
            reader = _reader(self._request.endpoint.answer)  # type: ignore[arg-type]  # every class is hashable
            answer: T = reader.validate_json(body)
        except ValidationError as error:
            raise self._protocol_error(
                f"{self._request.label} at {self.where} answered {head.status} "
                f"({one_line(head.headers.get('content-type') or 'no content type', longest=80)}) with a body "
                f"that does not match the interface: {_first_problem(error)}.",
                f"Check that {self._settings.address_field} is that of the management interface.",
            ) from None
        except (ArithmeticError, LookupError, RecursionError, TypeError) as error:
            # A pydantic validator raised an error other than ValidationError.
            raise self._protocol_error(
                f"{self._request.label} at {self.where} answered {head.status} with a body that could not be read "
                f"({type(error).__name__})."
            ) from error
        return answer.with_time(retry.date_of(head.headers)) if isinstance(answer, Page) else answer

    def open_body(self, head: ResponseHead) -> BodyReader:
        """
        Return a reader for the response body.

        :param head: status line and headers of the response.
        :raises ProtocolError: if the content encoding is not supported.
        """
        encoding = head.headers.get("content-encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            raise self._protocol_error(
                f"{self._request.label} at {self.where} answered in the encoding {one_line(encoding, longest=40)!r}, "
                "which was not requested."
            )
        return BodyReader(encoding, self._settings.max_answer_bytes)

    def failed(self, lost: TransportFailure | TooLarge | Unreadable) -> RetryAfter:
        """Return a retry instruction for a failed attempt, or raise an error. Call it outside of ``except`` blocks."""
        if isinstance(lost, TooLarge):
            raise ProtocolError(
                f"{self._request.label} at {self.where} returned more than {self._settings.max_answer_bytes:,} bytes; "
                "the rest was not read."
            )
        if isinstance(lost, Unreadable):
            raise ProtocolError(f"{self._request.label} at {self.where} returned a body that cannot be decompressed.")
        if untrusted := _untrusted_certificate(lost.cause):
            raise ConfigurationError(
                f"{self.where} shows a certificate that is not trusted ({untrusted}).\nIf it is the right server, set "
                f"ca_bundle{self._settings.of_connection} to the certificate of its authority."
            )
        if lost.timed_out:
            within = f"within {self._settings.timeout:g} s" if lost.sent else "in time: no connection was established"
            return self._retry_or_raise(RequestTimeoutError(self._no_answer(within), sent=lost.sent))
        reason = one_line(without_user_info(lost.reason) or type(lost.cause).__name__, secret=self._mask)
        return self._retry_or_raise(TransportError(self._no_answer(f"({reason})"), sent=lost.sent))

    def _no_answer(self, how: str) -> str:
        return (
            f"{self._request.label} got no answer from {self.where} {how}.\nCheck {self._settings.address_field}, and "
            "that the service is up."
        )

    def _retry_or_raise(self, error: DatapipeError) -> RetryAfter:
        if not self._request.once and retry.may_send_again(error, self._request.endpoint.repeat):
            elapsed = time.monotonic() - self._began
            delay = retry.delay_before(self._attempts, error, elapsed=elapsed, policy=self._settings.retry)
            if delay is not None:
                if self._attempts == 1:
                    log.warning("%s\nTrying again for up to %g s.", error, self._settings.retry.budget)
                return RetryAfter(delay)
        raise error

    def _protocol_error(self, *lines: str) -> ProtocolError:
        return ProtocolError(self._lines(*lines))

    def _lines(self, *parts: str) -> str:
        """Join the lines of a message that contains external text. Shorten each line and mask secrets."""
        return "\n".join(one_line(part, secret=self._mask, longest=1000) for part in parts if part)

    def _sanitized(self, text: str) -> str:
        """Sanitize the message of an error response, which may repeat the API key or secrets of the request."""
        if self._request.body is not None and (secrets := self._request.body.secrets):
            text = Mask(secrets).in_text(text)
        return one_line(text, secret=self._mask)

    def _refusal(self, head: ResponseHead, body: bytes) -> DatapipeError:
        status = head.status
        error_class = class_of_status(status)
        reported = _reported(body)
        text = self._sanitized(reported.message) if reported else (head.reason or "no reason")
        hint = error_class.hint.format(key=self._settings.key_field, of_connection=self._settings.of_connection)
        return error_class(
            self._lines(
                f"{error_class.cause}: {text.rstrip('.')}.",
                f"Request: {self._request.label} at {self.where} answered {status}.",
                hint,
            ),
            status=status,
            error_code=self._sanitized(reported.error_code) if reported else None,
            retry_after=retry.retry_after_of(head.headers),
            active_run_id=reported.active_run_id if reported else None,
            request=self._request,
        )


def _is_acknowledgment(head: ResponseHead, body: bytes) -> bool:
    """
    Return True if a successful response without a declared body confirms the request.

    The body may be empty, JSON or plain text. An HTML page comes from a proxy's login page or another server.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    return not text.lstrip().startswith("<") and "html" not in head.headers.get("content-type", "").lower()


def _untrusted_certificate(error: BaseException | None) -> str | None:
    """Return the reason if certificate verification failed, or None."""
    while error is not None:
        # aiohttp's certificate error is an instance of the class, too, but has no message.
        if message := isinstance(error, ssl.SSLCertVerificationError) and getattr(error, "verify_message", None):
            return str(message)
        error = error.__cause__ or error.__context__
    return None


def _reported(body: bytes) -> RunConflict | None:
    """Parse the body of an error response; return None if it has no message."""
    try:
        return RunConflict.model_validate_json(body)
    except ValidationError:
        pass
    try:
        # A body of another shape may still have a message.
        message = json.loads(body)["message"]
        return RunConflict(error_code="", message=str(message))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _first_problem(error: ValidationError) -> str:
    """Return position and message of the first validation error, without the value, which may be secret."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return one_line(f"{where}: {problem['msg']}" if where else problem["msg"], longest=200)
