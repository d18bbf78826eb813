"""Requests of both clients under a rate limit, with an HTTP server on loopback."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from airflow_provider_datapipe.api import shared_rate_limit
from airflow_provider_datapipe.api.async_client import AsyncClient
from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import elt_stream_runs
from airflow_provider_datapipe.api.errors import PermitTimeoutError, RateLimitError
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.batch_wait import wait_for_some
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.run_poller import RunPoller
from airflow_provider_datapipe.runs.wait import WaitOutcomeReason, WaitPolicy
from tests.support.many_runs import ManyRuns, ManyRunsServer, ReceivedRequest
from tests.support.scripted_server import Reply
from tests.unit.runs.many_waits import many, references

REQUEST = elt_stream_runs.get("y.s0")
Send = Callable[[Settings, int], None]


@pytest.fixture(autouse=True)
def _separate_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shared_rate_limit, "_limits", {})


@pytest.fixture
def server() -> Iterator[ManyRunsServer]:
    with ManyRunsServer(many(time.time(), streams=10, reverse_etl=10)) as served:
        yield served


def settings_for(server: ManyRunsServer, rate: float, **more: Any) -> Settings:
    return Settings(server.url, "key", max_requests_per_second=rate, **more)


def send_blocking(settings: Settings, count: int) -> None:
    with Client(settings) as client:
        for _ in range(count):
            client.send(REQUEST)


def send_concurrently(settings: Settings, count: int) -> None:
    async def main() -> None:
        async with AsyncClient(settings) as client:
            await asyncio.gather(*(client.send(REQUEST) for _ in range(count)))

    asyncio.run(main())


BOTH_CLIENTS = pytest.mark.parametrize("send", [send_blocking, send_concurrently])


def duration(asked: list[ReceivedRequest]) -> float:
    """Return the seconds from the first to the last request. A new connection delays the first one a little."""
    return asked[-1].at - asked[0].at


def test_blocking_requests_are_spaced(server: ManyRunsServer) -> None:
    send_blocking(settings_for(server, 10), 6)
    assert duration(server.runs.asked) >= 0.35


def test_concurrent_requests_are_spaced_on_few_connections(server: ManyRunsServer) -> None:
    send_concurrently(settings_for(server, 10), 6)
    assert duration(server.runs.asked) >= 0.35
    # A request that waits for its permit uses no connection: otherwise there would be six. Usually, there is one.
    assert server.most_under_way <= 3
    assert len(server.peers) <= 3


def test_both_clients_of_a_process_share_the_limit(server: ManyRunsServer) -> None:
    settings = settings_for(server, 10)
    send_blocking(settings, 3)
    send_concurrently(settings, 3)
    assert duration(server.runs.asked) >= 0.35


@BOTH_CLIENTS
def test_the_wait_for_a_permit_is_not_part_of_the_timeout(server: ManyRunsServer, send: Send) -> None:
    send(settings_for(server, 2, timeout=0.3), 3)
    assert len(server.runs.asked) == 3


@BOTH_CLIENTS
def test_the_wait_for_a_permit_is_not_part_of_the_retry_budget(server: ManyRunsServer, send: Send) -> None:
    settings = settings_for(server, 2, retry=RetryPolicy(budget=0.3, first_delay=0.01))
    send(settings, 1)
    server.runs.fault = lambda path, now: Reply(503) if server.runs.count() == 2 else None
    send(settings, 1)
    assert len(server.runs.asked) == 3


async def test_canceled_requests_use_up_no_permits(server: ManyRunsServer) -> None:
    async with AsyncClient(settings_for(server, 4)) as client:
        waiting = [asyncio.create_task(client.send(REQUEST)) for _ in range(10)]
        await waiting[0]
        for each in waiting:
            each.cancel()
        began = time.monotonic()
        await client.send(REQUEST)
        # At most the permit of the first one in the queue.
        assert time.monotonic() - began < 0.7
    assert len(server.runs.asked) == 2


@BOTH_CLIENTS
def test_a_429_halves_the_rate(server: ManyRunsServer, send: Send) -> None:
    settings = settings_for(server, 20, retry=RetryPolicy(budget=0))
    server.runs.fault = lambda path, now: Reply(429) if server.runs.count() == 1 else None
    with pytest.raises(RateLimitError):
        send(settings, 1)
    send_concurrently(settings, 4)
    assert duration(server.runs.asked[1:]) >= 0.2


def test_a_request_that_may_not_wait_is_not_sent(server: ManyRunsServer) -> None:
    urgent = replace(REQUEST, permit_by=time.time())
    with Client(settings_for(server, 0.2)) as client:
        client.send(REQUEST)
        with pytest.raises(PermitTimeoutError):
            client.send(urgent)
    assert len(server.runs.asked) == 1


async def wait_for_all(server: ManyRunsServer, settings: Settings, policy: WaitPolicy) -> list[Batch]:
    """Wait in a shared poller, as the triggers of a triggerer do."""
    poller = RunPoller(AsyncMock(return_value=settings))
    batches = [Batch(each.kind, waiting=[each]) for each in references(server.runs)]
    async with asyncio.timeout(30):
        await asyncio.gather(*(poller.wait(batch, policy) for batch in batches))
    await poller.close()
    return batches


def end_all(runs: ManyRuns) -> None:
    for run in [*runs.reverse_etl.values(), *runs.streams["y"].values()]:
        run.ends_at = time.time()


async def test_waits_end_under_a_limit_with_all_outcomes(server: ManyRunsServer) -> None:
    end_all(server.runs)
    batches = await wait_for_all(server, settings_for(server, 20), WaitPolicy(poll_interval=0.1))
    assert {end.outcome for batch in batches for end in batch.ended} == {Outcome.SUCCEEDED}
    # Ten waits for reverse ETL, each with its own request, after the burst.
    assert duration(server.runs.asked) >= 0.3


async def test_deadline_holds_while_polls_wait_for_permits(
    server: ManyRunsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.wait._GRACE", 0.2)
    monkeypatch.setattr("airflow_provider_datapipe.runs.polling.poll_schedule._SWEEP", 0.2)
    began = time.time()
    # Without the deadline, the first polls of all runs would take 110 s.
    policy = WaitPolicy(poll_interval=0.1, deadline=began + 0.5)
    batches = await wait_for_all(server, settings_for(server, 0.1), policy)
    assert {end.reason for batch in batches for end in batch.ended} == {WaitOutcomeReason.TIMEOUT}
    assert time.time() - began < 60
    assert len(server.runs.asked) == 1


def test_blocking_wait_ends_at_its_deadline_without_a_permit(
    server: ManyRunsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.wait._GRACE", 0.2)
    (reference, *_) = references(server.runs)
    batch = Batch(reference.kind, waiting=[reference])
    with Client(settings_for(server, 0.01)) as client:
        client.send(REQUEST)
        began = time.time()
        # The next permit is available in 100 s.
        run_blocking(wait_for_some(batch, WaitPolicy(poll_interval=0.1, deadline=began + 0.5)), client.send, time.sleep)
    assert [end.reason for end in batch.ended] == [WaitOutcomeReason.TIMEOUT]
    assert 0.4 < time.time() - began < 60
    assert len(server.runs.asked) == 1
