"""HTTP endpoint that accepts or refuses records by a rule of the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
#: Gives the status and the body of the answer to a record.
Rule = Callable[[Json], tuple[int, Json]]


def accept(_: Json) -> tuple[int, Json]:
    return 201, {}


class Partner:
    """
    HTTP endpoint that records requests in order. Tests may change ``rule`` at any time.

    :param honours_keys: Execute requests with the same ``Idempotency-Key`` once, and repeat the first response.
    """

    def __init__(self, *, honours_keys: bool = False) -> None:
        self.rule: Rule = accept
        self.received: list[tuple[str, Json]] = []
        #: Whether it answers no request, though it carries them out.
        self.breaks = False
        #: The keys of all requests.
        self.keys: list[str | None] = []
        #: How many requests were not carried out, since they had been.
        self.repeated = 0
        self._honours_keys = honours_keys
        self._answers: dict[str, tuple[int, Json]] = {}
        self._turn = threading.Lock()
        partner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body in one packet, or each answer waits 40 ms for an acknowledgement.
            wbufsize = -1

            def do_POST(self) -> None:
                record = json.loads(self.rfile.read(int(self.headers["content-length"])))
                key = self.headers["idempotency-key"]
                partner.keys.append(key)
                status, answer = partner._take(self.path, record, key if partner._honours_keys else None)
                if partner.breaks:
                    # It was carried out, and nobody is told.
                    self.close_connection = True
                    return
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _take(self, path: str, record: Json, key: str | None) -> tuple[int, Json]:
        if key is None:
            self.received.append((path, record))
            return self.rule(record)
        # One at a time: the same may come again while the first is under way.
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
        self.breaks = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
