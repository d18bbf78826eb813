"""HTTP proxy on loopback that records the head of each CONNECT request byte for byte and opens tunnels."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

_END_OF_HEAD = b"\r\n\r\n"


class ConnectProxy:
    """
    Threaded CONNECT proxy that resolves every host name to one port of this machine.

    :param port: port on 127.0.0.1 to which all tunnels lead.
    :param user_info: ``user:password`` that clients must send, as Basic credentials; None for an open proxy.
    :param refusal: bytes sent in place of a tunnel; None to open tunnels.
    """

    def __init__(self, port: int, *, user_info: str | None = None, refusal: bytes | None = None) -> None:
        self._port = port
        self._expected = None if user_info is None else base64.b64encode(user_info.encode())
        #: May be changed while the proxy runs.
        self.refusal = refusal
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        #: Heads of the requests, in the order of their arrival.
        self.heads: list[bytes] = []
        self.port: int = self._listener.getsockname()[1]

    def url(self, user_info: str = "") -> str:
        """Return the address of the proxy, with percent-encoded user info if it is set."""
        return f"http://{user_info}{'@' if user_info else ''}127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        with self._lock:
            sockets = [self._listener, *self._open]
        for each in sockets:
            # Wakes the thread that reads from it.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                self._start(self._serve, connection)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), self._tracked(client):
            head = _head_from(client)
            if head is None:
                return
            with self._lock:
                self.heads.append(head)
            if self.refusal is not None:
                client.sendall(self.refusal)
            elif not head.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
            elif self._expected is not None and b"Basic " + self._expected not in head:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            else:
                self._tunnel(client)

    def _tunnel(self, client: socket.socket) -> None:
        with self._tracked(socket.create_connection(("127.0.0.1", self._port))) as service:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_copy, args=(service, client))
            back.start()
            _copy(client, service)
            back.join()

    @contextlib.contextmanager
    def _tracked(self, connection: socket.socket) -> Iterator[socket.socket]:
        """Close a connection at the end, and earlier if the proxy stops."""
        with self._lock:
            self._open.add(connection)
        try:
            yield connection
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


def _head_from(connection: socket.socket) -> bytes | None:
    head = b""
    while _END_OF_HEAD not in head:
        received = connection.recv(65536)
        if not received:
            return None
        head += received
    return head


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side closes, then close the other side's direction."""
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
