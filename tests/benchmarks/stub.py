"""
Stub of the service: ``python -m tests.benchmarks.stub PORT CERTIFICATE PLAN``.

Responds as fast as possible, so that the client is the bottleneck. Connects to the driver, and counts requests.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

import httptools
import uvloop

from tests.benchmarks.adapters import Adapter
from tests.benchmarks.plan import Plan
from tests.benchmarks.runs import Runs


class Service(asyncio.Protocol):
    """Connection to the service."""

    def __init__(self, adapter: Adapter, runs: Runs, latency: float) -> None:
        self._adapter = adapter
        self._runs = runs
        self._latency = latency
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection after its TLS handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._runs.connections += 1
        self._runs.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._runs.open -= 1
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_message_complete(self) -> None:
        asked_at, path = time.monotonic(), unquote(self._url.decode())
        if self._latency:
            # The content is determined when the response is sent, like in a slow service.
            asyncio.get_running_loop().call_later(self._latency, self._answer, path, asked_at)
        else:
            self._answer(path, asked_at)

    def _answer(self, path: str, asked_at: float) -> None:
        if self._transport is None:
            return
        runs = self._runs
        runs.requests += 1
        runs.asked_at = asked_at
        answer = self._adapter.answer(path, runs)
        runs.not_found += answer is None
        body = json.dumps(answer or {}).encode()
        status = b"404 Not Found" if answer is None else b"200 OK"
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


async def _receive_commands(port: int, service: int, adapter: Adapter, runs: Runs) -> None:
    """Execute the commands of the driver until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)

    def report(**what: object) -> None:
        writer.write(json.dumps(what).encode() + b"\n")

    report(what="stub", port=service)
    while line := await reader.readline():
        command = json.loads(line)
        more: dict[str, object] = {}
        match command["what"]:
            case "begin":
                adapter.begin(command["at"])
            case "started":
                runs.is_starting = False
            case "end":
                runs.ended_at = more["ended_at"] = time.monotonic()
            case "polls":
                more["polls"] = list(runs.polls.items())
            case "asked":
                more["asked"] = list(runs.asked.items())
        report(what="counts", counts=runs.counts(), **more)


async def main(port: str, certificate: str, plan_text: str) -> None:
    plan = Plan.from_json(plan_text)
    adapter = plan.make()
    runs = adapter.runs(plan.count)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    connect: Callable[[], Service] = lambda: Service(adapter, runs, plan.latency)  # noqa: E731 - shorter with a type
    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0, ssl=context, backlog=4096)
    await _receive_commands(int(port), server.sockets[0].getsockname()[1], adapter, runs)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
