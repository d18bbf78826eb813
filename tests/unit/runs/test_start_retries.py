"""Tests of how a retry finds the run of an earlier try, and of refusals that name another run."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConflictError,
    DatapipeError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.common import RunRequested
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncRun
from airflow_provider_datapipe.runs.conflicts import Blocked, IfRunning, RunSkipped
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.records import Record, key_of
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target
from airflow_provider_datapipe.runs.start import StartPolicy, start
from airflow_provider_datapipe.runs.steps import drive
from tests.unit.runs.model_service import REQUESTED, Answer, ModelService, page, stream_run

TARGET = Target("s", "orders")
POLICY = StartPolicy(settle=120, look_interval=5, missing_grace=60)
MISSING = NotFoundError("no such run", status=404)
REFUSED = ConflictError("running", status=409, active_run_id="r9")
GET, LIST, REQUEST = "elt_stream_runs.get", "elt_stream_runs.list", "elt_streams.request_run"
BEGIN = 1_000_000.0


class Stored(dict[str, Any]):
    """Records of a task."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)

    def close(self, key: str) -> None:
        raise AssertionError(key)


def begin(
    service: ModelService,
    records: Stored | None = None,
    policy: StartPolicy = POLICY,
    *,
    kind: str = "elt_stream",
    target: Target = TARGET,
) -> Observation:
    stored = Stored() if records is None else records
    return drive(start(KINDS[kind], target, stored, policy, service.clock), service.send, service.sleep)


def started(run_id: str | None = "r1", kind: str = "elt_stream") -> Stored:
    """Return the records of a try that has started a run at the beginning."""
    baseline = KINDS[kind].baseline(TARGET, page(), BEGIN)
    reference = Reference(kind, "s", "orders", run_id=run_id)
    return Stored({key_of(kind, TARGET): Record(baseline, BEGIN, reference).as_dict()})


def streams(get: list[Answer], listed: list[Answer], request: Answer = REQUESTED, **more: list[Answer]) -> ModelService:
    return ModelService(
        elt_stream_runs__get=get, elt_stream_runs__list=listed, elt_streams__request_run=[request], **more
    )


def test_a_run_missing_from_one_replica_is_found_in_the_list() -> None:
    service = streams([MISSING], [page(stream_run("RUNNING", "r1"))])
    seen = begin(service, started())
    assert (seen.reference.run_id, seen.outcome) == ("r1", Outcome.RUNNING)
    assert service.asked == [GET, LIST]
    assert service.now == BEGIN


def test_a_run_that_appears_within_the_grace_is_continued() -> None:
    service = streams([MISSING] * 12 + [stream_run("RUNNING", "r1")], [page()])
    assert begin(service, started()).reference.run_id == "r1"
    assert service.now == BEGIN + 60
    assert REQUEST not in service.asked


def test_a_run_missing_for_the_grace_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    service = streams([MISSING], [page()])
    records = started()
    assert begin(service, records).outcome is Outcome.SCHEDULED
    assert service.asked == [*[GET, LIST] * 13, LIST, LIST, REQUEST]
    assert service.now == BEGIN + 60
    (message,) = caplog.messages
    assert message.startswith("The service does not know the run of orders that an earlier try of this task started: ")
    assert "no such run" in message
    assert Record.from_dict(records[key_of("elt_stream", TARGET)]).intended_at == BEGIN + 60


def test_another_run_since_then_replaces_a_missing_one() -> None:
    service = streams([MISSING], [page()] * 13 + [page(stream_run("RUNNING", "r2", started_at="1970-01-12T13:46:45Z"))])
    assert begin(service, started()).reference.run_id == "r2"
    assert REQUEST not in service.asked


def test_a_missing_resource_fails_the_retry_and_keeps_the_record() -> None:
    service, records = streams([MISSING], [MISSING]), started()
    before = dict(records)
    with pytest.raises(NotFoundError):
        begin(service, records)
    assert service.now == BEGIN + 60
    assert records == before
    assert REQUEST not in service.asked


@pytest.mark.parametrize(
    ("get", "listed"),
    [(ServerError("down", status=503), page()), (MISSING, ServerError("down", status=503))],
    ids=["run", "list"],
)
def test_a_service_error_during_the_search_is_raised(get: DatapipeError, listed: Answer) -> None:
    service, records = streams([get], [listed]), started()
    with pytest.raises(ServerError):
        begin(service, records)
    assert REQUEST not in service.asked
    assert records == started()


@pytest.mark.parametrize(
    ("status", "most", "is_adopted"),
    [("COMPLETED", 2, False), ("COMPLETED", 3, True), ("COMPLETED", 4, True), ("FAILED", 4, False)],
)
def test_failed_rows_decide_whether_an_ended_run_is_adopted(status: str, most: int, *, is_adopted: bool) -> None:
    fields = {"reverse_etl_sync_id": "s", "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"}
    run = ReverseEtlSyncRun.model_validate(fields | {"id": "r1", "status": status, "failed_rows": 3})
    service = ModelService(
        reverse_etl_sync_runs__get=[run],
        reverse_etl_sync_runs__list=[page()],
        reverse_etl_syncs__request_run=[REQUESTED],
    )
    policy = StartPolicy(max_failed_rows=most)
    seen = begin(service, started(kind="reverse_etl"), policy, kind="reverse_etl")
    assert (seen.outcome is Outcome.PARTIAL) == is_adopted
    assert service.asked.count("reverse_etl_syncs.request_run") == (not is_adopted)


def test_a_named_active_run_is_attached_to() -> None:
    service = streams([stream_run("RUNNING", "r9")], [page()], REFUSED)
    seen = begin(service)
    assert (seen.reference.run_id, seen.reference.attached, seen.outcome) == ("r9", True, Outcome.RUNNING)
    assert service.asked == [LIST, REQUEST, GET]


@pytest.mark.parametrize("policy", [IfRunning.SKIP, IfRunning.FAIL, IfRunning.WAIT])
def test_if_running_applies_to_a_named_run(policy: IfRunning) -> None:
    service, records = streams([stream_run("RUNNING", "r9")], [page()], REFUSED), Stored()
    with pytest.raises((RunSkipped, RunConflictError, Blocked)) as caught:
        begin(service, records, StartPolicy(if_running=policy))
    if isinstance(caught.value, Blocked):
        assert caught.value.observation.reference.run_id == "r9"
    else:
        end = {
            IfRunning.SKIP: "; skipped.",
            IfRunning.FAIL: (", and if_running='fail'.\nWait for that run to end, or choose another if_running."),
        }[policy]
        assert str(caught.value) == f"ELT stream orders is running already (run r9){end}"
    assert records == {}


def test_a_named_run_that_ended_after_the_request_is_the_result() -> None:
    ended = stream_run("COMPLETED", "r9", started_at="1970-01-12T13:40:00Z", finished_at="1970-01-12T13:46:40Z")
    assert begin(streams([ended], [page()], REFUSED)).reference.run_id == "r9"


@pytest.mark.parametrize(
    "run",
    [
        MISSING,
        ServerError("down", status=503),
        stream_run("COMPLETED", "r9", started_at="1970-01-12T10:00:00Z", finished_at="1970-01-12T11:00:00Z"),
    ],
    ids=["missing", "unreadable", "ended before"],
)
def test_refusals_because_of_a_run_that_is_not_active_end(run: Answer) -> None:
    service, records = streams([run], [page()], REFUSED), Stored()
    with pytest.raises(RunConflictError) as caught:
        begin(service, records, replace(POLICY, settle=125))
    assert str(caught.value).splitlines()[0] == (
        "ELT stream orders: the service refused 7 requests for a run, because of run r9, which is not active or can't"
        " be read."
    )
    assert "running" in str(caught.value).splitlines()[1]
    # Delays of 5, 10, 20, and then 30 s.
    assert service.now == BEGIN + 5 + 10 + 20 + 3 * 30
    assert service.asked.count(REQUEST) == 7
    assert records == {}


def test_refusals_without_a_run_end() -> None:
    service = ModelService(
        orchestration_runs__list=[page()], orchestrations__request_run=[ConflictError("running", status=409)]
    )
    with pytest.raises(RunConflictError) as caught:
        begin(service, kind="orchestration")
    assert str(caught.value).splitlines()[0] == (
        "orchestration orders: the service refused 7 requests for a run, but shows no run that is active."
    )
    # The run in the way may have just ended: the second request follows at once.
    assert service.now == BEGIN + 10 + 20 + 3 * 30


def test_a_refusal_after_a_lost_response_may_mean_the_own_run() -> None:
    lost = TransportError("closed", sent=True)
    service = ModelService(
        elt_stream_runs__get=[MISSING], elt_stream_runs__list=[page()], elt_streams__request_run=[lost, REFUSED]
    )
    # The policy applies to runs of others only.
    seen = begin(service, policy=replace(POLICY, if_running=IfRunning.FAIL))
    assert (seen.reference.attached, seen.outcome, seen.reference.run_id) == (True, Outcome.SCHEDULED, None)
    assert service.now == BEGIN + 120 + 125


def test_a_rejected_key_ends_the_start_at_once() -> None:
    service = streams([AuthenticationError("bad key", status=401)], [page()], REFUSED)
    with pytest.raises(AuthenticationError):
        begin(service)
    assert service.asked == [LIST, REQUEST, GET]


@pytest.mark.parametrize("cancelled", [None, ServerError("down", status=503)])
def test_a_rejected_start_undoes_the_full_refresh(
    cancelled: DatapipeError | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    service = streams(
        [MISSING],
        [page()],
        AuthenticationError("bad key", status=401),
        elt_streams__request_full_refresh=[None],
        elt_streams__cancel_full_refresh=[cancelled],
    )
    with pytest.raises(AuthenticationError):
        begin(service, target=Target("s", "orders", options={"full_refresh": True}))
    assert service.asked == [LIST, "elt_streams.request_full_refresh", REQUEST, "elt_streams.cancel_full_refresh"]
    assert service.requests[-1].path == "/elt_streams/s/cancel_full_refresh"
    if cancelled is None:
        assert caplog.messages == []
    else:
        (message,) = caplog.messages
        assert message.startswith("ELT stream orders: no run was started, but its preparation (full_refresh) remains: ")
        assert "down" in message


@pytest.mark.parametrize(("ahead", "used"), [(-300.0, -300.0), (300.0, 300.0), (86_400.0, 0.0)])
def test_records_have_the_time_of_the_service(ahead: float, used: float) -> None:
    service, records = streams([MISSING], [page().with_time(BEGIN + ahead)]), Stored()
    begin(service, records)
    record = Record.from_dict(records[key_of("elt_stream", TARGET)])
    assert (record.intended_at, record.baseline.since) == (BEGIN + used, BEGIN + used)


def test_a_refused_request_keeps_the_record_of_the_earlier_try() -> None:
    failed = stream_run("FAILED", "r1", finished_at="2026-01-01T00:01:00Z")
    service, records = streams([failed], [page()], AuthenticationError("bad key", status=401)), started()
    with pytest.raises(AuthenticationError):
        begin(service, records)
    assert service.asked == [GET, LIST, REQUEST]
    assert records == started()


def test_an_absolute_status_url_is_read_at_once() -> None:
    accepted = RunRequested(status_url="https://api.example.com/elt_stream_runs?starting_after=r0&limit=1")
    service = streams([MISSING], [page(), page(stream_run("RUNNING", "r5"))], accepted)
    seen = begin(service)
    assert (seen.reference.run_id, seen.outcome) == ("r5", Outcome.RUNNING)
    assert service.asked[:2] == [LIST, REQUEST]
    assert service.requests[2].origin == "https://api.example.com"


@pytest.mark.parametrize("error", [MISSING, TransportError("closed", sent=True)])
def test_a_status_url_without_an_answer_is_read_later(error: DatapipeError) -> None:
    accepted = RunRequested(status_url="https://api.example.com/elt_stream_runs?starting_after=r0&limit=1")
    seen = begin(streams([MISSING], [page(), error], accepted))
    assert (seen.reference.status_url, seen.outcome) == (accepted.status_url, Outcome.SCHEDULED)


def test_a_scheduled_run_after_a_lost_response_is_the_own_run() -> None:
    lost = TransportError("closed", sent=True)
    refused = ConflictError("running", status=409)
    service = ModelService(elt_stream_runs__list=[page()], elt_streams__request_run=[lost, refused])
    seen = begin(service, policy=replace(POLICY, if_running=IfRunning.FAIL))
    assert (seen.reference.attached, seen.outcome) == (True, Outcome.SCHEDULED)
    # The search of the lost request, and no wait after the refusal.
    assert service.now == BEGIN + 120


def test_a_second_refusal_means_a_scheduled_run_of_another() -> None:
    refused = ConflictError("running", status=409)
    service = ModelService(elt_stream_runs__list=[page()], elt_streams__request_run=[refused])
    with pytest.raises(RunConflictError, match="if_running='fail'"):
        begin(service, policy=replace(POLICY, if_running=IfRunning.FAIL))
    assert service.asked == [LIST, REQUEST, LIST, REQUEST, LIST]
