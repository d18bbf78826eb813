"""HTTP server on loopback with a script of responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Reply:
    """
    Response of the script.

    :param status: HTTP status; 0 drops the connection without a response.
    :param body: JSON value, or raw bytes.
    :param headers: further headers.
    :param delay: seconds before the response; ended early when the server stops.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0

    def encoded(self) -> bytes:
        """Return the body as sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Seen:
    """Received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class ScriptedServer:
    """Server that answers in the order of its script, and repeats the last response."""

    def __init__(self, script: Iterable[Reply]) -> None:
        self._script = list(script)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.seen: list[Seen] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                request = Seen(self.command, self.path, dict(self.headers), self.rfile.read(length))
                reply = server._next(request)
                if reply.delay:
                    server._stopping.wait(reply.delay)
                if reply.status == 0:
                    self.close_connection = True
                    return
                body = reply.encoded()
                # The client may have hung up: that is no failure of the server.
                with suppress(ConnectionError):
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def _next(self, request: Seen) -> Reply:
        with self._lock:
            self.seen.append(request)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
