"""HTTP endpoint that accepts or refuses records by a rule of the test."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.support.loopback_server import LoopbackServer

Json = dict[str, Any]
#: Returns the status and the body of the response to a record.
Rule = Callable[[Json], tuple[int, Json]]


def accept(_: Json) -> tuple[int, Json]:
    return 201, {}


class RecordServer(ABC):
    """HTTP server for the requests of a destination, for a ``with`` block."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body in one packet, or each answer waits 40 ms for an acknowledgement.
            wbufsize = -1

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                sent = json.loads(self.rfile.read(length)) if length else {}
                reply = server.take(self.command, self.path, sent, self.headers["idempotency-key"])
                if reply is None:
                    self.close_connection = True
                    return
                status, answer = reply
                body = b"" if status == 204 else json.dumps(answer).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = LoopbackServer(Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @abstractmethod
    def take(self, method: str, path: str, sent: Json, key: str | None) -> tuple[int, Json] | None:
        """Return the status and the body of the response, None to close the connection without a response."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Partner(RecordServer):
    """
    HTTP endpoint that records requests in order. Tests may change ``rule`` at any time.

    :param honours_keys: Execute requests with the same ``Idempotency-Key`` once, and repeat the first response.
    """

    def __init__(self, *, honours_keys: bool = False) -> None:
        super().__init__()
        self.rule: Rule = accept
        self.received: list[tuple[str, Json]] = []
        #: Whether it executes requests without a response.
        self.breaks = False
        #: Whether it loses requests: it neither executes them nor responds.
        self.loses = False
        #: The idempotency keys of all requests.
        self.keys: list[str | None] = []
        #: Number of requests that it did not execute again.
        self.repeated = 0
        self._honours_keys = honours_keys
        self._answers: dict[str, tuple[int, Json]] = {}
        self._turn = threading.Lock()

    def take(self, method: str, path: str, sent: Json, key: str | None) -> tuple[int, Json] | None:
        self.keys.append(key)
        if self.loses:
            return None
        answer = self._execute(path, sent, key if self._honours_keys else None)
        return None if self.breaks else answer

    def _execute(self, path: str, record: Json, key: str | None) -> tuple[int, Json]:
        if key is None:
            self.received.append((path, record))
            return self.rule(record)
        # One at a time: a request can be repeated while the first one is being executed.
        with self._turn:
            if key in self._answers:
                self.repeated += 1
            else:
                self.received.append((path, record))
                self._answers[key] = self.rule(record)
            return self._answers[key]

    @property
    def records(self) -> list[Json]:
        return [record for _, record in self.received]

    def reset(self) -> None:
        self.rule = accept
        self.received.clear()
        self.keys.clear()
        self.repeated = 0
        self.breaks = self.loses = False
