"""Authentication of webhook requests. Secrets are compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from datapipe_local.common import canonical
from datapipe_local.connectors.sources.webhook import (
    Authentication,
    BasicAuthentication,
    HmacAuthentication,
    NoAuthentication,
    TokenAuthentication,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def has_credentials(required: Authentication, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """
    Return True if the headers of a request contain valid credentials. :func:`is_signed` verifies a signature.

    :param required: Authentication of the connection.
    :param headers: Headers of the request, with lowercase names.
    """
    if isinstance(required, NoAuthentication):
        return True
    if isinstance(required, BasicAuthentication):
        # Compare user name and password at once, so that the time does not reveal a correct user name.
        return _is(_basic(_one(headers, "authorization")), f"{required.username}:{required.password}".encode())
    if isinstance(required, TokenAuthentication):
        return _is(_one(headers, required.header), required.token.encode())
    return _one(headers, required.header) is not None


def is_signed(required: Authentication, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
    """
    Return True if the signature matches the body, or no signature is required.

    :param required: Authentication of the connection.
    :param headers: Headers of the request, with lowercase names.
    :param body: Body as received.
    """
    if not isinstance(required, HmacAuthentication):
        return True
    right = hmac.new(required.secret.encode(), body, hashlib.sha256).hexdigest()
    return _is(_one(headers, required.header), right.encode())


def can_be_signed(required: Authentication, text: str) -> bool:
    """Return True if the JSON is canonical, or no signature is required."""
    return not isinstance(required, HmacAuthentication) or canonical.is_canonical(text)


def _one(headers: Sequence[tuple[bytes, bytes]], name: str) -> bytes | None:
    """Return the value of a header, or None if it is missing or repeated."""
    wanted = name.lower().encode()
    found = [value for given, value in headers if given == wanted]
    return found[0] if len(found) == 1 else None


def _basic(header: bytes | None) -> bytes | None:
    scheme, _, encoded = (header or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except binascii.Error:
        return None


def _is(given: bytes | None, right: bytes) -> bool:
    return given is not None and hmac.compare_digest(given, right)
