"""Asyncio HTTP client, built on aiohttp, which needs a tenth of the CPU time of httpx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self, TypeVar

import aiohttp
import yarl

from airflow_provider_datapipe.api import paging
from airflow_provider_datapipe.api.body import TooLarge, Unreadable
from airflow_provider_datapipe.api.masking import Mask, user_info
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.request_attempts import RequestAttempts, ResponseHead, RetryAfter, TransportFailure
from airflow_provider_datapipe.api.settings import Settings, environment_proxy, trust
from airflow_provider_datapipe.api.shared_rate_limit import shared_rate_limit

T = TypeVar("T")

#: Lifetime of an idle connection, in seconds: longer than most poll intervals.
_KEEP_ALIVE = 60.0
#: Longest response header in bytes. Gateways can send longer ones than aiohttp accepts by default.
_LONGEST_HEADER = 65_536


class AsyncClient:
    """
    Asyncio client. Each instance belongs to one event loop.

    :param settings: connection settings of the service.
    """

    @classmethod
    async def create(cls, settings: Settings) -> Self:
        """
        Create a client without blocking the event loop: a thread loads the CA certificates.

        :param settings: connection settings of the service.
        :raises ConfigurationError: if the CA certificates can't be read or the proxy is not usable.
        """
        await asyncio.to_thread(trust, settings.ca_bundle)
        return cls(settings)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._trust = trust(settings.ca_bundle)
        self._proxy = settings.proxy or environment_proxy(settings.base_url)
        self._mask = Mask((settings.api_key, *user_info(self._proxy)))
        self._http: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(settings.max_connections)
        self._limit = shared_rate_limit(settings)
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def send(self, request: Request[T]) -> T:
        """
        Send a request and return the parsed response. Retry where a repetition is safe.

        :param request: the request.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        exchange = RequestAttempts(self.settings, request, self._mask)
        while True:
            async with self._gate:
                await self._permit(request)
                outcome = await self._attempt(exchange)
            if not isinstance(outcome, RetryAfter):
                return outcome
            await asyncio.sleep(outcome.delay)

    async def _permit(self, request: Request[T]) -> None:
        """Wait until the rate limit permits a request. It uses no HTTP connection in the meantime."""
        if self._limit is None:
            return
        # Only the first in the queue holds a permit: canceled requests waste none, and processes take turns.
        async with self._turn:
            # In a thread: it reads and locks a file.
            if delay := await asyncio.to_thread(self._limit.reserve, request):
                await asyncio.sleep(delay)

    async def _attempt(self, exchange: RequestAttempts[T]) -> T | RetryAfter:
        outgoing = exchange.attempt()
        try:
            async with (
                asyncio.timeout(self.settings.timeout),
                self._session().request(
                    outgoing.method,
                    # The URL is already quoted.
                    yarl.URL(outgoing.url, encoded=True),
                    data=outgoing.content,
                    # Set per request: aiohttp also sends session headers to the proxy.
                    headers=outgoing.headers,
                    proxy=self._proxy,
                    allow_redirects=False,
                ) as response,
            ):
                head = ResponseHead(response.status, response.reason or "", response.headers)
                if self._limit is not None:
                    await asyncio.to_thread(self._limit.answered, head.status)
                reader = exchange.open_body(head)
                async for piece in response.content.iter_any():
                    reader.feed(piece)
                body = reader.whole()
        except (aiohttp.ClientError, OSError) as error:
            lost: TransportFailure | TooLarge | Unreadable = _lost(error)
        except (TooLarge, Unreadable) as error:
            lost = error
        else:
            return exchange.received(head, body)
        return exchange.failed(lost)

    def _session(self) -> aiohttp.ClientSession:
        """Return the aiohttp session. Create it on first use, because it binds to the running event loop."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._trust, limit=self.settings.max_connections, keepalive_timeout=_KEEP_ALIVE
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.settings.connect_limit),
                # The service does not use cookies.
                cookie_jar=aiohttp.DummyCookieJar(),
                # A request without a body has no content type.
                skip_auto_headers=("content-type",),
                # BodyReader decompresses the body and enforces the size limit.
                auto_decompress=False,
                max_field_size=_LONGEST_HEADER,
            )
        return self._http

    async def pages(self, request: Request[Page[T]], *, limit: int | None = None) -> AsyncIterator[T]:
        """
        Iterate over the items of a list and fetch its pages on demand.

        :param request: request of the first page.
        :param limit: maximum number of items; None for no limit.
        :raises ValueError: if the limit is negative.
        """
        following = paging.first_page(request, limit)
        seen = paging.SeenPages()
        while following is not None:
            page = await self.send(following)
            items = seen.new_items(page)
            for item in items[:limit]:
                yield item
            if limit is not None:
                limit -= len(items)
                if limit <= 0:
                    return
            following = seen.after(following, page)


def _lost(error: Exception) -> TransportFailure:
    """Classify an aiohttp error: whether the request may have been sent, and whether it timed out."""
    # Any error other than a connection error may have occurred after the request was sent.
    sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL)
    timed_out, reason = isinstance(error, TimeoutError), str(error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        # The error's text contains the proxy URL with its password. The request itself was not sent.
        sent, reason = False, f"the proxy answered {error.status} {error.message}"
    return TransportFailure(error, sent=sent, timed_out=timed_out, reason=reason)
