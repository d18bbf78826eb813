"""HTTP servers on loopback with scripted responses, or with responses by method and path."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl

import httpx
from typing_extensions import override

from tests.support.loopback_server import LoopbackServer


@dataclass(frozen=True, slots=True)
class Reply:
    """
    Response of the script.

    :param status: HTTP status; 0 drops the connection without a response.
    :param body: JSON value, or raw bytes.
    :param headers: further headers.
    :param delay: seconds before the response; ended early when the server stops.
    :param torn: send half of the body, and reset the connection.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    torn: bool = False

    def encoded(self) -> bytes:
        """Return the body as sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Seen:
    """Received request. ``path`` includes the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def route(self) -> str:
        """Return the path without the query."""
        return self.path.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """Return the parameters of the query."""
        return dict(parse_qsl(self.path.partition("?")[2]))


class ScriptedServer:
    """
    Server that answers in the order of its script, and repeats the last response.

    :param tls: TLS context; None for plain HTTP.
    """

    def __init__(self, script: Iterable[Reply] = (), *, tls: ssl.SSLContext | None = None) -> None:
        self._script = list(script)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.seen: list[Seen] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                if tls is not None:
                    self.request = tls.wrap_socket(self.request, server_side=True)
                super().setup()

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                request = Seen(self.command, self.path, httpx.Headers(self.headers.items()), self.rfile.read(length))
                reply = server._next(request)
                if reply.delay:
                    server._stopping.wait(reply.delay)
                if reply.status == 0:
                    self.close_connection = True
                    return
                body = reply.encoded()
                # The client may have closed the connection, which is not an error of the server.
                with suppress(ConnectionError):
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body[: len(body) // 2] if reply.torn else body)
                if reply.torn:
                    # Closing the connection now resets it.
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - names of http.server

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._http = LoopbackServer(Handler)
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def _next(self, request: Seen) -> Reply:
        with self._lock:
            self.seen.append(request)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def count(self, method: str, path: str) -> int:
        """Return the number of received requests of a method and a path."""
        return sum(seen.method == method and seen.route == path for seen in self.seen)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


#: Function that returns the reply to a request. None stands for 404.
Route = Callable[[Seen], Reply | None]


class RoutedServer(ScriptedServer):
    """
    Server whose responses a function chooses, one request after the other.

    :param route: returns the response to a request.
    """

    def __init__(self, route: Route, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self._route = route

    @override
    def _next(self, request: Seen) -> Reply:
        with self._lock:
            self.seen.append(request)
            reply = self._route(request)
        return reply or Reply(404, {"error_code": "not_found", "message": f"{request.path} does not exist"})
