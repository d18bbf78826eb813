"""Size-limited reader for response bodies, and replacement of characters that the JSON parser refuses."""

from __future__ import annotations

import re
import zlib


class TooLarge(Exception):  # noqa: N818 - internal; the client converts it to a ProtocolError
    """The body exceeds the size limit."""


class Unreadable(Exception):  # noqa: N818 - internal; the client converts it to a ProtocolError
    """The body can't be decompressed."""


#: Supported content encodings. The client requests ``gzip``.
ENCODINGS = frozenset({"", "identity", "gzip"})
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
#: An escape sequence of JSON; the group contains an unpaired surrogate.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class BodyReader:
    """
    Incremental body reader. It decompresses the body and never holds more than the size limit.

    :param encoding: value of ``content-encoding``, one of :data:`ENCODINGS`.
    :param limit: maximum size in bytes, both compressed and decompressed.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._body = bytearray()
        # wbits=31: expect a gzip header.
        self._unpacker = zlib.decompressobj(31) if encoding == "gzip" else None

    def feed(self, piece: bytes) -> None:
        """
        Add a chunk of the body as received.

        :param piece: the chunk.
        :raises TooLarge: if the body exceeds the size limit.
        :raises Unreadable: if the body does not match its encoding.
        """
        self._received += len(piece)
        if self._received > self._limit:
            raise TooLarge
        if self._unpacker is None:
            self._body += piece
            return
        try:
            # Decompress at most one byte more than the limit: that detects a decompression bomb.
            self._body += self._unpacker.decompress(piece, self._limit + 1 - len(self._body))
        except zlib.error as error:
            raise Unreadable from error
        if len(self._body) > self._limit:
            raise TooLarge

    def whole(self) -> bytes:
        """
        Return the complete, decompressed body.

        :raises Unreadable: if the compressed body is incomplete.
        """
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise Unreadable
        return bytes(self._body)


def replace_unpaired_surrogates(body: bytes) -> bytes:
    """
    Return JSON with U+FFFD in place of each unpaired surrogate.

    A service that cuts a text at a number of UTF-16 units can send half of a character. The parser would refuse the
    whole response because of it.

    :param body: the JSON.
    """
    if _SURROGATE.search(body) is None:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)
