"""Conditions of sensors: never met too early, always met at the end, and few requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.runs.conditions.base import Check, Condition
from airflow_provider_datapipe.runs.conditions.registry import condition_of
from airflow_provider_datapipe.runs.conditions.runs import FreshCondition, LastRunCondition, RunCondition
from airflow_provider_datapipe.runs.conditions.syncs import SyncCondition
from airflow_provider_datapipe.runs.errors import RunFailedError
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason
from tests.unit.runs.history_service import HistoryService, PastRun, at, stamp


def poll(condition: Condition, service: HistoryService, minute: float = 1000) -> Check:
    def never(_: float) -> None:
        raise AssertionError("a poll does not sleep")

    return run_blocking(condition.check(at(minute).timestamp()), service.send, never)


def run_of(check: Check) -> str | None:
    assert check.is_met
    (end,) = check.ends
    return end.reference.run_id


def stream(**fields: Any) -> RunCondition:
    return RunCondition(kind="elt_stream", stream_id="s", **fields)


@st.composite
def run_sequences(draw: st.DrawFn) -> list[PastRun]:
    """Draw all runs of a stream. A test shows the state at a given time."""
    runs, minute = [], 0.0
    for number in range(draw(st.integers(1, 12))):
        start = minute + draw(st.integers(1, 4))
        end = start + draw(st.integers(1, 4))
        status = draw(st.sampled_from(["COMPLETED", "FAILED", "CHUNK_COMPLETED"]))
        runs.append(PastRun(f"r{number}", start, end, status))
        minute = end
    return runs


def seen_at(runs: list[PastRun], minute: float) -> list[PastRun]:
    begun = [run for run in runs if run.start is not None and run.start <= minute]
    return [
        run if run.end is not None and run.end <= minute else PastRun(run.id, run.start, None, "RUNNING")
        for run in begun
    ]


@given(
    runs=run_sequences(),
    minute=st.integers(0, 60),
    moment_of=st.sampled_from(["start", "end"]),
    on_failure=st.sampled_from(["fail", "next"]),
    keeps=st.booleans(),
)
def test_repeated_polls_and_one_late_poll_find_the_same_run(
    runs: list[PastRun], minute: int, moment_of: str, on_failure: str, keeps: bool
) -> None:
    fields = {"after": at(minute).isoformat(), "moment_of": moment_of, "on_failure": on_failure}
    service = HistoryService({"s": []})
    condition, early = stream(**fields), None
    for now in range(100):
        service.runs["s"] = seen_at(runs, now)
        check = poll(condition if keeps else stream(**fields), service, now)
        if check.is_met:
            early = (run_of(check), now)
            break
        awaited = check.awaited
        assert awaited is not None
        # The awaited run is the matching run or an earlier active one.
        assert awaited.run_id is None or not next(run for run in service.runs["s"] if run.id == awaited.run_id).end
    service.runs["s"] = seen_at(runs, 1000)
    afterwards = poll(stream(**fields), service)
    if early is None:
        assert not afterwards.is_met
        return
    name, now = early
    assert name == run_of(afterwards)
    run = next(run for run in runs if run.id == name)
    assert run.end is not None
    assert run.start is not None
    assert now >= run.end
    assert (run.start if moment_of == "start" else run.end) >= minute
    assert on_failure == "fail" or run.status == "COMPLETED"


@pytest.mark.parametrize(
    ("runs", "description", "awaited"),
    [
        ([], "no run of s has started since", {"run_id": None}),
        ([PastRun("a", 1, 2)], "no run of s has started since", {"run_id": None}),
        ([PastRun("a", 1, 2), PastRun("b", 11, None, "RUNNING")], "ELT stream s: run b is running", {"run_id": "b"}),
        ([PastRun("a", 1, None, "RUNNING")], "no run of s has started since", {"run_id": None}),
        # A slice is followed by a run of the same load, and that load began before "after".
        ([PastRun("a", 1, 2, "CHUNK_COMPLETED")], "no run of s has started since", {"run_id": None}),
    ],
)
def test_unmet_condition_names_the_awaited_run(runs: list[PastRun], description: str, awaited: dict[str, Any]) -> None:
    check = poll(stream(after=stamp(10)), HistoryService({"s": runs}))
    assert not check.is_met
    assert description in check.description
    assert check.awaited is not None
    assert {name: getattr(check.awaited, name) for name in awaited} == awaited
    assert check.awaited.attached
    if runs and check.awaited.run_id is None:
        assert check.awaited.status_url
        assert f"starting_after={runs[-1].id}" in check.awaited.status_url


def ended(run: PastRun) -> WaitOutcome:
    service = HistoryService({"s": [run]})
    return poll(stream(after=stamp(0)), service).ends[0]


def test_only_the_outcome_of_the_found_run_meets_the_condition() -> None:
    service = HistoryService({"s": [PastRun("a", 1, 2)]})
    condition = stream(after=stamp(10))
    poll(condition, service)
    # The ended run may belong to a load that began earlier, or be one of several runs.
    assert not condition.is_met_by(ended(PastRun("b", 11, 12)))
    service.runs["s"].append(PastRun("b", 11, None, "RUNNING"))
    poll(condition, service)
    assert condition.is_met_by(ended(PastRun("b", 11, 12)))
    assert not condition.is_met_by(ended(PastRun("c", 11, 12)))
    assert not condition.is_met_by(
        WaitOutcome(WaitOutcomeReason.RUN_OVER, RunRef("elt_stream", "s", "s"), Outcome.SUCCEEDED)
    )


def test_on_failure_next_ignores_a_failed_run() -> None:
    service = HistoryService({"s": [PastRun("b", 11, None, "RUNNING")]})
    condition = stream(after=stamp(10), on_failure="next")
    poll(condition, service)
    assert not condition.is_met_by(ended(PastRun("b", 11, 12, "FAILED")))
    assert condition.is_met_by(ended(PastRun("b", 11, 12)))


def test_newest_selects_the_first_run_of_a_stream_without_runs() -> None:
    service = HistoryService({"s": []})
    condition = stream(newest=True)
    assert not poll(condition, service).is_met
    service.runs["s"] = [PastRun("a", 1, 2), PastRun("b", 3, None, "RUNNING")]
    assert run_of(poll(condition_of("run", condition.fields), service)) == "a"
    assert run_of(poll(condition, service)) == "a"


def test_wait_for_a_slice_ends_with_the_last_run_of_its_load() -> None:
    service = HistoryService({"s": [PastRun("a", 1, 2, "CHUNK_COMPLETED")]})
    for fields in ({"run_id": "a"}, {"newest": True}):
        service.runs["s"] = [PastRun("z", 0, 0.5), PastRun("a", 1, 2, "CHUNK_COMPLETED")]
        kept = stream(**fields)
        assert not poll(kept, service).is_met
        service.runs["s"] += [PastRun("b", 3, 4, "CHUNK_COMPLETED"), PastRun("c", 5, 6)]
        assert run_of(poll(kept, service)) == "c"
        # A condition without state from an earlier poll finds the same run.
        assert run_of(poll(stream(run_id="a"), service)) == "c"


def test_time_without_time_zone_is_rejected_before_any_request() -> None:
    service = HistoryService({"s": []})
    for condition in (stream(after="2026-01-01"), SyncCondition(sync_id="y", after="2026-01-01")):
        with pytest.raises(ValueError, match="after has no time zone"):
            poll(condition, service)
    assert service.asked == []


@pytest.mark.parametrize(
    ("runs", "fresh"),
    [
        ([], None),
        ([PastRun("a", 1, 89)], None),
        ([PastRun("a", 1, 90)], "a"),
        ([PastRun("a", 91, 92), PastRun("b", 93, 94)], "b"),
        ([PastRun("a", 91, 92), PastRun("b", 93, 94, "FAILED"), PastRun("c", 95, None, "RUNNING")], "a"),
        ([PastRun("a", 91, 92, "CHUNK_COMPLETED")], None),
        ([PastRun("a", 1, 2), PastRun("b", 91, 92, "FAILED")], None),
    ],
)
def test_fresh_run_succeeded_within_max_age(runs: list[PastRun], fresh: str | None) -> None:
    anchored: list[tuple[dict[str, Any], float]] = [({}, 100.0), ({"as_of": stamp(100)}, 5000.0)]
    for fields, now in anchored:
        condition = FreshCondition(kind="elt_stream", stream_id="s", max_age=600, **fields)
        check = poll(condition, HistoryService({"s": runs}), now)
        assert (run_of(check) if check.is_met else None) == fresh
        assert check.awaited is None


def test_freshness_reads_only_pages_within_max_age() -> None:
    runs = [PastRun(f"r{number}", number, number + 0.5, "FAILED") for number in range(1000)]
    service = HistoryService({"s": runs})
    assert not poll(FreshCondition(kind="elt_stream", stream_id="s", max_age=50 * 60), service, 1000).is_met
    assert [request.endpoint.name for request in service.asked].count("elt_stream_runs.list") == 2


@pytest.mark.parametrize(
    ("runs", "last"),
    [
        ([], None),
        ([PastRun("a", 1, None, "RUNNING")], None),
        ([PastRun("a", 1, 2), PastRun("b", 3, 4, "FAILED"), PastRun("c", 5, None, "RUNNING")], "b"),
        ([PastRun("a", 1, 2, "FAILED"), PastRun("b", 3, 4)], "b"),
        ([PastRun("a", 1, 2), PastRun("b", 3, 4, "CHUNK_COMPLETED")], "a"),
        ([PastRun("a", 1, 2), *(PastRun(f"b{n}", 3 + n, 3.5 + n, "CHUNK_COMPLETED") for n in range(50))], "a"),
    ],
)
def test_last_run_condition_finds_the_last_ended_run(runs: list[PastRun], last: str | None) -> None:
    check = poll(LastRunCondition(kind="elt_stream", stream_id="s"), HistoryService({"s": runs}))
    assert (run_of(check) if check.is_met else None) == last


def names(service: HistoryService, since: int = 0) -> list[str]:
    return [request.endpoint.name for request in service.asked[since:]]


def test_poll_of_a_sync_is_one_request_until_all_may_have_ended() -> None:
    service = HistoryService({name: [PastRun(f"{name}1", 1, 2)] for name in "abc"})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    assert not poll(condition, service).is_met
    service.asked.clear()
    for name in "ab":
        service.runs[name].append(PastRun(f"{name}2", 11, 12))
        assert "streams of the sync: " in poll(condition, service).description
    # An active run does not count as ended.
    service.runs["c"].append(PastRun("c2", 11, None, "RUNNING"))
    assert poll(condition, service).description.endswith("streams of the sync: c")
    assert names(service) == ["elt_syncs.status"] * 3
    service.runs["c"][-1] = PastRun("c2", 11, 12)
    check = poll(condition, service)
    assert check.is_met
    assert names(service, 3) == ["elt_syncs.status", *["elt_stream_runs.list"] * 3]
    result, error = condition.task_result(check)
    assert error is None
    assert {name: each["run_id"] for name, each in result["streams"].items()} == {"a": "a2", "b": "b2", "c": "c2"}


def test_completed_slices_do_not_end_a_load() -> None:
    service = HistoryService({"a": [PastRun("a1", 11, 12, "CHUNK_COMPLETED")], "b": [PastRun("b1", 11, 12)]})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    assert not poll(condition, service).is_met
    before = len(service.asked)
    # An unchanged stream is not polled again.
    assert not poll(condition, service).is_met
    assert names(service, before) == ["elt_syncs.status"]
    service.runs["a"].append(PastRun("a2", 13, 14))
    assert poll(condition, service).is_met


def test_stale_status_does_not_delay_the_sensor_forever() -> None:
    service = HistoryService({"a": []})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    stale = HistoryService({"a": [PastRun("a1", 1, 2)]})

    def send(request: Any) -> Any:
        return (stale if request.endpoint.name == "elt_syncs.status" else service).send(request)

    # The first poll also requests the stream.
    assert not run_blocking(condition.check(0), send, lambda _: None).is_met
    service.runs["a"] = [PastRun("a2", 11, 12)]
    polls = 1
    while not run_blocking(condition.check(0), send, lambda _: None).is_met:
        polls += 1
        assert polls <= 10
    assert polls > 1


def test_a_sync_with_a_failed_stream_fails_when_all_have_ended() -> None:
    service = HistoryService({"a": [PastRun("a1", 11, 12, "FAILED")], "b": [PastRun("b1", 11, None, "RUNNING")]})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    assert not poll(condition, service).is_met
    service.runs["b"] = [PastRun("b1", 11, 12)]
    result, error = condition.task_result(poll(condition, service))
    assert result["outcome"] == "partial"
    assert isinstance(error, RunFailedError)
    assert "1 of 2 streams failed" in str(error)


def test_sync_is_fresh_if_all_streams_are_fresh() -> None:
    # Stream b is within a load of several slices.
    service = HistoryService({"a": [PastRun("a1", 91, 92)], "b": [PastRun("b1", 95, 96, "CHUNK_COMPLETED")]})
    condition = SyncCondition(sync_id="y", max_age=600)
    assert poll(condition, service, 100).description.endswith("streams of the sync: b")
    service.runs["b"].append(PastRun("b2", 101, 104))
    # Stream a is stale by now.
    assert not poll(condition, service, 105).is_met
    service.runs["a"].append(PastRun("a2", 103, 106, "FAILED"))
    assert not poll(condition, service, 107).is_met
    service.runs["a"].append(PastRun("a3", 107, 108))
    assert poll(condition, service, 109).is_met
