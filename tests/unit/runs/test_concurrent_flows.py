"""Concurrent flows, over a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from types import FrameType
from typing import Any

import pytest

from airflow_provider_datapipe.api.endpoints import orchestrations
from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.concurrent_flows import run_concurrently
from airflow_provider_datapipe.flows import gather, run_async, run_blocking, send
from tests.support.loopback_server import LoopbackServer

AT_A_TIME = 4
LIMIT = 30


class Service:
    """
    Responds when the allowed number of concurrent requests has arrived, and counts the largest number.

    :ivar held: if set, requests get no response.
    """

    def __init__(self) -> None:
        self.most = self.now = 0
        self.held = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.released = threading.Event()
        lock = threading.Lock()
        self.all_arrived = threading.Barrier(AT_A_TIME, timeout=LIMIT)
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with lock:
                    service.now += 1
                    service.most = max(service.most, service.now)
                service.arrived.release()
                name = self.path.rpartition("/")[2]
                if service.held.is_set():
                    service.released.wait(LIMIT)
                elif name != "gone":
                    # The test may end before all requests have arrived.
                    with suppress(threading.BrokenBarrierError):
                        service.all_arrived.wait()
                with lock:
                    service.now -= 1
                body = json.dumps({"id": name, "name": name}).encode()
                self.send_response(404 if name == "gone" else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self.server = LoopbackServer(Handler)
        self.settings = Settings(f"http://127.0.0.1:{self.server.server_port}", "key", max_connections=AT_A_TIME)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.released.set()
    made.all_arrived.abort()
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "datapipe-concurrent-flows"]


async def name_of(orchestration_id: str) -> str:
    return (await send(orchestrations.get(orchestration_id))).name


def test_requests_are_limited_and_responses_keep_their_order(service: Service) -> None:
    asked: list[str] = []
    names = [f"o{number}" for number in range(5 * AT_A_TIME)]
    given = run_concurrently(
        service.settings, [name_of(name) for name in names], lambda request: asked.append(request.endpoint.name)
    )
    assert given == names
    # The server responds after all of these requests have arrived.
    assert service.most == AT_A_TIME
    assert asked == ["orchestrations.get"] * len(names)
    assert not own_threads()


def test_error_of_one_flow_ends_the_other_flows(service: Service) -> None:
    with pytest.raises(NotFoundError):
        run_concurrently(service.settings, [name_of(name) for name in ("gone", *["o"] * (2 * AT_A_TIME - 1))])
    assert not own_threads()


class Stopped(BaseException):
    """Exception of a signal."""


def test_exception_of_a_signal_handler_ends_all_flows(service: Service) -> None:
    def stop(_: int, __: FrameType | None) -> None:
        raise Stopped

    service.held.set()
    before = signal.signal(signal.SIGUSR1, stop)

    def send() -> None:
        service.arrived.acquire(timeout=LIMIT)
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Stopped):
            run_concurrently(service.settings, [name_of("o")])
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert not own_threads()


@pytest.mark.parametrize("when", ["before the thread exists", "before it begins", "after it has begun"])
def test_a_signal_during_the_start_of_the_thread_ends_it(
    when: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.held.set()
    start, run = threading.Thread.start, threading.Thread.run
    stopped = threading.Event()

    def stop_during_start(thread: threading.Thread) -> None:
        if thread.name == "datapipe-concurrent-flows":
            if when != "before the thread exists":
                start(thread)
            if when == "after it has begun":
                assert service.arrived.acquire(timeout=LIMIT)
            raise Stopped
        start(thread)

    def run_late(thread: threading.Thread) -> None:
        if thread.name == "datapipe-concurrent-flows" and when == "before it begins":
            assert stopped.wait(LIMIT)
        run(thread)

    monkeypatch.setattr(threading.Thread, "start", stop_during_start)
    monkeypatch.setattr(threading.Thread, "run", run_late)
    with pytest.raises(Stopped):
        run_concurrently(service.settings, [name_of("o")])
    stopped.set()
    for thread in own_threads():
        # Only a thread that was stopped before it began may still be alive. It ends without a request.
        assert when == "before it begins"
        thread.join(LIMIT)
        assert not thread.is_alive()
        assert not service.arrived.acquire(blocking=False)


async def both() -> list[str]:
    return await gather([name_of("a"), name_of("b")])


def named(request: Any) -> Orchestration:
    name = request.path.rpartition("/")[2]
    return Orchestration(id=name, name=name.upper())


def test_run_blocking_can_delegate_a_gather() -> None:
    one_by_one = run_blocking(both(), named, lambda _: None)
    gathered: list[Any] = []

    def run_together(given: Any) -> list[str]:
        gathered.append(given)
        for flow in given:
            flow.close()
        return ["by", "others"]

    assert one_by_one == ["A", "B"]
    assert run_blocking(both(), named, lambda _: None, run_together) == ["by", "others"]
    assert len(gathered[0]) == 2


async def test_run_async_executes_a_gather_concurrently() -> None:
    all_arrived = asyncio.Barrier(2)

    async def answer(request: Any) -> Any:
        await asyncio.wait_for(all_arrived.wait(), LIMIT)
        return named(request)

    assert await run_async(both(), answer, asyncio.sleep) == ["A", "B"]
