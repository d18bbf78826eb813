"""HTTP/1.1 server with keep-alive on loopback, with threads and plain sockets."""

from __future__ import annotations

import base64
import json
import selectors
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from tests.support.hostile.faults import Response
from tests.support.hostile.routes import Call
from tests.support.hostile.service import API_KEY, Service

PROXY_PASSWORD = "proxy-password-0123456789"
_PROXY_AUTHORIZATION = f"Basic {base64.b64encode(f'user:{PROXY_PASSWORD}'.encode()).decode()}"
_MOST_BYTES = 1 << 20


class HostileServer:
    """
    HTTP server of a :class:`.service.Service`, and the proxy in front of it.

    As a proxy it answers requests of any host that have the credentials of ``proxy_url``.

    :param service: the state; a service without faults if None.
    """

    def __init__(self, service: Service | None = None) -> None:
        self.service = service or Service()
        self.api_key = API_KEY
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.proxy_url = self.url.replace("://", f"://user:{PROXY_PASSWORD}@")
        self._connections: set[_Connection] = set()
        self._lock = threading.Lock()
        self._numbers = count()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def is_idle(self) -> bool:
        """Return True if no request is waiting to be read or answered."""
        with self._lock:
            connections = list(self._connections)
        if any(connection.is_busy for connection in connections):
            return False
        # On loopback, a sent request is readable at once.
        return not _readable([self._listener, *(connection.socket for connection in connections)])

    def peer_port(self, number: int) -> int:
        """Return the port of the client of an open connection, by the connection's number."""
        with self._lock:
            return next(connection.peer_port for connection in self._connections if connection.number == number)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if not _readable([self._listener], wait=0.05):
                continue
            with self._lock:
                accepted, _ = self._listener.accept()
                connection = _Connection(accepted, self.service, next(self._numbers))
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: _Connection) -> None:
        try:
            connection.serve()
        finally:
            # Close before the update of the state: the server is idle only if the client can see the closed connection.
            connection.close()
            with self._lock:
                self._connections.discard(connection)

    def __enter__(self) -> Self:
        """Start to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and close all connections."""
        self._stopping.set()
        self._thread.join()
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()


class _Connection:
    """Connection of a client."""

    def __init__(self, accepted: socket.socket, service: Service, number: int) -> None:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = accepted
        self.peer_port: int = accepted.getpeername()[1]
        self.number = number
        self._service = service
        self._received = b""
        #: Set before a request is read, and cleared after the response was sent.
        self.is_busy = False

    def serve(self) -> None:
        """Answer requests until the client closes the connection."""
        try:
            while _readable([self.socket], wait=None):
                self.is_busy = True
                if not self._answer():
                    return
                self.is_busy = False
        except (OSError, ValueError):
            return

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _answer(self) -> bool:
        while b"\r\n\r\n" not in self._received:
            if not self._receive():
                return False
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(self._received) < length:
            if not self._receive():
                return False
        content, self._received = self._received[:length], self._received[length:]
        url = urlsplit(target)
        call = Call(method, url.path, dict(parse_qsl(url.query)), json.loads(content) if content else None)
        if url.netloc and headers.get("proxy-authorization") != _PROXY_AUTHORIZATION:
            response = Response(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, b"<html>no credentials</html>")
        else:
            response = self._service.respond(call, target, headers.get("x-api-key"), self.number)
        if response.status == 0:
            return False
        self.socket.sendall(_encoded(response))
        return True

    def _receive(self) -> bool:
        data = self.socket.recv(65_536)
        self._received += data
        return bool(data) and len(self._received) <= _MOST_BYTES


def _encoded(response: Response) -> bytes:
    body = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
    if response.status == HTTPStatus.NO_CONTENT:
        body = b""
    kind = "application/json" if not body.startswith(b"<") else "text/html"
    headers = {"content-type": kind, "content-length": str(len(body)), **dict(response.headers)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    reason = HTTPStatus(response.status).phrase
    return f"HTTP/1.1 {response.status} {reason}\r\n{lines}\r\n".encode("latin-1") + body


def _readable(sockets: list[socket.socket], wait: float | None = 0.0) -> bool:
    """Return True if one of the sockets has something to read, or was closed."""
    with selectors.PollSelector() as selector:
        for each in sockets:
            try:
                selector.register(each, selectors.EVENT_READ)
            except (ValueError, KeyError):
                continue
        return bool(selector.select(wait))
