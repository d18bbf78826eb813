"""Masking of secrets in external text and JSON, in all common encodings. No I/O."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

_MASK = "***"
#: Shorter secrets are not masked in response data: they are likely to match ordinary words or IDs.
_SHORTEST = 8
#: Shorter encoded forms are not searched: they match other text by chance.
_SHORTEST_ENCODED = 6
#: Maximum number of nested encodings to decode, such as percent-encoded text in HTML in a JSON string, plus one.
_LAYERS = 4
_CODE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_USER_INFO = re.compile(r"//[^\s/@]*@")


class Mask:
    """
    Mask for a set of secrets, applied to text and JSON.

    :param secrets: the secrets; empty strings are ignored.
    """

    __slots__ = ("__weakref__", "_data", "_data_bytes", "_text")

    def __init__(self, secrets: Iterable[str]) -> None:
        given = {secret for secret in secrets if secret}
        self._text = _forms(given)
        self._data = _forms({secret for secret in given if len(secret) >= _SHORTEST})
        self._data_bytes = tuple(form.encode() for form in self._data)

    def in_text(self, text: str) -> str:
        """Return the text with all secrets masked, including short ones."""
        return _masked(text, self._text)

    def in_json(self, body: bytes) -> bytes:
        """
        Return the JSON document with secrets masked, except those shorter than 8 characters, which IDs may contain.

        A body without a secret is returned unchanged. A body that is not JSON is masked as text.
        """
        if not self._occurs(body):
            return body
        try:
            return json.dumps(_walk(json.loads(body), self._data), ensure_ascii=False).encode("utf-8", "replace")
        except (ValueError, RecursionError):
            return _masked(body.decode("utf-8", "replace"), self._data).encode()

    def _occurs(self, body: bytes) -> bool:
        # Fast path: substring search, because it runs for every poll.
        for form in self._data_bytes:
            if form in body:
                return True
        if b"\\" in body or b"%" in body or b"&" in body:
            return _hidden(body.decode("utf-8", "replace"), self._data)
        return False


def user_info(url: str | None) -> tuple[str, ...]:
    """Return the credentials in a proxy URL: user and password together, and the password alone."""
    written = "" if url is None else urlsplit(url).netloc.rpartition("@")[0]
    # A user without a password can be a token.
    parts = (written, written.partition(":")[2])
    return tuple(part for each in parts for part in {each, unquote(each)} if part)


def without_user_info(text: str) -> str:
    """Return the text with credentials in URLs masked."""
    return _USER_INFO.sub(f"//{_MASK}@", text)


def _forms(secrets: set[str]) -> tuple[str, ...]:
    """Return the searched forms of the secrets, longest first."""
    found = set(secrets)
    for secret in secrets:
        raw = secret.encode("utf-8", "surrogatepass")
        encoded = {raw.hex(), raw.hex().upper(), secret.replace(" ", "+"), secret.replace("\\", "")}
        for offset in range(3):
            # The base64 characters that depend only on the secret, for each alignment.
            text = base64.b64encode(bytes(offset) + raw).decode()
            text = text[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
            encoded |= {text, text.replace("+", "-").replace("/", "_")}
        found |= {form for form in encoded if len(form) >= _SHORTEST_ENCODED}
    return tuple(sorted(found, key=len, reverse=True))


def _masked(text: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        text = text.replace(form, _MASK)
    if not _hidden(text, forms):
        return text
    # A word contains the secret in an encoded form: mask the whole word.
    text = "".join(_MASK if _hidden(word, forms) else word for word in re.split(r"(\s+)", text))
    # A secret that contains spaces spans several words: mask the whole text.
    return _MASK if _hidden(text, forms) else text


def _hidden(text: str, forms: tuple[str, ...]) -> bool:
    """Return True if a secret occurs after decoding percent-encoding, HTML entities and escapes."""
    for _ in range(_LAYERS):
        decoded = _CODE.sub(_unescaped, text) if "\\u" in text or "\\x" in text else text
        # Drop backslashes of other escapes. _forms includes the secret without backslashes.
        decoded = decoded.replace("\\", "")
        decoded = html.unescape(decoded) if "&" in decoded else decoded
        decoded = unquote(decoded) if "%" in decoded else decoded
        if decoded == text:
            return False
        if any(form in decoded for form in forms):
            return True
        text = decoded
    return False


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1] or match[2], 16))


def _walk(value: Any, forms: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _masked(value, forms)
    if isinstance(value, list):
        return [_walk(each, forms) for each in value]
    if isinstance(value, dict):
        return {_masked(name, forms): _walk(each, forms) for name, each in value.items()}
    return value
