"""Starting and waiting, driven against a model of the service with a clock of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.common import RunRequested
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncRun
from airflow_provider_datapipe.runs.batch import Batch, BatchWait, run_batch, start_queued
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.records import NoRecords
from airflow_provider_datapipe.runs.reference import Reference, Target
from airflow_provider_datapipe.runs.start import StartPolicy
from airflow_provider_datapipe.runs.steps import adrive, drive
from airflow_provider_datapipe.runs.wait import EndReason, WaitPolicy
from tests.unit.runs.model_service import REQUESTED, ModelService, page, stream_run, transform

POLICY = WaitPolicy(poll_interval=10, contact_limit=100, schedule_limit=1000)
ONE = Target("s", "orders")
#: What the list shows before a run is asked for.
BEFORE = page(stream_run("COMPLETED", "r0"))


def whole(service: ModelService, batch: Batch, policy: WaitPolicy = POLICY, *, alone: bool = True) -> Any:
    return run_batch(batch, NoRecords(), StartPolicy(), policy, alone=alone, clock=service.clock)


def run(service: ModelService, batch: Batch, policy: WaitPolicy = POLICY, *, alone: bool = True) -> Batch:
    drive(whole(service, batch, policy, alone=alone), service.send, service.sleep)
    return batch


def begin(service: ModelService, batch: Batch, *, alone: bool = True) -> Batch:
    steps = start_queued(batch, NoRecords(), StartPolicy(), alone=alone, clock=service.clock)
    drive(steps, service.send, service.sleep)
    return batch


def streams(*targets: Target, **more: Any) -> Batch:
    return Batch("elt_stream", queued=list(targets), **more)


def test_a_run_is_asked_for_then_found_then_followed_by_its_id() -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED],
        elt_stream_runs__list=[BEFORE, page(), page(), page(stream_run("RUNNING"))],
        elt_stream_runs__get=[
            stream_run(None),
            stream_run("COMPLETED", finished_at="2026-01-01T00:01:00Z", rows_synced=7),
        ],
    )
    (end,) = run(service, streams(ONE)).ended
    assert end.reason is EndReason.RUN_OVER
    assert end.outcome is Outcome.SUCCEEDED
    assert end.result is not None
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


def test_awaiting_does_the_same() -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED],
        elt_stream_runs__list=[BEFORE, page(stream_run("RUNNING"))],
        elt_stream_runs__get=[TransportError("", sent=True), stream_run("COMPLETED")],
    )
    batch = streams(ONE)

    async def send(request: Any) -> Any:
        return service.send(request)

    async def sleep(seconds: float) -> None:
        service.sleep(seconds)

    asyncio.run(adrive(whole(service, batch), send, sleep))
    assert batch.ended[0].outcome is Outcome.SUCCEEDED


def test_slices_of_a_long_load_are_followed_and_their_rows_added() -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED],
        elt_stream_runs__list=[
            BEFORE,
            page(stream_run("CHUNK_COMPLETED", rows_synced=100)),
            page(),
            page(stream_run("CHUNK_COMPLETED", "r2", rows_synced=50)),
            page(stream_run("COMPLETED", "r3", rows_synced=1)),
        ],
    )
    (end,) = run(service, streams(ONE)).ended
    assert end.result is not None
    assert (end.result["run_id"], end.result["rows_synced"]) == ("r3", 151)
    after = [dict(request.query).get("starting_after") for request in service.requests[2:]]
    assert after == ["r0", "r1", "r1", "r2"]


@pytest.mark.parametrize(
    ("active_run_id", "newest", "found"),
    [
        ("r5", [], "r5"),
        (None, [stream_run("RUNNING", "r6")], "r6"),
        (None, [stream_run("COMPLETED", "r4")], None),
        (None, [], None),
    ],
)
def test_a_run_that_is_going_already_is_attached_to(
    active_run_id: str | None, newest: list[Any], found: str | None
) -> None:
    service = ModelService(
        elt_streams__request_run=[ConflictError("", status=409, active_run_id=active_run_id)],
        elt_stream_runs__list=[page(*newest)],
        elt_stream_runs__get=[stream_run("RUNNING", "r5")],
    )
    (reference,) = begin(service, streams(ONE)).waiting
    assert reference.attached
    # Without an id and with nothing going, only asking again tells "scheduled" from "over by now".
    assert service.asked.count("elt_streams.request_run") == (1 if found else 2)
    assert (reference.run_id, reference.status_url) == (found, None)


@pytest.mark.parametrize("error", [AuthenticationError("", status=401), TransportError("", sent=False)])
def test_what_prevents_a_start_is_raised(error: Exception) -> None:
    service = ModelService(elt_stream_runs__list=[BEFORE], elt_streams__request_run=[error])
    with pytest.raises(type(error)):
        run(service, streams(ONE))


def test_one_of_many_that_is_refused_does_not_stop_the_others() -> None:
    service = ModelService(
        elt_streams__request_run=[InvalidRequestError("job stopped", status=400), REQUESTED],
        elt_stream_runs__list=[BEFORE, BEFORE, page(stream_run("COMPLETED"))],
    )
    batch = run(service, streams(Target("a", "a"), Target("b", "b")), alone=False)
    assert [(end.reason, end.reference.name) for end in batch.ended] == [
        (EndReason.NOT_STARTED, "a"),
        (EndReason.RUN_OVER, "b"),
    ]


def test_no_more_than_so_many_at_a_time() -> None:
    going: set[str] = set()
    most = 0

    def accept(request: Any) -> RunRequested:
        nonlocal most
        stream_id = request.path.split("/")[2]
        going.add(stream_id)
        most = max(most, len(going))
        return RunRequested(status_url=f"/elt_stream_runs?elt_stream_id={stream_id}&sort_direction=asc")

    def look(request: Any) -> Any:
        query = dict(request.query)
        if query["sort_direction"] == "desc":
            return BEFORE
        stream_id = query["elt_stream_id"]
        going.discard(stream_id)
        return page(stream_run("COMPLETED", f"run-{stream_id}"))

    service = ModelService(elt_streams__request_run=[accept], elt_stream_runs__list=[look])
    batch = streams(*(Target(name, name) for name in "abcdefg"), at_a_time=3)
    run(service, batch, alone=False)
    assert len(batch.ended) == 7
    assert most == 3


def test_a_batch_survives_json_at_every_step() -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED], elt_stream_runs__list=[page(stream_run("COMPLETED", rows_synced=1))]
    )
    batch = begin(service, streams(Target("a", "a", {"full_refresh": False}), Target("b", "b"), at_a_time=1))
    assert Batch.from_dict(batch.as_dict()) == batch
    run(service, batch, alone=False)
    assert Batch.from_dict(batch.as_dict()) == batch


def waiting(service: ModelService, policy: WaitPolicy, **reference: Any) -> Any:
    batch = Batch("elt_stream", waiting=[Reference("elt_stream", "s", "orders", **reference)])
    return run(service, batch, policy).ended[0]


def test_contact_that_comes_back_is_not_lost() -> None:
    down = [ServerError("", status=502)] * 4
    service = ModelService(elt_stream_runs__get=[*down, stream_run("RUNNING"), *down, stream_run("COMPLETED")])
    assert waiting(service, POLICY, run_id="r1").outcome is Outcome.SUCCEEDED


def test_lost_contact_is_not_reported_as_a_failed_run() -> None:
    service = ModelService(elt_stream_runs__get=[stream_run("RUNNING"), TransportError("no answer", sent=True)])
    end = waiting(service, POLICY, run_id="r1")
    assert (end.reason, end.outcome) == (EndReason.LOST_CONTACT, Outcome.RUNNING)
    assert service.now == 1_000_100


@pytest.mark.parametrize("status", [402, 405, 407, 408, 412, 413, 418, 421, 422, 425, 431, 451])
def test_a_refusal_that_says_nothing_about_the_run_is_no_end(status: int) -> None:
    error = InvalidRequestError("odd", status=status)
    service = ModelService(elt_stream_runs__get=[error, stream_run("COMPLETED")])
    assert waiting(service, POLICY, run_id="r1").outcome is Outcome.SUCCEEDED


def test_no_request_precedes_the_end_of_retry_after() -> None:
    limited = RateLimitError("", status=429, retry_after=70)
    service = ModelService(elt_stream_runs__get=[limited, stream_run("COMPLETED")])
    waiting(service, POLICY, run_id="r1")
    assert service.now == 1_000_070


@pytest.mark.parametrize(("asked", "until"), [(70, 70), (3_000, 300)])
def test_delay_that_a_service_asks_for_is_kept_over_a_deferral(asked: float, until: float) -> None:
    limited = RateLimitError("", status=429, retry_after=asked)
    service = ModelService(elt_stream_runs__get=[limited, stream_run("COMPLETED")])
    batch = Batch("elt_stream", waiting=[Reference("elt_stream", "s", "orders", run_id="r1")])
    policy = replace(POLICY, contact_limit=10_000)
    steps = run_batch(batch, NoRecords(), StartPolicy(), policy, alone=True, clock=service.clock, limit=lambda _: 1.0)
    drive(steps, service.send, service.sleep)
    assert (batch.is_over, service.now) == (False, 1_000_001)
    run(service, Batch.from_dict(json.loads(json.dumps(batch.as_dict()))), policy)
    assert service.now == 1_000_000 + until


def test_looks_at_a_service_that_fails_become_rarer() -> None:
    at: list[float] = []

    def fail(_: Any) -> Any:
        at.append(service.now)
        raise ServerError("", status=500)

    service = ModelService(elt_stream_runs__get=[fail])
    waiting(service, replace(POLICY, contact_limit=10_000), run_id="r1")
    delays = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert min(delays[:-1]) >= 10
    assert max(delays) <= 300
    assert len(at) < 60


def test_looks_are_not_repeated_by_the_client() -> None:
    service = ModelService(elt_stream_runs__get=[stream_run("COMPLETED")])
    waiting(service, POLICY, run_id="r1")
    assert service.requests[0].once


def test_a_run_that_was_there_and_is_not_has_vanished() -> None:
    service = ModelService(elt_stream_runs__get=[stream_run("RUNNING"), NotFoundError("gone", status=404)])
    assert waiting(service, POLICY, run_id="r1").reason is EndReason.VANISHED


def test_a_run_that_never_appears_is_given_up() -> None:
    service = ModelService(elt_stream_runs__list=[page()])
    end = waiting(service, POLICY, status_url=REQUESTED.status_url)
    assert end.reason is EndReason.NOT_SCHEDULED
    assert service.now == 1_001_000


@pytest.mark.parametrize("offset", [0, 4, 10, 25])
def test_the_deadline_is_absolute_and_there_is_a_last_look_at_it(offset: float) -> None:
    service = ModelService(elt_stream_runs__get=[stream_run("RUNNING")])
    end = waiting(service, replace(POLICY, deadline=1_000_000 + offset), run_id="r1")
    assert end.reason is EndReason.TIMEOUT
    assert end.result["run_id"] == "r1"
    assert service.now == 1_000_000 + offset


def test_how_long_a_run_is_absent_is_remembered_over_resumes() -> None:
    service = ModelService(elt_stream_runs__list=[page()])
    batch = Batch("elt_stream", waiting=[Reference("elt_stream", "s", "orders", status_url=REQUESTED.status_url)])
    early = replace(POLICY, deadline=1_000_700)
    (end,) = run(service, batch, early).ended
    assert end.reason is EndReason.TIMEOUT
    stored = Batch.from_dict(Batch("elt_stream", waiting=[end.reference]).as_dict())
    (end,) = run(service, stored).ended
    assert end.reason is EndReason.NOT_SCHEDULED
    assert service.now == 1_001_000


def test_nothing_starts_after_the_deadline_and_waits_end_soon() -> None:
    def look(request: Any) -> Any:
        if dict(request.query).get("sort_direction") == "desc":
            return BEFORE
        # A service so slow that thirty looks would take half an hour.
        service.now += 60 if service.now > 1_000_050 else 0
        return page(stream_run("RUNNING"))

    service = ModelService(
        elt_stream_runs__list=[look], elt_stream_runs__get=[look], elt_streams__request_run=[REQUESTED]
    )
    service._answers["elt_stream_runs.get"] = [lambda request: look(request).data[0]]
    batch = streams(*(Target(str(number), str(number)) for number in range(30)), at_a_time=10)
    run(service, batch, replace(POLICY, deadline=1_000_060), alone=False)
    assert service.asked.count("elt_streams.request_run") == 10
    assert [end.reason for end in batch.ended].count(EndReason.TIMEOUT) == 10
    late = [end for end in batch.ended if end.reason is EndReason.NOT_STARTED]
    assert len(late) == 20
    assert all("not asked for" in (end.detail or "") for end in late)
    assert service.now < 1_000_060 + 200


def test_an_outage_ends_the_batch_and_started_runs_are_awaited() -> None:
    service = ModelService(
        elt_streams__request_run=[REQUESTED, AuthenticationError("no", status=401)],
        elt_stream_runs__list=[BEFORE, BEFORE, page(stream_run("COMPLETED"))],
    )
    batch = run(service, streams(*(Target(name, name) for name in "abcd")), alone=False)
    ends = {end.reference.name: (end.reason, end.outcome) for end in batch.ended}
    assert ends["a"] == (EndReason.RUN_OVER, Outcome.SUCCEEDED)
    assert {ends[name][0] for name in "bcd"} == {EndReason.NOT_STARTED}
    assert service.asked.count("elt_streams.request_run") == 2


def test_an_orchestration_is_tracked_by_the_id_of_the_request() -> None:
    def orchestration(status: str, **more: Any) -> OrchestrationRun:
        fields = {"id": "o1", "orchestration_id": "o", "status": status, "due_at": "2026-01-01T00:00:00Z"}
        return OrchestrationRun.model_validate(fields | more)

    service = ModelService(
        orchestration_runs__list=[page()],
        orchestrations__request_run=[orchestration("NOT_STARTED")],
        orchestration_runs__get=[orchestration("RUNNING"), orchestration("CANCELED")],
    )
    (end,) = run(service, Batch("orchestration", queued=[Target("o", "o")])).ended
    assert (end.outcome, end.result and end.result["run_id"]) == (Outcome.CANCELED, "o1")


def test_a_view_is_there_at_once() -> None:
    service = ModelService(transforms__get=[transform()], transforms__publish=[transform(materialization="view")])
    (end,) = run(service, Batch("transform", queued=[Target("t", "t")])).ended
    assert end.outcome is Outcome.SUCCEEDED
    assert service.asked == ["transforms.get", "transforms.publish"]
    assert end.reference.name == "sales/daily"


def test_a_table_is_waited_for_and_its_error_is_kept() -> None:
    service = ModelService(
        transforms__publish=[transform(materialization_status="running")],
        transforms__get=[
            transform(),
            transform(materialization_status="running"),
            transform(materialization_status="failed", materialization_error="no column foo"),
        ],
    )
    (end,) = run(service, Batch("transform", queued=[Target("t", "t", {"materialization": "table"})])).ended
    assert end.outcome is Outcome.FAILED
    assert end.result is not None
    assert end.result["error"] == "no column foo"
    body = service.requests[1].body
    assert body is not None
    assert body.as_json() == {"materialization": "table"}


def test_the_transform_before_its_publication_decides_nothing() -> None:
    before = transform(materialization_status="completed")
    later = "2026-01-02T00:00:00Z"
    service = ModelService(
        transforms__publish=[transform(materialization_status="running", updated_at=later)],
        # The second answer comes from a replica that lags behind.
        transforms__get=[before, before, transform(materialization_status="failed", updated_at=later)],
    )
    (end,) = run(service, Batch("transform", queued=[Target("t", "t", {"materialization": "table"})])).ended
    assert end.outcome is Outcome.FAILED


def test_an_earlier_outcome_is_not_used_longer_after_a_deferral() -> None:
    before = transform(materialization_status="completed")
    service = ModelService(
        transforms__publish=[transform(materialization_status="running")], transforms__get=[before, before]
    )
    batch = begin(service, Batch("transform", queued=[Target("t", "t", {"materialization": "table"})]))
    for _ in range(3):
        batch = Batch.from_dict(json.loads(json.dumps(batch.as_dict())))
        wait = BatchWait(batch, POLICY, service.now)
        wait.settle()
        service.now += 3
    run(service, batch, replace(POLICY, poll_interval=2))
    # The deferrals took 9 s of the 10 s for which a replica can lag behind.
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
def test_failed_records_are_reset_before_the_run_is_asked_for(option: object, asked: list[str]) -> None:
    done = ReverseEtlSyncRun.model_validate(
        {
            "id": "e1",
            "reverse_etl_sync_id": "e",
            "started_at": "2026-01-01T00:00:00Z",
            "finished_at": "2026-01-01T00:00:01Z",
            "status": "COMPLETED",
            "failed_rows": 2,
        }
    )
    service = ModelService(
        reverse_etl_failed_records__retry_all=[None],
        reverse_etl_failed_records__retry=[None],
        reverse_etl_syncs__request_run=[RunRequested(status_url="/reverse_etl_sync_runs?reverse_etl_sync_id=e")],
        reverse_etl_sync_runs__list=[page(), page(done)],
    )
    target = Target("e", "e", {"retry_failed_records": option})
    (end,) = run(service, Batch("reverse_etl", queued=[target])).ended
    assert end.outcome is Outcome.PARTIAL
    listed = "reverse_etl_sync_runs.list"
    assert service.asked == [listed, *asked, "reverse_etl_syncs.request_run", listed]
