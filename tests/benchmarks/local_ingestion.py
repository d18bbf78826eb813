"""
Rate of webhook requests with one record to ``datapipe-local``: ``python -m tests.benchmarks.local_ingestion``.

The service and the sender are separate processes. The sender uses a fixed number of connections over loopback, and
sends the next request of a connection after the response to the previous one. Afterwards the service is killed
(SIGKILL), and its store must contain a row for each acknowledged request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.benchmarks.figures import part
from tests.support.local_service import LocalService
from tests.system import seeds

_SEED = seeds.webhook("hooks", "orders", authentication={"method": "token", "header": "X-Token", "token": "t0ken"})
_PATH = "/webhooks/hooks/orders"


class Poured(NamedTuple):
    """Results of a measurement."""

    requests: int
    seconds: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class _Sender(asyncio.Protocol):
    """Persistent connection."""

    _transport: asyncio.Transport

    def __init__(self, host: str, until: float, latencies: list[float]) -> None:
        self._host = host
        self._until = until
        self._latencies = latencies
        self._received = b""
        self._number = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not found or len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200 ") or body != b'{"accepted":1}':
            self._end(RuntimeError(f"not taken: {self._received[:300]!r}"))
            return
        now = time.perf_counter()
        self._latencies.append(now - self._sent_at)
        self._received = b""
        if now < self._until:
            self._send()
        else:
            self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(exc or ConnectionError("the connection was closed"))

    def _send(self) -> None:
        self._number += 1
        body = b'{"amount":12.5,"customer":"Ada","id":%d,"items":["pen","ink"],"paid":true}' % self._number
        self._sent_at = time.perf_counter()
        self._transport.write(
            b"POST %b HTTP/1.1\r\nHost: %b\r\nX-Token: t0ken\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (_PATH.encode(), self._host.encode(), len(body), body)
        )

    def _end(self, error: Exception | None) -> None:
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)
        self._transport.close()


async def pour(address: str, connections: int, seconds: float) -> Poured:
    where = urlsplit(address)
    host, port = str(where.hostname), where.port or 80
    latencies: list[float] = []
    began = time.perf_counter()
    loop = asyncio.get_running_loop()
    senders = []
    for _ in range(connections):
        _, sender = await loop.create_connection(lambda: _Sender(where.netloc, began + seconds, latencies), host, port)
        senders.append(sender)
    await asyncio.gather(*(sender.over for sender in senders))
    took = time.perf_counter() - began
    return Poured(len(latencies), took, part(latencies, 0.5) or 0.0, part(latencies, 0.99) or 0.0)


def measure(connections: int, seconds: float, runs: int) -> list[Poured]:
    """Send records from another process several times, kill the service, and count the stored records."""
    results = []
    with LocalService(_SEED) as service:
        command = [sys.executable, "-m", "tests.benchmarks.local_ingestion", "--to", service.base_url]
        command += ["--connections", str(connections), "--seconds", str(seconds)]
        for _ in range(runs):
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60)  # noqa: S603 - this module
            results.append(Poured(*json.loads(done.stdout)))
        service.kill()
        with sqlite3.connect(service.home / "state.sqlite") as store:
            (kept,) = store.execute("SELECT count(*) FROM webhook_records").fetchone()
    answered = sum(result.requests for result in results)
    if kept < answered:
        raise RuntimeError(f"{answered} requests were answered, {kept} rows are kept")
    return results


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_ingestion", description=__doc__)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each run takes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--to", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.to is not None:
        print(json.dumps(asyncio.run(pour(chosen.to, chosen.connections, chosen.seconds))))
        return 0
    results = measure(chosen.connections, chosen.seconds, chosen.runs)
    for result in results:
        print(f"{result.rate:7.0f} requests/s, p50 {1e3 * result.p50:.1f} ms, p99 {1e3 * result.p99:.1f} ms")
    print(
        f"median {median(result.rate for result in results):.0f} requests/s,"
        f" p99 {1e3 * median(result.p99 for result in results):.1f} ms, {chosen.connections} connections"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
