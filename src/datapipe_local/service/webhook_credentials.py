"""Who may push to a webhook connection. Everything secret is compared in a time that tells nothing of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from datapipe_local import canonical
from datapipe_local.sources.webhook import (
    Authentication,
    BasicAuthentication,
    HmacAuthentication,
    NoAuthentication,
    TokenAuthentication,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def may_be(asked: Authentication, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """
    Tell whether a request can be let in, as far as its headers tell. A signature is looked at with the body.

    :param asked: What the connection asks for.
    :param headers: Those of the request: names in small letters.
    """
    if isinstance(asked, NoAuthentication):
        return True
    if isinstance(asked, BasicAuthentication):
        # One comparison for both: a name that is right is not to be told from one that is wrong.
        return _is(_basic(_one(headers, "authorization")), f"{asked.username}:{asked.password}".encode())
    if isinstance(asked, TokenAuthentication):
        return _is(_one(headers, asked.header), asked.token.encode())
    return _one(headers, asked.header) is not None


def is_signed(asked: Authentication, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
    """
    Tell whether the signature of a request is that of its bytes; there may be none to look at.

    :param asked: What the connection asks for.
    :param headers: Those of the request: names in small letters.
    :param body: Its body, as it arrived.
    """
    if not isinstance(asked, HmacAuthentication):
        return True
    right = hmac.new(asked.secret.encode(), body, hashlib.sha256).hexdigest()
    return _is(_one(headers, asked.header), right.encode())


def can_be_signed(asked: Authentication, text: str) -> bool:
    """Tell whether JSON is in the form that a signature is for, if there is one."""
    return not isinstance(asked, HmacAuthentication) or canonical.is_canonical(text)


def _one(headers: Sequence[tuple[bytes, bytes]], name: str) -> bytes | None:
    """Give a header; one that stands twice is none."""
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
