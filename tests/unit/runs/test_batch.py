"""Batches of runs: starts and waits, with a model of the service."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConflictError,
    InvalidRequestError,
    RateLimitError,
    TransportError,
)
from airflow_provider_datapipe.api.models.common import RunRequested
from airflow_provider_datapipe.flows import run_async
from airflow_provider_datapipe.runs.batch import Batch, start_queued
from airflow_provider_datapipe.runs.batch_wait import BatchWait, run_batch
from airflow_provider_datapipe.runs.errors import LostContactError, RunError, RunTimeoutError
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result, exception_for, explain
from airflow_provider_datapipe.runs.start import StartPolicy
from airflow_provider_datapipe.runs.task_state import NoTaskState
from airflow_provider_datapipe.runs.wait import WaitOutcomeReason, WaitPolicy
from tests.unit.runs.model_service import REQUESTED, ModelService, page, run_of, stream_run, transform

POLICY = WaitPolicy(poll_interval=10, contact_limit=100, schedule_limit=1000)
ONE = RunTarget("s", "orders")
TABLE = RunTarget("t", "t", {"materialization": "table"})
DOWN = TransportError("down.", sent=False)
#: List of runs before the run is requested.
BEFORE = page(stream_run("COMPLETED", "r0"))


def run(service: ModelService, batch: Batch, policy: WaitPolicy = POLICY, *, alone: bool = True, **more: Any) -> Batch:
    steps = run_batch(batch, NoTaskState(), StartPolicy(), policy, alone=alone, clock=service.clock, **more)
    service.run(steps)
    return batch


async def run_on_loop(service: ModelService, batch: Batch) -> Batch:
    steps = run_batch(batch, NoTaskState(), StartPolicy(), POLICY, alone=True, clock=service.clock)
    await run_async(steps, AsyncMock(side_effect=service.send), AsyncMock(side_effect=service.sleep))
    return batch


def begin(service: ModelService, batch: Batch, *, alone: bool = True) -> Batch:
    steps = start_queued(batch, NoTaskState(), StartPolicy(), alone=alone, clock=service.clock)
    service.run(steps)
    return batch


def streams(*targets: RunTarget, **more: Any) -> Batch:
    return Batch("elt_stream", queued=list(targets), **more)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_run_is_requested_then_found_then_polled_by_its_id(*, is_async: bool) -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED],
        elt_stream_runs__list=[BEFORE, page(), page(), page(stream_run("RUNNING"))],
        elt_stream_runs__get=[
            TransportError("", sent=True),
            stream_run("COMPLETED", finished_at="2026-01-01T00:01:00Z", rows_synced=7),
        ],
    )
    (end,) = (await run_on_loop(service, streams(ONE)) if is_async else run(service, streams(ONE))).ended
    assert (end.reason, end.outcome) == (WaitOutcomeReason.RUN_OVER, Outcome.SUCCEEDED)
    assert end.result == {
        "kind": "elt_stream",
        "resource_id": "s",
        "name": "orders",
        "run_id": "r1",
        "status": "COMPLETED",
        "outcome": "succeeded",
        "started_at": "2026-01-01T00:00:00.000Z",
        "finished_at": "2026-01-01T00:01:00.000Z",
        "duration": 60.0,
        "rows_synced": 7,
        "rows_failed": None,
        "rows_total": None,
        "attached": False,
        "error": None,
    }
    assert service.asked == [
        "elt_stream_runs.list",
        "elt_streams.request_run",
        *["elt_stream_runs.list"] * 3,
        *["elt_stream_runs.get"] * 2,
    ]
    assert service.now == 1_000_040


@pytest.mark.parametrize(
    ("newest", "found", "requests"),
    [
        ([stream_run("RUNNING", "r6")], "r6", 1),
        # Only a second request shows whether the conflicting run is scheduled or has just ended.
        ([stream_run("COMPLETED", "r4")], None, 2),
        ([], None, 2),
    ],
)
def test_start_attaches_to_an_active_run(newest: list[Any], found: str | None, requests: int) -> None:
    refused = ConflictError("", status=409)
    service = ModelService(elt_streams__request_run=[refused], elt_stream_runs__list=[page(*newest)])
    (reference,) = begin(service, streams(ONE)).waiting
    assert reference.attached
    assert service.asked.count("elt_streams.request_run") == requests
    assert (reference.run_id, reference.status_url) == (found, None)


@pytest.mark.parametrize("error", [AuthenticationError("", status=401), TransportError("", sent=False)])
def test_error_that_prevents_a_start_is_raised(error: Exception) -> None:
    service = ModelService(elt_stream_runs__list=[BEFORE], elt_streams__request_run=[error])
    with pytest.raises(type(error)):
        run(service, streams(ONE))


def test_one_refused_run_does_not_stop_the_other_runs() -> None:
    service = ModelService(
        elt_streams__request_run=[InvalidRequestError("job stopped", status=400), REQUESTED],
        elt_stream_runs__list=[BEFORE, BEFORE, page(stream_run("COMPLETED"))],
    )
    batch = run(service, streams(RunTarget("a", "a"), RunTarget("b", "b")), alone=False)
    assert [(end.reason, end.reference.name) for end in batch.ended] == [
        (WaitOutcomeReason.NOT_STARTED, "a"),
        (WaitOutcomeReason.RUN_OVER, "b"),
    ]


def test_the_limit_of_runs_at_a_time_is_kept() -> None:
    active: list[int] = []
    changes = {"elt_streams.request_run": 1, "elt_stream_runs.get": -1}

    def start(request: Any) -> RunRequested:
        active.append(sum(changes.get(name, 0) for name in service.asked))
        return RunRequested(
            status_url=f"/elt_stream_runs?elt_stream_id={request.path.split('/')[2]}&sort_direction=asc"
        )

    def poll(request: Any) -> Any:
        query = dict(request.query)
        return BEFORE if query["sort_direction"] == "desc" else page(stream_run("RUNNING", query["elt_stream_id"]))

    service = ModelService(
        elt_streams__request_run=[start],
        elt_stream_runs__list=[poll],
        elt_stream_runs__get=[lambda request: stream_run("COMPLETED", request.path.rpartition("/")[2])],
    )
    batch = run(service, streams(*(RunTarget(name, name) for name in "abcdefg"), at_a_time=3), alone=False)
    assert len(batch.ended) == 7
    assert max(active) == 3


@pytest.mark.parametrize(("asked", "until"), [(70, 70), (3_000, 300)])
def test_retry_after_outlasts_a_deferral(asked: float, until: float) -> None:
    limited = RateLimitError("", status=429, retry_after=asked)
    service = ModelService(elt_stream_runs__get=[limited, stream_run("COMPLETED")])
    batch = Batch("elt_stream", waiting=[RunRef("elt_stream", "s", "orders", run_id="r1")])
    policy = replace(POLICY, contact_limit=10_000)
    run(service, batch, policy, limit=lambda _: 1.0)
    assert (batch.is_over, service.now) == (False, 1_000_001)
    run(service, Batch.from_dict(json.loads(json.dumps(batch.as_dict()))), policy)
    assert service.now == 1_000_000 + until


def test_nothing_starts_after_the_deadline() -> None:
    service = ModelService(
        elt_stream_runs__list=[BEFORE, page(stream_run("RUNNING"))],
        elt_stream_runs__get=[stream_run("RUNNING")],
        elt_streams__request_run=[REQUESTED],
    )
    batch = streams(*(RunTarget(name, name) for name in "abc"), at_a_time=1)
    run(service, batch, replace(POLICY, deadline=1_000_060), alone=False)
    assert service.asked.count("elt_streams.request_run") == 1
    assert [(end.reason, end.detail) for end in batch.ended] == [
        (WaitOutcomeReason.TIMEOUT, None),
        *[(WaitOutcomeReason.NOT_STARTED, "not requested: the wait for another run failed (timeout)")] * 2,
    ]
    assert service.now == 1_000_060


@pytest.mark.parametrize(
    ("polls", "expected", "says"),
    [
        ([stream_run("RUNNING", "r0")], RunTimeoutError, "run r0 has to end first, but did not end in time."),
        (
            [stream_run("RUNNING", "r0"), DOWN],
            LostContactError,
            "but contact with the service was lost for 100 s.\ndown.",
        ),
    ],
)
def test_a_failed_wait_for_another_run_is_no_failed_run(polls: list[Any], expected: type[RunError], says: str) -> None:
    service = ModelService(elt_stream_runs__list=[page(stream_run("RUNNING", "r0"))], elt_stream_runs__get=polls)
    policy = replace(POLICY, poll_interval=900, deadline=1_000_060) if expected is RunTimeoutError else POLICY
    batch = run(service, streams(replace(ONE, options={"full_refresh": True})), policy)
    (end,) = [service.run(explain(end)) for end in batch.ended]
    assert service.asked.count("elt_streams.request_run") == 0
    error = exception_for(end)
    assert type(error) is expected
    assert says in str(error)
    assert build_run_result(end)["outcome"] == "scheduled"


def test_an_outage_ends_the_batch_and_started_runs_are_awaited() -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED, AuthenticationError("no", status=401)],
        elt_stream_runs__list=[BEFORE, BEFORE, page(stream_run("COMPLETED"))],
    )
    batch = run(service, streams(*(RunTarget(name, name) for name in "abcd")), alone=False)
    ends = {end.reference.name: (end.reason, end.outcome) for end in batch.ended}
    assert ends["a"] == (WaitOutcomeReason.RUN_OVER, Outcome.SUCCEEDED)
    assert {ends[name][0] for name in "bcd"} == {WaitOutcomeReason.NOT_STARTED}
    assert service.asked.count("elt_streams.request_run") == 2


def test_published_view_succeeds_without_a_wait() -> None:
    service = ModelService(transforms__get=[transform()], transforms__publish=[transform(materialization="view")])
    (end,) = run(service, Batch("transform", queued=[RunTarget("t", "t")])).ended
    assert end.outcome is Outcome.SUCCEEDED
    assert service.asked == ["transforms.get", "transforms.publish"]
    assert end.reference.name == "sales/daily"


def test_publication_of_a_table_waits_and_keeps_its_error() -> None:
    service = ModelService(
        transforms__publish=[transform(materialization_status="running")],
        transforms__get=[
            transform(),
            transform(materialization_status="running"),
            transform(materialization_status="failed", materialization_error="no column foo"),
        ],
    )
    (end,) = run(service, Batch("transform", queued=[TABLE])).ended
    assert end.outcome is Outcome.FAILED
    assert end.result is not None
    assert end.result["error"] == "no column foo"
    body = service.requests[1].body
    assert body is not None
    assert body.as_json() == {"materialization": "table"}


def test_status_from_before_the_publication_is_ignored() -> None:
    before = transform(materialization_status="completed")
    later = "2026-01-02T00:00:00Z"
    service = ModelService(
        transforms__publish=[transform(materialization_status="running", updated_at=later)],
        # The second response comes from a lagging replica.
        transforms__get=[before, before, transform(materialization_status="failed", updated_at=later)],
    )
    (end,) = run(service, Batch("transform", queued=[TABLE])).ended
    assert end.outcome is Outcome.FAILED


def test_an_earlier_outcome_is_not_used_longer_after_a_deferral() -> None:
    before = transform(materialization_status="completed")
    service = ModelService(
        transforms__publish=[transform(materialization_status="running")], transforms__get=[before, before]
    )
    batch = begin(service, Batch("transform", queued=[TABLE]))
    for _ in range(3):
        batch = Batch.from_dict(json.loads(json.dumps(batch.as_dict())))
        wait = BatchWait(batch, POLICY, service.now)
        wait.write_back()
        service.now += 3
    run(service, batch, replace(POLICY, poll_interval=2))
    # The deferrals took 9 s of the 10 s by which a replica can lag.
    assert service.now <= 1_000_000 + 11


@pytest.mark.parametrize(
    ("option", "asked"),
    [
        (False, []),
        ([], []),
        (True, ["reverse_etl_failed_records.retry_all"]),
        (["1", "2"], ["reverse_etl_failed_records.retry"]),
    ],
)
def test_failed_records_are_reset_before_the_run_is_requested(option: object, asked: list[str]) -> None:
    done = run_of("reverse_etl", "e1", "COMPLETED", of="e", finished_at="2026-01-01T00:00:01Z", failed_rows=2)
    service = ModelService(
        reverse_etl_failed_records__retry_all=[None],
        reverse_etl_failed_records__retry=[None],
        reverse_etl_syncs__request_run=[RunRequested(status_url="/reverse_etl_sync_runs?reverse_etl_sync_id=e")],
        reverse_etl_sync_runs__list=[page(), page(done)],
    )
    target = RunTarget("e", "e", {"retry_failed_records": option})
    (end,) = run(service, Batch("reverse_etl", queued=[target])).ended
    assert end.outcome is Outcome.PARTIAL
    listed = "reverse_etl_sync_runs.list"
    assert service.asked == [listed, *asked, "reverse_etl_syncs.request_run", listed]
