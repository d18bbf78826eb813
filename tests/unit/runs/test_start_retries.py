"""Retries that search for the run of an earlier try, refusals that name another run, and order of several starts."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import nullcontext
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
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.batch import Batch, start_queued
from airflow_provider_datapipe.runs.conflicts import ActiveRunConflict, IfRunning, RunSkipped
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.start import StartPolicy, resumable_first
from airflow_provider_datapipe.runs.task_state import AirflowTaskState, StartRecord, task_state_key
from tests.support.many_runs import stamp
from tests.support.responses import LONG_AGO
from tests.unit.runs.model_service import REQUESTED, Answer, ModelService, StoredState, page, run_of, stream_run
from tests.unit.runs.test_start import POLICY, TARGET, begin

MISSING = NotFoundError("no such run", status=404)
REFUSED = ConflictError("running", status=409, active_run_id="r9")
UNNAMED = ConflictError("running", status=409)
DOWN = ServerError("down", status=503)
REJECTED = AuthenticationError("bad key", status=401)
RUNNING = "ELT stream orders is running already (run r9)"
GET, LIST, REQUEST = "elt_stream_runs.get", "elt_stream_runs.list", "elt_streams.request_run"
BEGIN = 1_000_000.0


def started(
    known: tuple[RunTarget, ...] = (TARGET,), unknown: tuple[RunTarget, ...] = (), kind: str = "elt_stream"
) -> StoredState:
    """Return the task state of a killed try that knew some of its runs, and had requested others."""
    state = StoredState()
    for target in known + unknown:
        reference = None if target in unknown else RunRef.to(kind, target, run_id=f"{target.resource_id}1")
        record = StartRecord(KINDS[kind].baseline(target, page(), BEGIN), BEGIN, reference)
        AirflowTaskState(state, 0).set(task_state_key(kind, target), record.as_dict())
    return state


def stored(state: StoredState) -> StartRecord:
    return StartRecord.from_dict(AirflowTaskState(state, 0).get(task_state_key("elt_stream", TARGET)))


def streams(get: list[Answer], listed: list[Answer], *request: Answer, **more: list[Answer]) -> ModelService:
    return ModelService(
        elt_stream_runs__get=get,
        elt_stream_runs__list=listed,
        elt_streams__request_run=list(request) or [REQUESTED],
        **more,
    )


def test_a_run_missing_from_one_replica_is_found_in_the_list() -> None:
    service = streams([MISSING], [page(stream_run("RUNNING", "s1"))])
    seen = begin(service, started())
    assert (seen.reference.run_id, seen.outcome) == ("s1", Outcome.RUNNING)
    assert service.asked == [GET, LIST]
    assert service.now == BEGIN


def test_run_that_appears_within_the_grace_period_is_used() -> None:
    service = streams([MISSING] * 12 + [stream_run("RUNNING", "s1")], [page()])
    assert begin(service, started()).reference.run_id == "s1"
    assert service.now == BEGIN + 60
    assert REQUEST not in service.asked


def test_run_missing_for_the_grace_period_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    service = streams([MISSING], [page()])
    state = started()
    assert begin(service, state).outcome is Outcome.SCHEDULED
    assert service.asked == [*[GET, LIST] * 13, LIST, LIST, REQUEST]
    assert service.now == BEGIN + 60
    (message,) = caplog.messages
    assert message.startswith("The service does not know the run of orders that an earlier try of this task started: ")
    assert "no such run" in message
    assert stored(state).intended_at == BEGIN + 60


def test_newer_run_replaces_a_missing_run() -> None:
    service = streams([MISSING], [page()] * 13 + [page(stream_run("RUNNING", "r2", started_at="1970-01-12T13:46:45Z"))])
    assert begin(service, started()).reference.run_id == "r2"
    assert REQUEST not in service.asked


def test_missing_resource_fails_the_retry_and_keeps_the_state() -> None:
    service, state = streams([MISSING], [MISSING]), started()
    with pytest.raises(NotFoundError):
        begin(service, state)
    assert service.now == BEGIN + 60
    assert state.kept == started().kept
    assert REQUEST not in service.asked


@pytest.mark.parametrize(("get", "listed"), [(DOWN, page()), (MISSING, DOWN)], ids=["run", "list"])
def test_a_service_error_during_the_search_is_raised(get: DatapipeError, listed: Answer) -> None:
    service, state = streams([get], [listed]), started()
    with pytest.raises(ServerError):
        begin(service, state)
    assert REQUEST not in service.asked
    assert state.kept == started().kept


@pytest.mark.parametrize(
    ("status", "most", "is_adopted"),
    [("COMPLETED", 2, False), ("COMPLETED", 3, True), ("COMPLETED", 4, True), ("FAILED", 4, False)],
)
def test_failed_rows_decide_whether_an_ended_run_is_adopted(status: str, most: int, *, is_adopted: bool) -> None:
    run = run_of("reverse_etl", "s1", status, finished_at="2026-01-01T00:01:00Z", failed_rows=3)
    service = ModelService(
        reverse_etl_sync_runs__get=[run],
        reverse_etl_sync_runs__list=[page()],
        reverse_etl_syncs__request_run=[REQUESTED],
    )
    policy = StartPolicy(max_failed_rows=most)
    seen = begin(service, started(kind="reverse_etl"), policy, kind="reverse_etl")
    assert (seen.outcome is Outcome.PARTIAL) == is_adopted
    assert service.asked.count("reverse_etl_syncs.request_run") == (not is_adopted)


@pytest.mark.parametrize(
    ("if_running", "raised", "says"),
    [
        (IfRunning.ATTACH, None, ""),
        (IfRunning.WAIT, ActiveRunConflict, ""),
        (IfRunning.SKIP, RunSkipped, f"{RUNNING}; skipped."),
        (
            IfRunning.FAIL,
            RunConflictError,
            f"{RUNNING}, and if_running='fail'.\nWait for that run to end, or choose another if_running.",
        ),
    ],
)
def test_if_running_applies_to_a_named_run(if_running: IfRunning, raised: type[Exception] | None, says: str) -> None:
    service, state = streams([stream_run("RUNNING", "r9")], [page()], REFUSED), StoredState()
    policy = StartPolicy(if_running=if_running)
    if raised is None:
        seen = begin(service, state, policy)
    else:
        with pytest.raises(raised) as caught:
            begin(service, state, policy)
        assert str(caught.value) == says
        assert state.kept == {}
        if not isinstance(caught.value, ActiveRunConflict):
            return
        seen = caught.value.run_state
    assert (seen.reference.run_id, seen.reference.attached, seen.outcome) == ("r9", True, Outcome.RUNNING)
    assert service.asked == [LIST, REQUEST, GET]


def test_a_named_run_that_ended_after_the_request_is_the_result() -> None:
    ended = stream_run("COMPLETED", "r9", started_at="1970-01-12T13:40:00Z", finished_at="1970-01-12T13:46:40Z")
    assert begin(streams([ended], [page()], REFUSED)).reference.run_id == "r9"


@pytest.fixture
def longest_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "random", lambda: 1.0)


@pytest.mark.usefixtures("longest_pauses")
@pytest.mark.parametrize(
    "run",
    [
        MISSING,
        DOWN,
        stream_run("COMPLETED", "r9", started_at="1970-01-12T10:00:00Z", finished_at="1970-01-12T11:00:00Z"),
    ],
    ids=["missing", "unreadable", "ended before"],
)
def test_repeated_conflicts_with_an_inactive_run_raise(run: Answer) -> None:
    service, state = streams([run], [page()], REFUSED), StoredState()
    with pytest.raises(RunConflictError) as caught:
        begin(service, state, replace(POLICY, lost_response_timeout=125))
    assert str(caught.value).splitlines()[0] == (
        "ELT stream orders: the service refused 7 requests for a run, because of run r9, which is not active or "
        "cannot be read."
    )
    assert "running" in str(caught.value).splitlines()[1]
    # Delays of 5, 10, 20, and then 30 s.
    assert service.now == BEGIN + 5 + 10 + 20 + 3 * 30
    assert service.asked.count(REQUEST) == 7
    assert state.kept == {}


@pytest.mark.usefixtures("longest_pauses")
@pytest.mark.parametrize("earlier", [[], ["s1"]])
def test_repeated_conflicts_without_a_run_raise(earlier: list[str]) -> None:
    """An earlier ended run does not count as the cause of the refusal."""
    runs = page(*(run_of("orchestration", run_id, "COMPLETED", finished_at=LONG_AGO) for run_id in earlier))
    service = ModelService(orchestration_runs__list=[runs], orchestrations__request_run=[UNNAMED])
    with pytest.raises(RunConflictError) as caught:
        begin(service, kind="orchestration")
    assert str(caught.value).splitlines()[0] == (
        "orchestration orders: the service refused 7 requests for a run, but shows no run that is active."
    )
    # The conflicting run may have just ended, so the second request follows at once.
    assert service.now == BEGIN + 10 + 20 + 3 * 30


@pytest.mark.usefixtures("longest_pauses")
@pytest.mark.parametrize(("refusal", "pauses"), [(REFUSED, 125), (UNNAMED, 0)])
def test_conflict_after_a_lost_response_attaches_to_the_own_run(refusal: ConflictError, pauses: float) -> None:
    service = streams([MISSING], [page()], TransportError("closed", sent=True), refusal)
    # The policy applies only to runs that this task did not request.
    seen = begin(service, policy=replace(POLICY, if_running=IfRunning.FAIL))
    assert (seen.reference.attached, seen.outcome, seen.reference.run_id) == (True, Outcome.SCHEDULED, None)
    # The search for the run of the lost request, and further requests.
    assert service.now == BEGIN + 120 + pauses


def test_rejected_api_key_ends_the_start_at_once() -> None:
    service = streams([REJECTED], [page()], REFUSED)
    with pytest.raises(AuthenticationError):
        begin(service)
    assert service.asked == [LIST, REQUEST, GET]


@pytest.mark.parametrize("cancelled", [None, DOWN])
def test_a_rejected_start_undoes_the_full_refresh(
    cancelled: DatapipeError | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    service = streams(
        [MISSING],
        [page()],
        REJECTED,
        elt_streams__request_full_refresh=[None],
        elt_streams__cancel_full_refresh=[cancelled],
    )
    with pytest.raises(AuthenticationError):
        begin(service, target=RunTarget("s", "orders", options={"full_refresh": True}))
    assert service.asked == [LIST, "elt_streams.request_full_refresh", REQUEST, "elt_streams.cancel_full_refresh"]
    assert service.requests[-1].path == "/elt_streams/s/cancel_full_refresh"
    if cancelled is None:
        assert caplog.messages == []
    else:
        (message,) = caplog.messages
        assert message.startswith("ELT stream orders: no run was started, but its preparation (full_refresh) remains: ")
        assert "down" in message


@pytest.mark.parametrize(("ago", "starts"), [(7100, False), (7300, True)])
def test_a_full_refresh_does_not_wait_for_an_abandoned_load(ago: float, *, starts: bool) -> None:
    last = stream_run("CHUNK_COMPLETED", started_at=stamp(BEGIN - 9_000), finished_at=stamp(BEGIN - ago))
    service = streams([last], [page(last)], elt_streams__request_full_refresh=[None])
    with nullcontext() if starts else pytest.raises(ActiveRunConflict):
        begin(service, target=RunTarget("s", "orders", options={"full_refresh": True}))
    assert service.asked == [LIST, *(["elt_streams.request_full_refresh", REQUEST] if starts else [])]


@pytest.mark.parametrize(("ahead", "used"), [(-300.0, -300.0), (300.0, 300.0), (86_400.0, 0.0)])
def test_task_state_uses_the_clock_of_the_service(ahead: float, used: float) -> None:
    service, state = streams([MISSING], [page().with_time(BEGIN + ahead)]), StoredState()
    begin(service, state)
    record = stored(state)
    assert (record.intended_at, record.baseline.since) == (BEGIN + used, BEGIN + used)


def test_refused_request_keeps_the_earlier_task_state() -> None:
    failed = stream_run("FAILED", "s1", finished_at="2026-01-01T00:01:00Z")
    service, state = streams([failed], [page()], REJECTED), started()
    with pytest.raises(AuthenticationError):
        begin(service, state)
    assert service.asked == [GET, LIST, REQUEST]
    assert state.kept == started().kept


def test_an_absolute_status_url_is_read_at_once() -> None:
    accepted = RunRequested(status_url="https://api.example.com/elt_stream_runs?starting_after=r0&limit=1")
    service = streams([MISSING], [page(), page(stream_run("RUNNING", "r5"))], accepted)
    seen = begin(service)
    assert (seen.reference.run_id, seen.outcome) == ("r5", Outcome.RUNNING)
    assert service.asked[:2] == [LIST, REQUEST]
    assert service.requests[2].origin == "https://api.example.com"


@pytest.mark.parametrize("error", [MISSING, TransportError("closed", sent=True)])
def test_unreadable_status_url_is_read_later(error: DatapipeError) -> None:
    accepted = RunRequested(status_url="https://api.example.com/elt_stream_runs?starting_after=r0&limit=1")
    seen = begin(streams([MISSING], [page(), error], accepted))
    assert (seen.reference.status_url, seen.outcome) == (accepted.status_url, Outcome.SCHEDULED)


def test_second_conflict_applies_if_running_to_an_unseen_run() -> None:
    service = streams([MISSING], [page()], UNNAMED)
    with pytest.raises(RunConflictError, match="if_running='fail'"):
        begin(service, policy=replace(POLICY, if_running=IfRunning.FAIL))
    assert service.asked == [LIST, REQUEST, LIST, REQUEST, LIST]


A, B, C = (RunTarget(name, name) for name in "abc")


def of_targets(runs: dict[str, Any]) -> Callable[[Request[Any]], Any]:
    """Return a function that answers with the status of the requested run, or raises an error."""

    def answer(request: Request[Any]) -> Any:
        run_id = request.path.rpartition("/")[2]
        status = runs[run_id[0]]
        if isinstance(status, DatapipeError):
            raise status
        return stream_run(status, run_id)

    return answer


@pytest.mark.parametrize(
    ("known", "unknown", "runs", "order"),
    [
        ((), (), {}, [A, B, C]),
        ((), (C,), {}, [C, A, B]),
        ((A, B), (), {"a": "FAILED", "b": MISSING}, [B, A, C]),
        ((A, B), (), {"a": "FAILED", "b": "RUNNING"}, [B, A, C]),
        ((A, B), (), {"a": "COMPLETED", "b": "RUNNING"}, [B, A, C]),
        ((B,), (C,), {"b": "RUNNING"}, [B, C, A]),
    ],
    ids=["nothing started", "unknown result", "denied by a replica", "failed", "completed", "never requested"],
)
def test_runs_that_may_be_active_are_continued_first(
    known: tuple[RunTarget, ...], unknown: tuple[RunTarget, ...], runs: dict[str, Any], order: list[RunTarget]
) -> None:
    service, task_state = streams([of_targets(runs)], [page()]), AirflowTaskState(started(known, unknown), 0)
    assert service.run(resumable_first(KINDS["elt_stream"], [A, B, C], task_state)) == order
    assert len(service.asked) == len(known)


def test_restart_of_a_failed_run_respects_the_run_limit() -> None:
    service = streams([of_targets({"a": "FAILED", "b": "RUNNING", "c": "RUNNING"})], [page()])
    task_state = AirflowTaskState(started((A, B, C)), 0)
    queued = service.run(resumable_first(KINDS["elt_stream"], [A, B, C], task_state))
    batch = Batch("elt_stream", queued=queued, at_a_time=2)
    service.run(start_queued(batch, task_state, StartPolicy(), alone=False))
    assert [reference.run_id for reference in batch.waiting] == ["b1", "c1"]
    assert batch.queued == [A]
    assert REQUEST not in service.asked
