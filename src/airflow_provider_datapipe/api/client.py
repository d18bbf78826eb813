"""The only code that talks HTTP: two thin clients, one for threads and one for event loops, around one core."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Self, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from airflow_provider_datapipe import __version__
from airflow_provider_datapipe.api import paging, retry
from airflow_provider_datapipe.api.body import ENCODINGS, BodyReader, TooLarge, Unreadable
from airflow_provider_datapipe.api.deadline import Deadline, bound
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
from airflow_provider_datapipe.api.models.common import Page, RunConflict
from airflow_provider_datapipe.api.request import NO_CONTENT, Request

E = TypeVar("E", bound=DatapipeError)
T = TypeVar("T")

log = logging.getLogger(__name__)

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LOOPBACK_PATTERNS = ("localhost", "127.0.0.1", "[::1]")
_REFUSED = 400
_REDIRECT = 300


@dataclass(frozen=True, slots=True)
class Settings:
    """
    How to reach one service.

    :param base_url: base address of the management interface.
    :param api_key: sent as ``x-api-key``, to this origin only.
    :param timeout: seconds that one attempt may take until its answer is complete.
    :param connect_timeout: seconds that connecting may take.
    :param retry: how patient the client is.
    :param proxy: address of an HTTP proxy.
    :param ca_bundle: path of a file with the certificates to trust, in place of the usual ones.
    :param max_connections: the most connections, and so requests, at a time.
    :param max_answer_bytes: the largest answer that is read, unpacked.
    :param allow_plain_http: allow plain http to hosts other than this machine.
    :raises ConfigurationError: the address can't be used.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 60.0
    connect_timeout: float = 10.0
    retry: retry.RetryPolicy = field(default_factory=retry.RetryPolicy)
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    max_connections: int = 16
    max_answer_bytes: int = 64 * 1024 * 1024
    allow_plain_http: bool = False

    def __post_init__(self) -> None:
        """Refuse an address that would lose the key, or that is none."""
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"The base address is not a URL: {error}.") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigurationError("The base address must be a URL such as https://api.example.com.")
        if url.userinfo or url.query or url.fragment:
            raise ConfigurationError("The base address must not hold a user, a query or a fragment.")
        if url.scheme == "http" and url.host not in _LOOPBACK and not self.allow_plain_http:
            raise ConfigurationError(
                f"Plain http to {url.host} would show the API key to the network: use https, or allow plain http "
                "in the connection."
            )
        if self.proxy is not None and not _is_proxy(self.proxy):
            raise ConfigurationError("The proxy must be a URL such as http://proxy.example.com:3128.")
        if not self.api_key:
            raise ConfigurationError("There is no API key: set it as the connection's password.")
        if not self.api_key.isascii() or not self.api_key.isprintable():
            raise ConfigurationError("The API key has characters that no HTTP header can hold.")


def _is_proxy(address: str) -> bool:
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)


@cache
def _trust(ca_bundle: str | None) -> ssl.SSLContext:
    """Read the certificates to trust, once: that takes longer than many requests."""
    if ca_bundle is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The CA bundle {ca_bundle} can't be read: {error}.") from None


@dataclass(frozen=True, slots=True)
class _Again:
    """Another attempt is to be made."""

    delay: float


@cache
def _reader(answer: Any) -> TypeAdapter[Any]:
    """Give the reader of an answer; building one costs more than using it."""
    return TypeAdapter(answer)


class _Exchange(Generic[T]):
    """One request with all its attempts, apart from I/O: is told what happened, and says what comes next."""

    def __init__(self, settings: Settings, request: Request[T]) -> None:
        self._settings = settings
        self._request = request
        self._began = time.monotonic()
        self._attempts = 0
        self.where = _origin(settings.base_url)

    def build(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Make the HTTP request of one attempt."""
        if self._request.origin is not None and _origin(self._request.origin) != self.where:
            raise ProtocolError(
                f"The service at {self.where} sent its client to {self._request.origin} for "
                f"{self._request.label}: refused, because the API key is for one origin only."
            )
        self._attempts += 1
        body = self._request.body
        try:
            return http.build_request(
                self._request.endpoint.method,
                self._settings.base_url.rstrip("/") + self._request.path,
                params=self._request.query or None,
                json=None if body is None else body.as_json(),
            )
        except httpx.InvalidURL as error:
            raise InvalidInputError(f"{self._request.endpoint.name}: {error}. Nothing was sent.") from None

    def received(self, response: httpx.Response, body: bytes) -> T | _Again:
        """Take a complete answer."""
        if response.status_code >= _REFUSED:
            return self._failed(self._refusal(response, body))
        if response.status_code >= _REDIRECT:
            # Following would carry the key to wherever the answer points.
            raise ProtocolError(
                f"{self._request.label} at {self.where} answered {response.status_code}, a redirect, which is not "
                "followed. Check the base address."
            )
        if self._attempts > 1:
            log.info("%s succeeded at attempt %d.", self._request.label, self._attempts)
        if self._request.endpoint.answer is NO_CONTENT and (not body.strip() or _is_json(body)):
            return None  # type: ignore[return-value]  # T is None then
        try:
            reader = _reader(self._request.endpoint.answer)  # type: ignore[arg-type]  # every class is hashable
            answer: T = reader.validate_json(body)
        except ValidationError as error:
            raise self._safe(
                ProtocolError,
                f"{self._request.label} at {self.where} answered {response.status_code} "
                f"({one_line(response.headers.get('content-type') or 'no content type', longest=80)}) with something "
                f"that the interface does not say: {_first_problem(error)}. Check that the base address is that of "
                "the management interface.",
            ) from None
        return answer

    def begun(self, response: httpx.Response) -> BodyReader:
        """
        Take the head of an answer, and give what reads its body.

        :raises ProtocolError: the body can't be read within bounds.
        """
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            raise self._safe(
                ProtocolError,
                f"{self._request.label} at {self.where} answered in the encoding {one_line(encoding, longest=40)!r}, "
                "which was not asked for.",
            )
        return BodyReader(encoding, self._settings.max_answer_bytes)

    def ended(self, error: Exception) -> _Again:
        """Take the end of an attempt without a complete answer; called where no exception is being handled."""
        if isinstance(error, TooLarge):
            raise self.too_large()
        if isinstance(error, Unreadable):
            raise self.unreadable()
        if untrusted := _untrusted_certificate(error):
            raise ConfigurationError(
                f"{self.where} shows a certificate that is not trusted ({untrusted}). If it is the right server, set "
                "the connection's ca_bundle to the certificate of its authority."
            )
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            within = f"within {self._settings.timeout:g} s" if sent else "in time: there is no connection"
            return self._failed(RequestTimeoutError(self._no_answer(within), sent=sent))
        reason = one_line(str(error) or type(error).__name__, secret=self._settings.api_key)
        return self._failed(TransportError(self._no_answer(f"({reason})"), sent=sent))

    def unreadable(self) -> ProtocolError:
        """Make the error of an answer that is not packed as it says."""
        return ProtocolError(f"{self._request.label} at {self.where} answered what can't be unpacked.")

    def too_large(self) -> ProtocolError:
        """Make the error of an answer that does not end."""
        return ProtocolError(
            f"{self._request.label} at {self.where} answered more than {self._settings.max_answer_bytes:,} bytes; "
            "the rest was not read."
        )

    def _no_answer(self, how: str) -> str:
        return (
            f"{self._request.label} got no answer from {self.where} {how}. Check the base address and that the "
            "service is up."
        )

    def _failed(self, error: DatapipeError) -> _Again:
        if not self._request.once and retry.may_send_again(error, self._request.endpoint.repeat):
            elapsed = time.monotonic() - self._began
            # Jitter is no secret.
            delay = retry.delay_before(
                self._attempts,
                error,
                elapsed=elapsed,
                policy=self._settings.retry,
                jitter=random.random(),  # noqa: S311
            )
            if delay is not None:
                if self._attempts == 1:
                    log.warning("%s Trying again for up to %g s.", error, self._settings.retry.budget)
                return _Again(delay)
        raise error

    def _safe(self, error_class: type[E], message: str) -> E:
        """Make an error whose text has parts that the other side wrote."""
        return error_class(one_line(message, secret=self._settings.api_key, longest=1000))

    def _refusal(self, response: httpx.Response, body: bytes) -> DatapipeError:
        status = response.status_code
        error_class = class_of_status(status)
        told = _told(body)
        text = (
            one_line(told.message, secret=self._settings.api_key) if told else (response.reason_phrase or "no reason")
        )
        message = f"{self._request.label} at {self.where} answered {status}: {text.rstrip('.')}. {error_class.hint}"
        return error_class(
            one_line(message, secret=self._settings.api_key, longest=1000),
            status=status,
            error_code=one_line(told.error_code, secret=self._settings.api_key) if told else None,
            retry_after=retry.parse_retry_after(response.headers.get("retry-after"), now=time.time()),
            active_run_id=told.active_run_id if told else None,
        )


def _origin(url: str) -> str:
    """Give scheme, host and port in one spelling."""
    parsed = httpx.URL(url)
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _untrusted_certificate(error: BaseException | None) -> str | None:
    """Say what is wrong with a certificate, where that is why there is no connection."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None


def _told(body: bytes) -> RunConflict | None:
    """Read the body of a refusal, which may be anything at all."""
    try:
        return RunConflict.model_validate_json(body)
    except ValidationError:
        pass
    try:
        # A body of another shape may still carry a sentence for people.
        message = json.loads(body)["message"]
        return RunConflict(error_code="", message=str(message))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _first_problem(error: ValidationError) -> str:
    """Say where an answer differs, without quoting it: it may hold anything."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return one_line(f"{where}: {problem['msg']}" if where else problem["msg"], longest=200)


class _Shell:
    """What both clients are made from."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "headers": {
                "x-api-key": settings.api_key,
                "accept": "application/json",
                "accept-encoding": "gzip",
                "user-agent": f"airflow-provider-datapipe/{__version__}",
            },
            # Less than the whole, so that a connection that is not made is told from an answer that does not come.
            "timeout": httpx.Timeout(settings.timeout, connect=min(settings.connect_timeout, 0.9 * settings.timeout)),
            "limits": httpx.Limits(max_connections=settings.max_connections),
            "follow_redirects": False,
            "proxy": settings.proxy,
            "verify": _trust(settings.ca_bundle),
            # A proxy of the environment is for other machines: the local service is asked directly.
            "mounts": {f"all://{host}": None for host in _LOOPBACK_PATTERNS} if settings.proxy is None else None,
        }


class Client(_Shell):
    """
    A client for threads that may block.

    :param settings: how to reach the service.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._http = httpx.Client(**self._options())
        self._deadline = Deadline()
        bound(self._http, self._deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, request: Request[T]) -> T:
        """
        Send a request and read its answer, trying again where that is safe.

        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        exchange = _Exchange(self.settings, request)
        while True:
            outcome = self._attempt(exchange)
            if not isinstance(outcome, _Again):
                return outcome
            time.sleep(outcome.delay)

    def _attempt(self, exchange: _Exchange[T]) -> T | _Again:
        self._deadline.ends = time.monotonic() + self.settings.timeout
        response = None
        try:
            response = self._http.send(exchange.build(self._http), stream=True)
            reader = exchange.begun(response)
            for piece in response.iter_raw():
                reader.feed(piece)
            body = reader.whole()
        except httpx.HTTPError as error:
            lost: Exception = error
        except (TooLarge, Unreadable) as error:
            lost = error
        else:
            return exchange.received(response, body)
        finally:
            if response is not None:
                response.close()
            self._deadline.ends = None
        return exchange.ended(lost)

    def pages(self, request: Request[Page[T]], *, limit: int | None = None) -> Iterator[T]:
        """
        Iterate the items of a list, page by page.

        :param limit: the most items to give; None for all.
        """
        following: Request[Page[T]] | None = paging.first_page(request)
        following_pages = paging.Cursors()
        while following is not None:
            page = self.send(following)
            yield from page.data[:limit]
            if limit is not None:
                limit -= len(page.data)
                if limit <= 0:
                    return
            following = following_pages.after(following, page)


class AsyncClient(_Shell):
    """
    A client for one event loop.

    :param settings: how to reach the service.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._http = httpx.AsyncClient(**self._options())
        # httpx's own pool slows down with the square of what waits for it; a gate in front keeps its queue empty.
        self._gate = asyncio.Semaphore(settings.max_connections)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, request: Request[T]) -> T:
        """
        Send a request and read its answer, trying again where that is safe.

        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        exchange = _Exchange(self.settings, request)
        while True:
            async with self._gate:
                outcome = await self._attempt(exchange)
            if not isinstance(outcome, _Again):
                return outcome
            await asyncio.sleep(outcome.delay)

    async def _attempt(self, exchange: _Exchange[T]) -> T | _Again:
        response = None
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await self._http.send(exchange.build(self._http), stream=True)
                reader = exchange.begun(response)
                async for piece in response.aiter_raw():
                    reader.feed(piece)
                body = reader.whole()
        except (httpx.HTTPError, TimeoutError, TooLarge, Unreadable) as error:
            lost = error
        else:
            return exchange.received(response, body)
        finally:
            if response is not None:
                await response.aclose()
        return exchange.ended(lost)

    async def pages(self, request: Request[Page[T]], *, limit: int | None = None) -> AsyncIterator[T]:
        """
        Iterate the items of a list, page by page.

        :param limit: the most items to give; None for all.
        """
        following: Request[Page[T]] | None = paging.first_page(request)
        following_pages = paging.Cursors()
        while following is not None:
            page = await self.send(following)
            for item in page.data[:limit]:
                yield item
            if limit is not None:
                limit -= len(page.data)
                if limit <= 0:
                    return
            following = following_pages.after(following, page)
