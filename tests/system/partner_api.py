"""
Partner that receives the records of the example pipeline: an HTTP server with two rules.

``POST /delays`` takes one record, a JSON object with at least ``carrier``, ``month`` and ``flights``:

* fewer than 10 flights are never accepted: 422;
* a carrier that the partner does not know gets 409 while it is registered. The registration is complete when a record
of the carrier arrives again. So the result of a run does not depend on the time;
* any other record is stored and replaces an earlier one of the same carrier and month: 200.

``GET /delays`` answers ``{"accepted": [record, ...], "requests": number of POSTs}``.
"""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MIN_FLIGHTS = 10
UNKNOWN_CARRIERS = frozenset({"9E", "HA", "OO"})

Key = tuple[str, int]
Record = dict[str, Any]


def key_of(record: Record) -> Key:
    return str(record["carrier"]), int(record["month"])


def too_few_flights(record: Record) -> bool:
    """Return True if the partner always refuses a record."""
    return bool(record["flights"] < MIN_FLIGHTS)


class Partner:
    """State and decisions of the partner."""

    def __init__(self) -> None:
        self.requests = 0
        self._accepted: dict[Key, Record] = {}
        self._unknown = set(UNKNOWN_CARRIERS)
        self._refused: set[Key] = set()
        self._lock = threading.Lock()

    def receive(self, body: bytes) -> tuple[HTTPStatus, str]:
        """Process a record, and return the status and the message of the response."""
        with self._lock:
            self.requests += 1
            try:
                record = json.loads(body)
                key = key_of(record)
                few = too_few_flights(record)
            except (ValueError, KeyError, TypeError) as error:
                return HTTPStatus.BAD_REQUEST, f"not a record with carrier, month and flights: {error!r}"
            carrier = key[0]
            if few:
                message = f"too few flights to publish: {record['flights']}, at least {MIN_FLIGHTS}"
                return HTTPStatus.UNPROCESSABLE_ENTITY, message
            if key in self._refused:
                self._unknown.discard(carrier)
            if carrier in self._unknown:
                self._refused.add(key)
                return HTTPStatus.CONFLICT, f"carrier {carrier} is being registered, send again later"
            self._accepted[key] = record
            return HTTPStatus.OK, "accepted"

    def accepted(self) -> list[Record]:
        """Return the accepted records, sorted by carrier and month."""
        with self._lock:
            return [record for _, record in sorted(self._accepted.items())]


class Handler(BaseHTTPRequestHandler):
    """HTTP handler of a :class:`Partner`."""

    # Keep-alive: one connection carries all records of a run.
    protocol_version = "HTTP/1.1"
    # Send head and body in one packet. Two packets would delay each response by 40 ms (delayed acknowledgement).
    wbufsize = -1
    server: PartnerServer

    def do_POST(self) -> None:
        # Read the body even if the request is refused. Otherwise it would be parsed as the next request.
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/delays":
            self._answer(HTTPStatus.NOT_FOUND, {"message": f"no such path: {self.path}"})
            return
        status, message = self.server.partner.receive(body)
        self._answer(status, {"message": message})

    def do_GET(self) -> None:
        if self.path != "/delays":
            self._answer(HTTPStatus.NOT_FOUND, {"message": f"no such path: {self.path}"})
            return
        partner = self.server.partner
        self._answer(HTTPStatus.OK, {"accepted": partner.accepted(), "requests": partner.requests})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing, because the output belongs to the demo."""

    def _answer(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class PartnerServer(ThreadingHTTPServer):
    """The partner's server on a free port of 127.0.0.1."""

    daemon_threads = True

    def __init__(self, partner: Partner) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.partner = partner


class PartnerApi:
    """Context manager that serves a partner in a thread."""

    def __init__(self) -> None:
        self.partner = Partner()

    def __enter__(self) -> Self:
        self._server = PartnerServer(self.partner)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
