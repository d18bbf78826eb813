"""Pagination of list endpoints."""

from __future__ import annotations

from typing import TypeVar

from airflow_provider_datapipe.api.errors import ProtocolError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")

#: Maximum page size of the service (:ref:`Limits <interface-limits>`).
LARGEST_PAGE = 100


def first_page(request: Request[Page[T]], limit: int | None) -> Request[Page[T]] | None:
    """
    Return the request with the maximum page size, unless it already sets a size; None if no item is wanted.

    :param request: request of the first page.
    :param limit: maximum number of items; None for no limit.
    :raises ValueError: if the limit is negative.
    """
    if limit == 0:
        return None
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be a number of items or None, not {limit}")
    chosen = any(name == "limit" for name, _ in request.query)
    return request if chosen or not request.endpoint.takes_limit else request.with_query(limit=LARGEST_PAGE)


class SeenPages:
    """
    Cursors and IDs of the pages that were read in one iteration.

    A repeated cursor raises an error instead of causing an endless loop. A repeated item is left out: if an item is
    created between two requests, the last item of a page can also be the first one of the next page.
    """

    def __init__(self) -> None:
        self._cursors: set[str] = set()
        self._ids: set[str] = set()

    def new_items(self, page: Page[T]) -> list[T]:
        """Return the items of a page without those of earlier pages."""
        items = [item for item in page.data if getattr(item, "id", None) not in self._ids]
        self._ids.update(item_id for item in items if isinstance(item_id := getattr(item, "id", None), str))
        return items

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
        if cursor in self._cursors or following == request:
            raise ProtocolError(f"{request.label} returned a cursor that was used before: the list would never end.")
        self._cursors.add(cursor)
        return following
