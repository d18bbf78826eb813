"""Responses of the hostile service, by method and path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tests.support.hostile.faults import Response
from tests.support.hostile.state import Run

Query: TypeAlias = Mapping[str, str]
RUN_LISTS: Mapping[str, tuple[str, str]] = {
    "elt_stream_runs": ("elt_stream", "elt_stream_id"),
    "reverse_etl_sync_runs": ("reverse_etl", "reverse_etl_sync_id"),
    "orchestration_runs": ("orchestration", "orchestration_id"),
}
COLLECTIONS: Mapping[str, str] = {
    "elt_streams": "elt_stream",
    "orchestrations": "orchestration",
    "reverse_etl_syncs": "reverse_etl",
    "transforms": "transform",
}
STARTS = frozenset({"request_run", "publish", "rematerialize"})
_LARGEST_PAGE = 100


class Call(NamedTuple):
    """
    Parsed request.

    :param path: path without the query.
    :param body: JSON body, None without a body.
    """

    method: str
    path: str
    query: Query
    body: Any

    @property
    def parts(self) -> list[str]:
        """Return the parts of the path."""
        return self.path.strip("/").split("/")

    @property
    def is_start(self) -> bool:
        """Return True if the request starts a run."""
        return self.method == "POST" and self.parts[-1] in STARTS

    @property
    def is_single_run(self) -> bool:
        """Return True if the request reads a single run."""
        return self.method == "GET" and self.parts[0] in RUN_LISTS and len(self.parts) == 2


def refused(status: int, code: str, message: str, **more: object) -> Response:
    """Return an ``ErrorDto`` response."""
    return Response(status, {"error_code": code, "message": message, **more})


NOT_FOUND = refused(404, "not_found", "The resource was not found.")
BAD_ID = refused(400, "invalid_id", "The ID has an invalid format.")


def page(items: list[Any], query: Query, position: Callable[[str], int | None], ids: list[str]) -> Response:
    """
    Return one page of a list.

    :param items: all items, in order.
    :param query: has ``starting_after`` and ``limit``.
    :param position: returns the number of items up to a cursor, None for an invalid one.
    :param ids: the cursors of the items.
    """
    raw = query.get("limit", "10")
    if not raw.isdigit() or not 1 <= int(raw) <= _LARGEST_PAGE:
        return refused(400, "invalid_limit", "limit must be 1 to 100.")
    begin = 0
    if cursor := query.get("starting_after"):
        found = position(cursor)
        if found is None:
            return BAD_ID
        begin = found
    end = begin + int(raw)
    has_more = end < len(items)
    body: dict[str, Any] = {"data": items[begin:end], "has_more": has_more, "hasMore": has_more}
    if has_more:
        body |= {"next_cursor": ids[end - 1], "nextCursor": ids[end - 1]}
    return Response(200, body)


def run_list(shown: dict[Run, Any], query: Query, find: Callable[[str], Run | None], *, form: int) -> Response:
    """
    Return a page of runs.

    :param shown: the JSON of the visible runs, oldest first.
    :param query: query parameters.
    :param find: returns the run with an ID, None for an ID of an invalid format.
    :param form: the format of IDs.
    """
    ascending = query.get("sort_direction") == "asc"
    ordered = list(shown) if ascending else list(shown)[::-1]

    def position(cursor: str) -> int | None:
        run = find(cursor)
        if run is None:
            return None
        # The cursor holds the start time, so that it is valid where the run itself is not visible yet.
        return sum(other.place <= run.place if ascending else other.place >= run.place for other in ordered)

    return page([shown[run] for run in ordered], query, position, [run.id_in(form) for run in ordered])
