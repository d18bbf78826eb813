"""Outcomes, results and errors of ended runs and of their syncs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.errors import ServerError
from airflow_provider_datapipe.api.models.elt_syncs import EltSyncStatus
from airflow_provider_datapipe.api.models.reverse_etl_syncs import FailedRecords
from airflow_provider_datapipe.runs.elt_sync import error_of_sync, result_of_sync, targets_of_sync
from airflow_provider_datapipe.runs.errors import (
    LostContactError,
    RunCanceledError,
    RunConflictError,
    RunError,
    RunFailedError,
    RunNotScheduledError,
    RunPartialError,
    RunTimeoutError,
    RunUnknownError,
    RunVanishedError,
)
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.names import UnknownNameError
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of, outcome_of_materialization
from airflow_provider_datapipe.runs.results import build_run_result, exception_for, explain
from airflow_provider_datapipe.runs.task_state import NoTaskState
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason
from tests.unit.runs.model_service import ModelService, page, result_of, stream, stream_run, sync

RUN_OVER, TIMEOUT = WaitOutcomeReason.RUN_OVER, WaitOutcomeReason.TIMEOUT
LOST_CONTACT, NOT_STARTED = WaitOutcomeReason.LOST_CONTACT, WaitOutcomeReason.NOT_STARTED


def ended(outcome: Outcome, kind: str = "elt_stream", detail: str | None = None, **known: Any) -> WaitOutcome:
    reference = RunRef(kind, "s", "orders", run_id="r1")
    result = result_of(reference, outcome, **known)
    return WaitOutcome(RUN_OVER, reference, outcome, result, detail)


def given_up(reason: WaitOutcomeReason) -> WaitOutcome:
    return WaitOutcome(
        reason, RunRef("elt_stream", "s", "orders", run_id="r1"), Outcome.RUNNING, detail="for 9 s: no answer."
    )


def not_started(cause: WaitOutcomeReason) -> WaitOutcome:
    return replace(given_up(NOT_STARTED), cause=cause)


@pytest.mark.parametrize(
    ("end", "expected", "says"),
    [
        (ended(Outcome.FAILED, error="no file."), RunFailedError, "the run failed: no file.\nRun: r1"),
        (ended(Outcome.FAILED, detail="no file"), RunFailedError, "the run failed: no file.\nRun: r1"),
        (ended(Outcome.FAILED), RunFailedError, "reports no reason"),
        (ended(Outcome.CANCELED), RunCanceledError, "canceled in the service"),
        (ended(Outcome.UNKNOWN, status="ODD"), RunUnknownError, "'ODD'"),
        (ended(Outcome.PARTIAL, rows_failed=3, rows_total=1000), RunPartialError, "3 of 1,000 rows failed, 2 are"),
        (ended(Outcome.PARTIAL), RunPartialError, "an unknown number"),
        (given_up(TIMEOUT), RunTimeoutError, "did not end in time; it is running.\nRun: r1\nThe run may still be"),
        (given_up(WaitOutcomeReason.NOT_SCHEDULED), RunNotScheduledError, "none was scheduled for 9 s"),
        (given_up(LOST_CONTACT), LostContactError, "contact with the service was lost for 9 s: no answer."),
        (given_up(WaitOutcomeReason.VANISHED), RunVanishedError, "no longer knows the run.\nRun: r1\n"),
        (given_up(NOT_STARTED), RunError, "did not start a run"),
        (not_started(TIMEOUT), RunTimeoutError, "did not start a run"),
        (not_started(LOST_CONTACT), LostContactError, "did not start a run"),
    ],
)
def test_each_failed_wait_has_an_error_with_resource_and_run(
    end: WaitOutcome, expected: type[RunError], says: str
) -> None:
    error = exception_for(end, max_failed_rows=2)
    assert type(error) is expected
    assert str(error).startswith("ELT stream orders (s): ")
    assert says in str(error)
    assert ".." not in str(error)


@pytest.mark.parametrize("end", [ended(Outcome.SUCCEEDED), ended(Outcome.PARTIAL, rows_failed=2)])
def test_success_and_allowed_failed_rows_raise_no_error(end: WaitOutcome) -> None:
    assert exception_for(end, max_failed_rows=2) is None


def test_error_of_a_failed_stream_comes_from_the_sync_status() -> None:
    june, january = "2026-06-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"
    latest = {"bytes_synced": 0, "error_message": "no file", "started_at": june}
    other = {"name": "customers", "latest_sync": latest | {"error_message": "another"}}
    status = {"elt_sync_id": "y", "source_streams": [other, {"name": "orders", "latest_sync": latest}]}
    service = ModelService(elt_streams__get=[stream()], elt_syncs__status=[EltSyncStatus.model_validate(status)])
    # The error of another run is not used.
    for began, error in ((june, "no file"), (None, "no file"), (january, None)):
        end = service.run(explain(ended(Outcome.FAILED, started_at=began)))
        assert build_run_result(end)["error"] == error


def test_error_text_of_the_service_becomes_one_short_line() -> None:
    end = ended(Outcome.FAILED, error="line one\nline two\x85\u2028" + "x" * 100_000)
    message = str(exception_for(end))
    assert len(message.splitlines()) == 2
    assert len(message) < 700
    assert len(build_run_result(end)["error"] or "") <= 500


def test_error_of_failed_rows_contains_sample_records() -> None:
    records = [{"sync_id": "s", "record_id": str(number), "error": "too few"} for number in range(2)]
    service = ModelService(reverse_etl_failed_records__list=[FailedRecords.model_validate({"data": records})])
    end = service.run(explain(ended(Outcome.PARTIAL, "reverse_etl", rows_failed=2)))
    assert build_run_result(end)["error"] == "for example record 0: too few; record 1: too few"


def failed_records(count: int, **known: Any) -> ModelService:
    record = {"sync_id": "s", "record_id": "r" * 300, "error": "too\nfew " + "x" * 10_000} | known
    return ModelService(reverse_etl_failed_records__list=[FailedRecords.model_validate({"data": [record] * count})])


@pytest.mark.parametrize("error", [None, "the destination is full"])
def test_failed_records_are_kept_within_one_request(error: str | None) -> None:
    service = failed_records(20)
    run = ended(Outcome.FAILED, "reverse_etl", rows_failed=20, error=error)
    end = service.run(explain(run, most_records=10))
    assert len(service.requests) == 1
    assert ("limit", "10") in service.requests[0].query
    assert len(end.records) == 10
    assert all(len(f"{one['record_id']}: {one['error']}") <= 2048 for one in end.records)
    assert all("\n" not in one["error"] for one in end.records)
    assert (build_run_result(end)["error"] or "").startswith(error or "for example record rrr")
    # A second call sends no further request.
    assert service.run(explain(end, most_records=10)) == end
    assert len(service.requests) == 1


def test_no_records_are_requested_if_the_limit_is_0() -> None:
    service = failed_records(2)
    end = ended(Outcome.PARTIAL, "reverse_etl", rows_failed=2)
    assert service.run(explain(end, most_records=0)) == end
    assert service.requests == []


@pytest.mark.parametrize(
    "end",
    [
        ended(Outcome.SUCCEEDED),
        ended(Outcome.FAILED, error="known"),
        given_up(LOST_CONTACT),
        # These kinds have no further details.
        ended(Outcome.FAILED, "orchestration"),
        ended(Outcome.FAILED, "transform"),
    ],
)
def test_explain_sends_no_request_without_need(end: WaitOutcome) -> None:
    assert ModelService().run(explain(end)) == end


def test_explain_ignores_errors_of_its_requests() -> None:
    service = ModelService(elt_streams__get=[ServerError("", status=500)])
    assert service.run(explain(ended(Outcome.FAILED))) == ended(Outcome.FAILED)


@pytest.mark.parametrize(
    ("answer", "reason", "outcome"),
    [
        (stream_run("COMPLETED", finished_at="2026-01-01T00:00:09Z"), RUN_OVER, Outcome.SUCCEEDED),
        (stream_run("RUNNING"), TIMEOUT, Outcome.RUNNING),
        (ServerError("", status=503), TIMEOUT, given_up(TIMEOUT).outcome),
    ],
)
def test_run_that_was_not_polled_before_the_deadline_is_polled(
    answer: object, reason: WaitOutcomeReason, outcome: Outcome
) -> None:
    service = ModelService(elt_stream_runs__get=[answer])
    end = service.run(explain(given_up(TIMEOUT)))
    assert (end.reason, end.outcome) == (reason, outcome)
    assert (end.result is None) is isinstance(answer, ServerError)


def chosen(names: list[str] | None, *, enabled: bool = True, there: str = "ab") -> list[str]:
    service = ModelService(
        elt_syncs__get=[sync(enabled=enabled)],
        elt_streams__list=[page(*(stream(f"id-{name}", name) for name in there))],
    )
    flow = targets_of_sync("y", names, {}, NoTaskState())
    return [target.name for target in service.run(flow)]


@pytest.mark.parametrize(
    ("names", "expected"), [(None, ["a", "b"]), (["b"], ["b"]), (["id-a", "a"], ["a"]), (["b", "id-a"], ["b", "a"])]
)
def test_streams_are_chosen_by_name_or_id(names: list[str] | None, expected: list[str]) -> None:
    assert chosen(names) == expected


@pytest.mark.parametrize(
    ("names", "options", "raised", "says"),
    [
        (["a", "zz"], {}, UnknownNameError, r"no stream zz\. It has a, b\."),
        ([], {}, RunError, "No stream"),
        (None, {"there": ""}, RunError, "has no streams"),
        (None, {"enabled": False}, RunConflictError, "is disabled"),
    ],
)
def test_a_choice_without_streams_is_no_success(
    names: list[str] | None, options: dict[str, Any], raised: type[Exception], says: str
) -> None:
    with pytest.raises(raised, match=says):
        chosen(names, **options)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Outcome.SUCCEEDED, Outcome.SUCCEEDED], "succeeded"),
        ([Outcome.SUCCEEDED, Outcome.FAILED], "partial"),
        ([Outcome.FAILED, Outcome.UNKNOWN], "failed"),
    ],
)
def test_result_of_a_sync_sums_up_its_streams(outcomes: list[Outcome], expected: str) -> None:
    ends = streams_ended(*((RUN_OVER, outcome) for outcome in outcomes))
    result = result_of_sync("y", ends)
    assert result["outcome"] == expected
    assert set(result["streams"]) == {"stream-0", "stream-1"}
    assert (error_of_sync("y", ends) is None) == (expected == "succeeded")


def streams_ended(*ends: tuple[WaitOutcomeReason, Outcome]) -> list[WaitOutcome]:
    return [
        WaitOutcome(reason, RunRef("elt_stream", f"s{number}", f"stream-{number}"), outcome)
        for number, (reason, outcome) in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((RUN_OVER,), RunFailedError),
        ((LOST_CONTACT, RUN_OVER), RunFailedError),
        ((LOST_CONTACT, WaitOutcomeReason.NOT_SCHEDULED), LostContactError),
        ((NOT_STARTED, TIMEOUT), RunTimeoutError),
        ((WaitOutcomeReason.NOT_SCHEDULED,), RunNotScheduledError),
        ((WaitOutcomeReason.VANISHED,), RunVanishedError),
        ((NOT_STARTED,), RunError),
    ],
)
def test_a_sync_failed_only_if_the_run_of_a_stream_did(
    reasons: tuple[WaitOutcomeReason, ...], expected: type[RunError]
) -> None:
    error = error_of_sync("y", streams_ended(*((reason, Outcome.FAILED) for reason in reasons)))
    assert type(error) is expected
    assert f"{len(reasons)} of {len(reasons)} streams failed" in str(error)


def test_the_newest_run_is_polled_if_the_id_is_unknown() -> None:
    kind, reference = KINDS["elt_stream"], RunRef("elt_stream", "s", "s")
    assert kind.poll_request(reference).endpoint.name == "elt_stream_runs.list"
    assert kind.read(reference, page(stream_run("COMPLETED"))).reference.run_id == "r1"


# Outcomes.

KNOWN = {"NOT_STARTED", "SCHEDULED", "RUNNING", "COMPLETED", "CHUNK_COMPLETED", "FAILED", "CANCELED"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("NOT_STARTED", Outcome.SCHEDULED),
        ("SCHEDULED", Outcome.SCHEDULED),
        ("RUNNING", Outcome.RUNNING),
        ("COMPLETED", Outcome.SUCCEEDED),
        ("CHUNK_COMPLETED", Outcome.PARTIAL),
        ("FAILED", Outcome.FAILED),
        ("CANCELED", Outcome.CANCELED),
    ],
)
def test_outcome_of_each_known_status(status: str, expected: Outcome) -> None:
    assert outcome_of(status, finished=False) is expected


@given(st.none() | st.text().filter(lambda status: status not in KNOWN), st.none() | st.integers(0))
def test_an_unknown_status_is_never_a_success(status: str | None, failed_rows: int | None) -> None:
    assert outcome_of(status, finished=False, failed_rows=failed_rows) is Outcome.RUNNING
    assert outcome_of(status, finished=True, failed_rows=failed_rows) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("status", "failed_rows", "expected"),
    [("COMPLETED", 1, Outcome.PARTIAL), ("COMPLETED", 0, Outcome.SUCCEEDED), ("FAILED", 1, Outcome.FAILED)],
)
def test_failed_rows_make_a_completed_run_partial(status: str, failed_rows: int, expected: Outcome) -> None:
    assert outcome_of(status, finished=True, failed_rows=failed_rows) is expected


@pytest.mark.parametrize(
    ("status", "is_table", "expected"),
    [
        (None, False, Outcome.SUCCEEDED),
        (None, True, Outcome.RUNNING),
        ("running", True, Outcome.RUNNING),
        ("completed", True, Outcome.SUCCEEDED),
        ("failed", True, Outcome.FAILED),
        ("failed", False, Outcome.FAILED),
        ("queued", True, Outcome.RUNNING),
    ],
)
def test_outcome_of_each_materialization_status(status: str | None, *, is_table: bool, expected: Outcome) -> None:
    assert outcome_of_materialization(status, is_table=is_table) is expected


def test_outcomes_that_are_final() -> None:
    assert {outcome for outcome in Outcome if not outcome.is_over} == {Outcome.SCHEDULED, Outcome.RUNNING}
