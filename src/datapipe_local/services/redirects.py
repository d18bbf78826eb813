"""Validation and construction of redirect URIs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from airflow_provider_datapipe.api.models.rules import check_redirect_uri
from datapipe_local.common.authority import parse_authority
from datapipe_local.common.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 2048
# The URI is inserted into a header, an HTML attribute and a Content-Security-Policy.
_ADDRESS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")


def check(uri: str) -> str:
    """
    Validate a redirect URI.

    :raises BadRequestError: if the interface forbids the URI, or browsers parse it differently.
    """
    problem = _problem(uri)
    if problem is not None:
        raise BadRequestError(f"redirect_uri: it {problem}.", error_code="invalid_redirect_uri")
    return uri


def _problem(uri: str) -> str | None:
    if len(uri) > LONGEST:
        return f"has {len(uri)} characters: {LONGEST} are allowed"
    if not _ADDRESS.fullmatch(uri):
        return "must be a URL such as https://app.example.com/connected, other characters percent-encoded"
    try:
        check_redirect_uri(uri)
    except ValueError as error:
        return str(error)
    url = urlsplit(uri)
    broken = {
        "must name a host such as app.example.com": not _is_authority(url.netloc),
        "must have no query parameters": "?" in uri,
        "must have no fragment": "#" in uri,
    }
    return next((rule for rule, is_broken in broken.items() if is_broken), None)


def _is_authority(text: str) -> bool:
    try:
        parse_authority(text)
    except ValueError:
        return False
    return True


def origin(uri: str) -> str:
    """Return the origin of a URI: scheme, host and port."""
    url = urlsplit(uri)
    return f"{url.scheme}://{url.netloc}"


def with_answer(uri: str, answer: Mapping[str, str | None]) -> str:
    """
    Return a URI with query parameters.

    :param uri: URI that :func:`check` accepted.
    :param answer: Query parameters. Those with the value None are left out.
    """
    given = {name: value for name, value in answer.items() if value is not None}
    return urlunsplit(urlsplit(uri)._replace(query=urlencode(given)))
