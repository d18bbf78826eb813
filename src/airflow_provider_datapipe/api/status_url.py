"""Status URLs: the service's response to a run request."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from airflow_provider_datapipe.api.errors import ProtocolError, one_line
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")

#: Maximum length of the query; the client sends no URL longer than 65,536 characters.
_LONGEST_QUERY = 32_768


def status_request(status_url: str, listing: Request[T]) -> Request[T]:
    """
    Return the request for a status URL.

    :param status_url: URL relative to the base URL, as the interface documents, or an absolute URL of the same origin.
    :param listing: request of the list that the URL must refer to.
    :raises ProtocolError: if the URL refers to another resource.
    """
    try:
        url = _parse(status_url)
        query = tuple(parse_qsl(url.query, keep_blank_values=True, max_num_fields=20))
    except ValueError:
        url, query = None, ()
    # If the base URL has a path, the service may or may not repeat it.
    if url is None or not url.path.endswith(listing.path) or len(urlencode(query)) > _LONGEST_QUERY:
        raise ProtocolError(f"{one_line(status_url, longest=200)!r} is not a status URL: expected {listing.path}.")
    origin = f"{url.scheme}://{url.netloc}" if url.netloc else None
    return Request(listing.endpoint, listing.path, query, origin=origin)


def status_url_after(listing: Request[Any], run_id: str | None) -> str:
    """
    Return the status URL of the first run after another run, in the format of the service.

    :param listing: request of the list of runs.
    :param run_id: the preceding run; None for the first run of the resource.
    """
    after = {} if run_id is None else {"starting_after": run_id}
    query = dict(listing.query) | after | {"limit": "1", "sort_direction": "asc"}
    return f"{listing.path}?{urlencode(query)}"


def _parse(url: str) -> SplitResult:
    """
    Split a relative or absolute URL.

    :raises ValueError: if the port is invalid, or if the scheme or the host is missing.
    """
    parts = urlsplit(url)
    # urlsplit accepts any text as a port; reading the port checks it.
    if parts.port == 0 or bool(parts.scheme) != bool(parts.hostname):
        raise ValueError("not a URL")
    return parts
