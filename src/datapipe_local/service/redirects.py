"""Addresses that a browser is sent to: which are allowed, and what is added to them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from airflow_provider_datapipe.api.models.rules import check_redirect_uri
from datapipe_local.authority import parse_authority
from datapipe_local.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 2048
# The address is written to a header, to an HTML attribute and to a Content-Security-Policy.
_ADDRESS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")


def check(uri: str) -> str:
    """
    See to it that a browser can be sent there with an answer.

    :raises BadRequestError: the interface forbids it, or browsers do not agree on what it means.
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
    """Give the part of an address that says whose it is: scheme, host, port."""
    url = urlsplit(uri)
    return f"{url.scheme}://{url.netloc}"


def with_answer(uri: str, answer: Mapping[str, str | None]) -> str:
    """
    Give the address with query parameters.

    :param uri: An address that :func:`check` took.
    :param answer: The parameters; those that are None are left out.
    """
    given = {name: value for name, value in answer.items() if value is not None}
    return urlunsplit(urlsplit(uri)._replace(query=urlencode(given)))
