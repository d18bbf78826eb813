"""Reading the body of an answer within bounds, whatever the other side sends."""

from __future__ import annotations

import zlib


class TooLarge(Exception):  # noqa: N818 - an answer for the client, which makes the error of it
    """The body is larger than allowed."""


class Unreadable(Exception):  # noqa: N818 - an answer for the client, which makes the error of it
    """The body can't be unpacked."""


#: Encodings that are read; ``gzip`` is what is asked for.
ENCODINGS = frozenset({"", "identity", "gzip"})


class BodyReader:
    """
    Takes a body piece by piece, and unpacks it without ever holding more than allowed.

    :param encoding: its ``content-encoding``, one of :data:`ENCODINGS`.
    :param limit: how many bytes it may have, packed as well as unpacked.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._body = bytearray()
        # 31: a gzip header is expected.
        self._unpacker = zlib.decompressobj(31) if encoding == "gzip" else None

    def feed(self, piece: bytes) -> None:
        """
        Take a piece as it came over the wire.

        :raises TooLarge: the body is larger than allowed.
        :raises Unreadable: it is not what its encoding says.
        """
        self._received += len(piece)
        if self._received > self._limit:
            raise TooLarge
        if self._unpacker is None:
            self._body += piece
            return
        try:
            # One byte more than allowed is enough to know, and all that is unpacked of a bomb.
            self._body += self._unpacker.decompress(piece, self._limit + 1 - len(self._body))
        except zlib.error as error:
            raise Unreadable from error
        if len(self._body) > self._limit:
            raise TooLarge

    def whole(self) -> bytes:
        """
        Give the complete body.

        :raises Unreadable: it ends before its encoding does.
        """
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise Unreadable
        return bytes(self._body)
