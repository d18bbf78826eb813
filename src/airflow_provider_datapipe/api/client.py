"""Blocking HTTP client, built on httpx. Only this client and the asyncio client send HTTP requests to the service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Self, TypeVar

import httpx

from airflow_provider_datapipe.api import paging
from airflow_provider_datapipe.api.body import TooLarge, Unreadable
from airflow_provider_datapipe.api.deadline import Deadline, bound
from airflow_provider_datapipe.api.http_logs import mask_http_logs
from airflow_provider_datapipe.api.masking import Mask, user_info
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.pages import HEADER, page_template
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.request_attempts import RequestAttempts, ResponseHead, RetryAfter, TransportFailure
from airflow_provider_datapipe.api.settings import Settings, environment_proxy, trust
from airflow_provider_datapipe.api.shared_rate_limit import shared_rate_limit

T = TypeVar("T")

#: httpx errors that occur before a request is sent.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Client:
    """
    Blocking client for worker processes and threads.

    :param settings: connection settings of the service.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: URL template of resource pages, from the last response that named one; None before that.
        self.page_template: str | None = None
        proxy = settings.proxy or environment_proxy(settings.base_url)
        self._mask = Mask((settings.api_key, *user_info(proxy)))
        mask_http_logs(self._mask)
        self._http = httpx.Client(
            timeout=httpx.Timeout(settings.timeout, connect=settings.connect_limit),
            limits=httpx.Limits(max_connections=settings.max_connections),
            follow_redirects=False,
            proxy=proxy,
            # environment_proxy has read and validated the proxy of the environment.
            trust_env=False,
            verify=trust(settings.ca_bundle),
        )
        self._limit = shared_rate_limit(settings)
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
        Send a request and return the parsed response. Retry where a repetition is safe.

        :param request: the request.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        exchange = RequestAttempts(self.settings, request, self._mask)
        while True:
            if self._limit is not None and (delay := self._limit.reserve(request)):
                # This client is for workers and commands, which wait for each request. Triggers use AsyncClient.
                time.sleep(delay)
            outcome = self._attempt(exchange)
            if not isinstance(outcome, RetryAfter):
                return outcome
            time.sleep(outcome.delay)

    def _attempt(self, exchange: RequestAttempts[T]) -> T | RetryAfter:
        outgoing = exchange.attempt()
        self._deadline.ends = time.monotonic() + self.settings.timeout
        response = None
        try:
            request = self._http.build_request(
                outgoing.method, outgoing.url, content=outgoing.content, headers=outgoing.headers
            )
            response = self._http.send(request, stream=True)
            head = ResponseHead(response.status_code, response.reason_phrase, response.headers)
            if self._limit is not None:
                self._limit.answered(head.status)
            self.page_template = page_template(self.settings.base_url, head.headers.get(HEADER)) or self.page_template
            reader = exchange.open_body(head)
            for piece in response.iter_raw():
                reader.feed(piece)
            body = reader.whole()
        except httpx.HTTPError as error:
            lost: TransportFailure | TooLarge | Unreadable = TransportFailure(
                error,
                sent=not isinstance(error, _NOT_SENT),
                timed_out=isinstance(error, httpx.TimeoutException),
                reason=f"the proxy answered {error}" if isinstance(error, httpx.ProxyError) else str(error),
            )
        except (TooLarge, Unreadable) as error:
            lost = error
        else:
            return exchange.received(head, body)
        finally:
            if response is not None:
                response.close()
            self._deadline.ends = None
        return exchange.failed(lost)

    def pages(self, request: Request[Page[T]], *, limit: int | None = None) -> Iterator[T]:
        """
        Iterate over the items of a list and fetch its pages on demand.

        :param request: request of the first page.
        :param limit: maximum number of items; None for no limit.
        :raises ValueError: if the limit is negative.
        """
        following = paging.first_page(request, limit)
        seen = paging.SeenPages()
        while following is not None:
            page = self.send(following)
            items = seen.new_items(page)
            yield from items[:limit]
            if limit is not None:
                limit -= len(items)
                if limit <= 0:
                    return
            following = seen.after(following, page)
