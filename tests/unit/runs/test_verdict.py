from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_datapipe.api.errors import ServerError
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync, EltSyncStatus
from airflow_provider_datapipe.api.models.reverse_etl import FailedRecords
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
from airflow_provider_datapipe.runs.names import UnknownNameError
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Reference, RunResult
from airflow_provider_datapipe.runs.steps import drive
from airflow_provider_datapipe.runs.sync import error_of_sync, result_of_sync, targets_of_sync
from airflow_provider_datapipe.runs.verdict import error_of, explain, result_of
from airflow_provider_datapipe.runs.wait import End, EndReason
from tests.unit.runs.model_service import ModelService, page, stream_run

TIMES = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}


def ended(outcome: Outcome, kind: str = "elt_stream", detail: str | None = None, **known: Any) -> End:
    reference = Reference(kind, "s", "orders", run_id="r1")
    result = cast("RunResult", {**result_of(End(EndReason.RUN_OVER, reference, outcome)), **known})
    return End(EndReason.RUN_OVER, reference, outcome, result, detail)


def given_up(reason: EndReason) -> End:
    return End(
        reason, Reference("elt_stream", "s", "orders", run_id="r1"), Outcome.RUNNING, detail="for 9 s: no answer."
    )


@pytest.mark.parametrize(
    ("end", "expected", "says"),
    [
        (ended(Outcome.FAILED, error="no file."), RunFailedError, "the run failed: no file.\nRun: r1"),
        (ended(Outcome.FAILED, detail="no file"), RunFailedError, "the run failed: no file.\nRun: r1"),
        (ended(Outcome.FAILED), RunFailedError, "gives no reason"),
        (ended(Outcome.CANCELED), RunCanceledError, "canceled in the service"),
        (ended(Outcome.UNKNOWN, status="ODD"), RunUnknownError, "'ODD'"),
        (ended(Outcome.PARTIAL, rows_failed=3, rows_total=1000), RunPartialError, "3 of 1,000 rows failed, 2 are"),
        (ended(Outcome.PARTIAL), RunPartialError, "an unknown number"),
        (
            given_up(EndReason.TIMEOUT),
            RunTimeoutError,
            "did not end in time; it is running.\nRun: r1\nThe run may still be",
        ),
        (given_up(EndReason.NOT_SCHEDULED), RunNotScheduledError, "none was scheduled for 9 s"),
        (given_up(EndReason.LOST_CONTACT), LostContactError, "contact with the service was lost for 9 s: no answer."),
        (given_up(EndReason.VANISHED), RunVanishedError, "no longer knows the run.\nRun: r1\n"),
        (given_up(EndReason.NOT_STARTED), RunFailedError, "did not start a run"),
    ],
)
def test_every_end_has_an_error_that_names_the_run(end: End, expected: type[RunError], says: str) -> None:
    error = error_of(end, max_failed_rows=2)
    assert type(error) is expected
    assert str(error).startswith("ELT stream orders (s): ")
    assert says in str(error)
    assert ".." not in str(error)


@pytest.mark.parametrize("end", [ended(Outcome.SUCCEEDED), ended(Outcome.PARTIAL, rows_failed=2)])
def test_what_is_allowed_is_a_success(end: End) -> None:
    assert error_of(end, max_failed_rows=2) is None


def test_a_failed_stream_is_explained_by_the_status_of_its_sync() -> None:
    stream = {
        "id": "s",
        "elt_sync_id": "y",
        "name": "orders",
        "full_sync_at_midnight": False,
        "full_sync_always": False,
        "protected_from_full_sync": False,
        "excluded_substreams": [],
        "enabled_history_table": False,
    }
    status = {
        "elt_sync_id": "y",
        "source_streams": [
            {"name": "customers", "latest_sync": {"bytes_synced": 0, "error_message": "another"}},
            {"name": "orders", "latest_sync": {"bytes_synced": 0, "error_message": "no file"}},
        ],
    }
    service = ModelService(
        elt_streams__get=[EltStream.model_validate(stream | TIMES)],
        elt_syncs__status=[EltSyncStatus.model_validate(status)],
    )
    end = drive(explain(ended(Outcome.FAILED)), service.send, service.sleep)
    assert result_of(end)["error"] == "no file"


def test_the_reason_of_another_run_is_not_taken() -> None:
    stream = SimpleNamespace(elt_sync_id="y", name="orders")
    latest = {"bytes_synced": 0, "error_message": "of June", "started_at": "2026-06-01T00:00:00.000Z"}
    status = {"elt_sync_id": "y", "source_streams": [{"name": "orders", "latest_sync": latest}]}
    service = ModelService(elt_streams__get=[stream], elt_syncs__status=[EltSyncStatus.model_validate(status)])
    january = ended(Outcome.FAILED, started_at="2026-01-01T00:00:00.000Z")
    assert result_of(drive(explain(january), service.send, service.sleep))["error"] is None
    june = ended(Outcome.FAILED, started_at="2026-06-01T00:00:00.000Z")
    assert result_of(drive(explain(june), service.send, service.sleep))["error"] == "of June"


def test_text_of_the_service_is_one_short_line() -> None:
    end = ended(Outcome.FAILED, error="line one\nline two\x85\u2028" + "x" * 100_000)
    message = str(error_of(end))
    assert len(message.splitlines()) == 2
    assert len(message) < 700
    assert len(result_of(end)["error"] or "") <= 500


def test_failed_rows_are_explained_by_some_of_their_records() -> None:
    records = [{"sync_id": "s", "record_id": str(number), "error": "too few"} for number in range(2)]
    service = ModelService(reverse_etl_failed_records__list=[FailedRecords.model_validate({"data": records})])
    end = drive(explain(ended(Outcome.PARTIAL, "reverse_etl", rows_failed=2)), service.send, service.sleep)
    assert result_of(end)["error"] == "for example record 0: too few; record 1: too few"


def failed_records(count: int, **known: Any) -> ModelService:
    record = {"sync_id": "s", "record_id": "r" * 300, "error": "too\nfew " + "x" * 10_000} | known
    return ModelService(reverse_etl_failed_records__list=[FailedRecords.model_validate({"data": [record] * count})])


@pytest.mark.parametrize("error", [None, "the destination is full"])
def test_failed_records_are_kept_within_one_request(error: str | None) -> None:
    service = failed_records(20)
    run = ended(Outcome.FAILED, "reverse_etl", rows_failed=20, error=error)
    end = drive(explain(run, most_records=10), service.send, service.sleep)
    assert len(service.requests) == 1
    assert ("limit", "10") in service.requests[0].query
    assert len(end.records) == 10
    assert all(len(f"{one['record_id']}: {one['error']}") <= 2048 for one in end.records)
    assert all("\n" not in one["error"] for one in end.records)
    assert (result_of(end)["error"] or "").startswith(error or "for example record rrr")
    # They go through a trigger where a task goes on.
    assert End.from_dict(json.loads(json.dumps(end.as_dict()))) == end
    # What is known is not asked for again.
    assert drive(explain(end, most_records=10), service.send, service.sleep) == end
    assert len(service.requests) == 1


def test_records_that_nobody_is_to_see_are_not_asked_for() -> None:
    service = failed_records(2)
    end = ended(Outcome.PARTIAL, "reverse_etl", rows_failed=2)
    assert drive(explain(end, most_records=0), service.send, service.sleep) == end
    assert service.requests == []


def test_what_an_earlier_version_has_stored_has_no_records() -> None:
    stored = ended(Outcome.FAILED).as_dict()
    del stored["records"]
    assert End.from_dict(stored) == ended(Outcome.FAILED)


def test_an_end_stays_what_it_is_when_nobody_can_explain_it() -> None:
    service = ModelService(elt_streams__get=[ServerError("", status=500)])
    end = ended(Outcome.FAILED)
    assert drive(explain(end), service.send, service.sleep) == end


@pytest.mark.parametrize(
    "end", [ended(Outcome.SUCCEEDED), ended(Outcome.FAILED, error="known"), given_up(EndReason.LOST_CONTACT)]
)
def test_nothing_is_asked_where_nothing_is_to_be_explained(end: End) -> None:
    service = ModelService()
    assert drive(explain(end), service.send, service.sleep) == end


@pytest.mark.parametrize(
    ("answer", "reason", "outcome"),
    [
        (stream_run("COMPLETED", finished_at="2026-01-01T00:00:09Z"), EndReason.RUN_OVER, Outcome.SUCCEEDED),
        (stream_run("RUNNING"), EndReason.TIMEOUT, Outcome.RUNNING),
        (ServerError("", status=503), EndReason.TIMEOUT, given_up(EndReason.TIMEOUT).outcome),
    ],
)
def test_a_run_that_nobody_looked_at_in_time_is_looked_at(answer: object, reason: EndReason, outcome: Outcome) -> None:
    service = ModelService(elt_stream_runs__get=[answer])
    end = drive(explain(given_up(EndReason.TIMEOUT)), service.send, service.sleep)
    assert (end.reason, end.outcome) == (reason, outcome)
    assert (end.result is None) is isinstance(answer, ServerError)


def test_kinds_without_more_to_say_say_nothing() -> None:
    service = ModelService()
    for name in ("orchestration", "transform"):
        end = ended(Outcome.FAILED, name)
        assert result_of(drive(explain(end), service.send, service.sleep))["error"] is None


def sync(*, enabled: bool = True) -> EltSync:
    fields = {
        "id": "y",
        "account_id": "a",
        "source_connection_id": "c",
        "source_integration_id": "files",
        "destination_connection_id": "w",
        "destination_integration_id": "duckdb",
        "enabled": enabled,
        "status": "RUNNING",
    }
    return EltSync.model_validate(fields | TIMES)


def stream(name: str) -> EltStream:
    fields = {
        "id": f"id-{name}",
        "elt_sync_id": "y",
        "name": name,
        "full_sync_at_midnight": False,
        "full_sync_always": False,
        "protected_from_full_sync": False,
        "excluded_substreams": [],
        "enabled_history_table": False,
    }
    return EltStream.model_validate(fields | TIMES)


def chosen(names: list[str] | None, *, enabled: bool = True, there: str = "ab") -> list[str]:
    service = ModelService(
        elt_syncs__get=[sync(enabled=enabled)], elt_streams__list=[page(*(stream(name) for name in there))]
    )
    return [target.name for target in drive(targets_of_sync("y", names, {}), service.send, service.sleep)]


@pytest.mark.parametrize(
    ("names", "expected"), [(None, ["a", "b"]), (["b"], ["b"]), (["id-a", "a"], ["a"]), (["b", "id-a"], ["b", "a"])]
)
def test_streams_are_chosen_by_name_or_id(names: list[str] | None, expected: list[str]) -> None:
    assert chosen(names) == expected


def test_a_stream_that_is_not_there_is_said_with_what_is() -> None:
    with pytest.raises(UnknownNameError, match=r"no stream zz\. It has a, b\."):
        chosen(["a", "zz"])


def test_nothing_chosen_is_no_success() -> None:
    with pytest.raises(RunError, match="No stream"):
        chosen([])


def test_a_sync_without_streams_is_no_success() -> None:
    with pytest.raises(RunError, match="has no streams"):
        chosen(None, there="")


def test_a_disabled_sync_is_said_to_be_so() -> None:
    with pytest.raises(RunConflictError, match="is disabled"):
        chosen(None, enabled=False)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Outcome.SUCCEEDED, Outcome.SUCCEEDED], "succeeded"),
        ([Outcome.SUCCEEDED, Outcome.FAILED], "partial"),
        ([Outcome.FAILED, Outcome.UNKNOWN], "failed"),
    ],
)
def test_a_sync_sums_its_streams_up(outcomes: list[Outcome], expected: str) -> None:
    ends = [
        End(EndReason.RUN_OVER, Reference("elt_stream", f"s{number}", f"stream-{number}"), outcome)
        for number, outcome in enumerate(outcomes)
    ]
    result = result_of_sync("y", ends)
    assert result["outcome"] == expected
    assert set(result["streams"]) == {"stream-0", "stream-1"}
    error = error_of_sync("y", ends)
    assert (error is None) == (expected == "succeeded")


def _unfinished(*reasons: EndReason) -> list[End]:
    return [
        End(reason, Reference("elt_stream", f"s{number}", f"stream-{number}"), Outcome.FAILED)
        for number, reason in enumerate(reasons)
    ]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((EndReason.RUN_OVER,), RunFailedError),
        ((EndReason.LOST_CONTACT, EndReason.RUN_OVER), RunFailedError),
        ((EndReason.LOST_CONTACT, EndReason.NOT_SCHEDULED), LostContactError),
        ((EndReason.NOT_STARTED, EndReason.TIMEOUT), RunTimeoutError),
        ((EndReason.NOT_SCHEDULED,), RunNotScheduledError),
        ((EndReason.VANISHED,), RunVanishedError),
        ((EndReason.NOT_STARTED,), RunError),
    ],
)
def test_a_sync_failed_only_if_the_run_of_a_stream_did(
    reasons: tuple[EndReason, ...], expected: type[RunError]
) -> None:
    error = error_of_sync("y", _unfinished(*reasons))
    assert type(error) is expected
    assert f"{len(reasons)} of {len(reasons)} streams failed" in str(error)


def test_the_newest_run_is_looked_at_where_none_is_named() -> None:
    for kind, run in (("elt_stream", stream_run("COMPLETED")),):
        seen = KINDS[kind].read(Reference(kind, "s", "s"), page(run))
        assert seen.reference.run_id == "r1"
        assert KINDS[kind].look(Reference(kind, "s", "s")).endpoint.name.endswith(".list")
