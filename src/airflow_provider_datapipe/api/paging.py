"""How a list goes on from page to page."""

from __future__ import annotations

from typing import TypeVar

from airflow_provider_datapipe.api.errors import ProtocolError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")

#: The most items that the service puts on a page (interface.md, "Limits").
LARGEST_PAGE = 100


def first_page(request: Request[Page[T]]) -> Request[Page[T]]:
    """Ask for as many items at a time as the service gives, unless the request says otherwise."""
    chosen = any(name == "limit" for name, _ in request.query)
    return request if chosen or not request.endpoint.takes_limit else request.with_query(limit=LARGEST_PAGE)


class Cursors:
    """The cursors of one walk through a list: it may be long, and must not go round in circles."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def after(self, request: Request[Page[T]], page: Page[T]) -> Request[Page[T]] | None:
        """
        Give the request for the page after this one, or None at the end of the list.

        :raises ProtocolError: the cursor was there before, so the list would never end.
        """
        cursor = page.next_cursor
        if not page.has_more or not cursor:
            return None
        following = request.with_query(starting_after=cursor)
        if cursor in self._seen or following == request:
            raise ProtocolError(
                f"{request.label} answered a cursor that it has been asked with before: its list would never end."
            )
        self._seen.add(cursor)
        return following
