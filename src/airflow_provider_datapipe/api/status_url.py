"""The URL with which the service answers that a run was requested."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from airflow_provider_datapipe.api.errors import ProtocolError, one_line
from airflow_provider_datapipe.api.request import Request

T = TypeVar("T")

#: The client sends no address of more than 65,536 characters.
_LONGEST_QUERY = 32_768


def status_request(status_url: str, listing: Request[T]) -> Request[T]:
    """
    Make the request that a status URL stands for.

    :param status_url: relative to the base address, as the interface says, or a whole URL of the same origin.
    :param listing: a request of the list that it has to be a page of.
    :raises ProtocolError: the URL leads anywhere else.
    """
    try:
        url = _parse(status_url)
        query = tuple(parse_qsl(url.query, keep_blank_values=True, max_num_fields=20))
    except ValueError:
        url, query = None, ()
    # Below a base address with a path, the service may or may not repeat that path.
    if url is None or not url.path.endswith(listing.path) or len(urlencode(query)) > _LONGEST_QUERY:
        raise ProtocolError(f"{one_line(status_url, longest=200)!r} is no status URL: {listing.path} was expected.")
    origin = f"{url.scheme}://{url.netloc}" if url.netloc else None
    return Request(listing.endpoint, listing.path, query, origin=origin)


def status_url_after(listing: Request[Any], run_id: str | None) -> str:
    """
    Make the status URL of the first run after another one, in the form that the service gives.

    :param listing: a request of the list of runs.
    :param run_id: the run that it comes after; None for the first run of all.
    """
    after = {} if run_id is None else {"starting_after": run_id}
    query = dict(listing.query) | after | {"limit": "1", "sort_direction": "asc"}
    return f"{listing.path}?{urlencode(query)}"


def _parse(url: str) -> SplitResult:
    """
    Split a relative URL, or a whole one.

    :raises ValueError: the port is invalid, or the scheme or the host is missing.
    """
    parts = urlsplit(url)
    # urlsplit accepts any text as a port; reading the port checks it.
    if parts.port == 0 or bool(parts.scheme) != bool(parts.hostname):
        raise ValueError("not a URL")
    return parts
