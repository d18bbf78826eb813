"""Gateway between a sender and a webhook, which loses requests and responses by a script."""

from __future__ import annotations

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

_PASSED_ON = ("content-type", "authorization", "x-token", "x-signature")


class Trouble(NamedTuple):
    """
    Fault of one request.

    :param after: the service executes the request; else it does not arrive.
    :param status: status in place of the service's response; 0 closes the connection without a response.
    :param body: body in place of the service's response.
    :param headers: headers in place of those of the service.
    :param torn: send the head and half of the body of the service's response, and reset the connection.
    :param until: delay the response until this is set.
    """

    after: bool = False
    status: int = 0
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    torn: bool = False
    until: threading.Event | None = None


class WebhookGateway:
    """
    Gateway that forwards requests, except for those with a fault in the script.

    :param service: the address of the service.
    :param script: the fault of each request, by its number from 0.
    """

    def __init__(self, service: str, script: dict[int, Trouble]) -> None:
        self.requests = 0
        self._lock = threading.Lock()
        self._client = httpx.Client(base_url=service, timeout=30)
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                trouble = script.get(gateway._next())
                answer = None
                if trouble is None or trouble.after or trouble.torn:
                    headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
                    answer = gateway._client.post(self.path, content=body, headers=headers)
                if trouble is not None and trouble.until is not None:
                    trouble.until.wait()
                if trouble is None or trouble.torn:
                    assert answer is not None
                    self._answer(answer.status_code, answer.content, torn=trouble is not None)
                elif trouble.status:
                    said = trouble.body if isinstance(trouble.body, bytes) else json.dumps(trouble.body).encode()
                    self._answer(trouble.status, said, trouble.headers)
                else:
                    self.close_connection = True

            def _answer(
                self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = (), *, torn: bool = False
            ) -> None:
                self.send_response(status)
                for name, value in (*headers, ("content-length", str(len(body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if torn else body)
                if torn:
                    # To close it so resets it.
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def _next(self) -> int:
        with self._lock:
            self.requests += 1
            return self.requests - 1

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._client.close()
