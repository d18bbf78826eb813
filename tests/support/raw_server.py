"""Server that writes raw bytes, for malformed responses."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Self

#: Function that writes the response to a connection. The event is set at the end of the test.
Answer = Callable[[socket.socket, threading.Event], None]


class RawServer:
    """
    Server that reads the head of each request, calls a function for the response, and closes the connection.

    :param answer: writes the response.
    :param tls: the TLS context; None for plain HTTP.
    """

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        #: Heads of the requests, in the order of their arrival.
        self.heads: list[bytes] = []
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> int:
        """Return the number of received requests."""
        return len(self.heads)

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        # Wake the accepting thread.
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _begin(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        # Tests close connections at any time.
        with contextlib.suppress(OSError), contextlib.closing(connection):
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                received = connection.recv(65536)
                if not received:
                    return
                head += received
            self.heads.append(head)
            self._respond(connection, head)
            connection.close()

    def _respond(self, connection: socket.socket, head: bytes) -> None:
        self._answer(connection, self._stopping)
