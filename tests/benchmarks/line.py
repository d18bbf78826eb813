"""Messages between the processes of a measurement, as JSON lines over loopback."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import Any


class LineClosedError(Exception):
    """The peer has closed the connection."""


class Line:
    """
    One end of a connection. A timeout loses no received data.

    :param connected: a connected socket.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unread = b""

    @classmethod
    def to(cls, port: int) -> Line:
        """Connect to a port of this machine."""
        return cls(socket.create_connection(("127.0.0.1", port)))

    def send(self, what: str, **more: Any) -> None:
        self._socket.sendall(json.dumps({"what": what, **more}).encode() + b"\n")

    def receive(self, limit: float | None = None) -> dict[str, Any] | None:
        """
        Return the next message, None after the time limit.

        :raises LineClosedError: the peer has closed the connection.
        """
        deadline = None if limit is None else time.monotonic() + limit
        while b"\n" not in self._unread:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                return None
            received = self._socket.recv(1 << 16)
            if not received:
                raise LineClosedError
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        self._socket.close()
