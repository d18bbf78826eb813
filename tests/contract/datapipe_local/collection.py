"""HTTP endpoint that stores objects: one collection, and one address for each object."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

Json = dict[str, Any]
#: Gives the status with which a request is refused, or 0: of its method and key.
Refuses = Callable[[str, str], int]


class Collection:
    """
    HTTP collection. ``POST /<name>`` and ``PUT`` create or replace, ``PATCH`` and ``DELETE`` require an object.

    :param key: The name of the key property.
    """

    def __init__(self, key: str = "id") -> None:
        self._key = key
        self.objects: dict[str, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.refuses: Refuses = lambda method, key: 0
        collection = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body in one packet, or each answer waits 40 ms for an acknowledgement.
            wbufsize = -1

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                sent = json.loads(self.rfile.read(length)) if length else {}
                status = collection._take(self.command, unquote(self.path), sent)
                body = b"" if status == 204 else json.dumps({"message": f"refused with {status}"}).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def reset(self, *objects: Json) -> None:
        """Replace all objects, and clear the recorded calls and refusals."""
        self.objects = {str(one[self._key]): one for one in objects}
        self.calls.clear()
        self.refuses = lambda method, key: 0

    def _take(self, method: str, path: str, sent: Json) -> int:
        _, _, below = path.removeprefix("/").partition("/")
        key = below or str(sent.get(self._key))
        self.calls.append((method, path))
        refused = self.refuses(method, key)
        if refused:
            return refused
        there = self.objects.get(key)
        if there is None and method in ("PATCH", "DELETE"):
            return 404
        if method == "DELETE":
            del self.objects[key]
            return 204
        self.objects[key] = {**(there or {}), **sent} if method == "PATCH" else sent
        return 200 if there else 201

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
