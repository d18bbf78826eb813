"""Pagination of list endpoints."""

from __future__ import annotations

from typing import TypeVar

from airflow_provider_datapipe.api.errors import ProtocolError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")

#: Maximum page size of the service (:ref:`Limits <interface-limits>`).
LARGEST_PAGE = 100


def first_page(request: Request[Page[T]]) -> Request[Page[T]]:
    """Return the request with the maximum page size, unless it already sets a limit."""
    chosen = any(name == "limit" for name, _ in request.query)
    return request if chosen or not request.endpoint.takes_limit else request.with_query(limit=LARGEST_PAGE)


class Cursors:
    """Cursors seen in one iteration. A repeated cursor raises an error instead of causing an endless loop."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def after(self, request: Request[Page[T]], page: Page[T]) -> Request[Page[T]] | None:
        """
        Return the request for the next page, or None at the end of the list.

        :param request: request of the current page.
        :param page: the current page.
        :raises ProtocolError: if the service returns a cursor that was already used.
        """
        cursor = page.next_cursor
        if not page.has_more or not cursor:
            return None
        following = request.with_query(starting_after=cursor)
        if cursor in self._seen or following == request:
            raise ProtocolError(f"{request.label} returned a cursor that was used before: the list would never end.")
        self._seen.add(cursor)
        return following
