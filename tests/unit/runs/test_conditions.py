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
from tests.unit.runs.history_service import HistoryService, Past, at, stamp


def poll(condition: Condition, service: HistoryService, minute: float = 1000) -> Check:
    def never(_: float) -> None:
        raise AssertionError("a look does not wait")

    return run_blocking(condition.check(at(minute).timestamp()), service.send, never)


def run_of(check: Check) -> str | None:
    assert check.is_met
    (end,) = check.ends
    return end.reference.run_id


def stream(**fields: Any) -> RunCondition:
    return RunCondition(kind="elt_stream", stream_id="s", **fields)


@st.composite
def lives(draw: st.DrawFn) -> list[Past]:
    """Draw the whole life of a stream, of which a test shows what there is at a time."""
    runs, minute = [], 0.0
    for number in range(draw(st.integers(1, 12))):
        start = minute + draw(st.integers(1, 4))
        end = start + draw(st.integers(1, 4))
        status = draw(st.sampled_from(["COMPLETED", "FAILED", "CHUNK_COMPLETED"]))
        runs.append(Past(f"r{number}", start, end, status))
        minute = end
    return runs


def seen_at(runs: list[Past], minute: float) -> list[Past]:
    begun = [run for run in runs if run.start is not None and run.start <= minute]
    return [
        run if run.end is not None and run.end <= minute else Past(run.id, run.start, None, "RUNNING") for run in begun
    ]


@given(
    runs=lives(),
    minute=st.integers(0, 60),
    moment_of=st.sampled_from(["start", "end"]),
    on_failure=st.sampled_from(["fail", "next"]),
    keeps=st.booleans(),
)
def test_a_polling_sensor_ends_with_the_run_that_is_found_later(
    runs: list[Past], minute: int, moment_of: str, on_failure: str, keeps: bool
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
        # Only ever a run that may be the one, or comes before it.
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
    ("runs", "said", "awaited"),
    [
        ([], "no run of s has started since", {"run_id": None}),
        ([Past("a", 1, 2)], "no run of s has started since", {"run_id": None}),
        ([Past("a", 1, 2), Past("b", 11, None, "RUNNING")], "ELT stream s: run b is running", {"run_id": "b"}),
        ([Past("a", 1, None, "RUNNING")], "no run of s has started since", {"run_id": None}),
        # The run after a slice is of the same load, which began too early.
        ([Past("a", 1, 2, "CHUNK_COMPLETED")], "no run of s has started since", {"run_id": None}),
    ],
)
def test_what_is_waited_for_meanwhile(runs: list[Past], said: str, awaited: dict[str, Any]) -> None:
    check = poll(stream(after=stamp(10)), HistoryService({"s": runs}))
    assert not check.is_met
    assert said in check.description
    assert check.awaited is not None
    assert {name: getattr(check.awaited, name) for name in awaited} == awaited
    assert check.awaited.attached
    if runs and check.awaited.run_id is None:
        assert check.awaited.status_url
        assert f"starting_after={runs[-1].id}" in check.awaited.status_url


def ended(run: Past) -> WaitOutcome:
    service = HistoryService({"s": [run]})
    return poll(stream(after=stamp(0)), service).ends[0]


def test_an_end_counts_only_for_the_run_that_was_found() -> None:
    service = HistoryService({"s": [Past("a", 1, 2)]})
    condition = stream(after=stamp(10))
    poll(condition, service)
    # It may be of a load that began before, or one of several.
    assert not condition.settled_by(ended(Past("b", 11, 12)))
    service.runs["s"].append(Past("b", 11, None, "RUNNING"))
    poll(condition, service)
    assert condition.settled_by(ended(Past("b", 11, 12)))
    assert not condition.settled_by(ended(Past("c", 11, 12)))
    assert not condition.settled_by(
        WaitOutcome(WaitOutcomeReason.RUN_OVER, RunRef("elt_stream", "s", "s"), Outcome.SUCCEEDED)
    )


def test_a_failure_that_is_passed_over_settles_nothing() -> None:
    service = HistoryService({"s": [Past("b", 11, None, "RUNNING")]})
    condition = stream(after=stamp(10), on_failure="next")
    poll(condition, service)
    assert not condition.settled_by(ended(Past("b", 11, 12, "FAILED")))
    assert condition.settled_by(ended(Past("b", 11, 12)))


def test_where_there_is_no_run_so_far_the_newest_is_the_first() -> None:
    service = HistoryService({"s": []})
    condition = stream(newest=True)
    assert not poll(condition, service).is_met
    service.runs["s"] = [Past("a", 1, 2), Past("b", 3, None, "RUNNING")]
    assert run_of(poll(condition_of("run", condition.fields), service)) == "a"
    assert run_of(poll(condition, service)) == "a"


def test_a_run_that_is_a_slice_ends_as_its_load_does() -> None:
    service = HistoryService({"s": [Past("a", 1, 2, "CHUNK_COMPLETED")]})
    for fields in ({"run_id": "a"}, {"newest": True}):
        service.runs["s"] = [Past("z", 0, 0.5), Past("a", 1, 2, "CHUNK_COMPLETED")]
        kept = stream(**fields)
        assert not poll(kept, service).is_met
        service.runs["s"] += [Past("b", 3, 4, "CHUNK_COMPLETED"), Past("c", 5, 6)]
        assert run_of(poll(kept, service)) == "c"
        # Where nothing is kept between two looks, too.
        assert run_of(poll(stream(run_id="a"), service)) == "c"


def test_a_wrong_moment_is_said_before_anything_is_asked() -> None:
    service = HistoryService({"s": []})
    for condition in (stream(after="2026-01-01"), SyncCondition(sync_id="y", after="2026-01-01")):
        with pytest.raises(ValueError, match="after has no time zone"):
            poll(condition, service)
    assert service.asked == []


@pytest.mark.parametrize(
    ("runs", "fresh"),
    [
        ([], None),
        ([Past("a", 1, 89)], None),
        ([Past("a", 1, 90)], "a"),
        ([Past("a", 91, 92), Past("b", 93, 94)], "b"),
        ([Past("a", 91, 92), Past("b", 93, 94, "FAILED"), Past("c", 95, None, "RUNNING")], "a"),
        ([Past("a", 91, 92, "CHUNK_COMPLETED")], None),
        ([Past("a", 1, 2), Past("b", 91, 92, "FAILED")], None),
    ],
)
def test_fresh_is_what_has_succeeded_lately(runs: list[Past], fresh: str | None) -> None:
    anchored: list[tuple[dict[str, Any], float]] = [({}, 100.0), ({"as_of": stamp(100)}, 5000.0)]
    for fields, now in anchored:
        condition = FreshCondition(kind="elt_stream", stream_id="s", max_age=600, **fields)
        check = poll(condition, HistoryService({"s": runs}), now)
        assert (run_of(check) if check.is_met else None) == fresh
        assert check.awaited is None


def test_freshness_walks_no_further_than_it_needs() -> None:
    runs = [Past(f"r{number}", number, number + 0.5, "FAILED") for number in range(1000)]
    service = HistoryService({"s": runs})
    assert not poll(FreshCondition(kind="elt_stream", stream_id="s", max_age=50 * 60), service, 1000).is_met
    assert [request.endpoint.name for request in service.asked].count("elt_stream_runs.list") == 2


@pytest.mark.parametrize(
    ("runs", "last"),
    [
        ([], None),
        ([Past("a", 1, None, "RUNNING")], None),
        ([Past("a", 1, 2), Past("b", 3, 4, "FAILED"), Past("c", 5, None, "RUNNING")], "b"),
        ([Past("a", 1, 2, "FAILED"), Past("b", 3, 4)], "b"),
        ([Past("a", 1, 2), Past("b", 3, 4, "CHUNK_COMPLETED")], "a"),
        ([Past("a", 1, 2), *(Past(f"b{n}", 3 + n, 3.5 + n, "CHUNK_COMPLETED") for n in range(50))], "a"),
    ],
)
def test_the_last_run_is_the_last_that_has_ended(runs: list[Past], last: str | None) -> None:
    check = poll(LastRunCondition(kind="elt_stream", stream_id="s"), HistoryService({"s": runs}))
    assert (run_of(check) if check.is_met else None) == last


def test_the_verdict_of_a_last_run_is_that_of_the_run() -> None:
    condition = LastRunCondition(kind="elt_stream", stream_id="s")
    check = poll(condition, HistoryService({"s": [Past("b", 3, 4, "FAILED")]}))
    result, error = condition.task_result(Check.from_dict(check.as_dict()))
    assert result["run_id"] == "b"
    assert isinstance(error, RunFailedError)


def names(service: HistoryService, since: int = 0) -> list[str]:
    return [request.endpoint.name for request in service.asked[since:]]


def test_a_look_at_a_sync_is_one_request_until_all_may_be_there() -> None:
    service = HistoryService({name: [Past(f"{name}1", 1, 2)] for name in "abc"})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    assert not poll(condition, service).is_met
    service.asked.clear()
    for name in "ab":
        service.runs[name].append(Past(f"{name}2", 11, 12))
        assert "waited for: " in poll(condition, service).description
    # A run that goes on is none that is over.
    service.runs["c"].append(Past("c2", 11, None, "RUNNING"))
    assert poll(condition, service).description.endswith("waited for: c")
    assert names(service) == ["elt_syncs.status"] * 3
    service.runs["c"][-1] = Past("c2", 11, 12)
    check = poll(condition, service)
    assert check.is_met
    assert names(service, 3) == ["elt_syncs.status", *["elt_stream_runs.list"] * 3]
    result, error = condition.task_result(check)
    assert error is None
    assert {name: each["run_id"] for name, each in result["streams"].items()} == {"a": "a2", "b": "b2", "c": "c2"}


def test_completed_slices_are_not_the_end_of_a_load() -> None:
    service = HistoryService({"a": [Past("a1", 11, 12, "CHUNK_COMPLETED")], "b": [Past("b1", 11, 12)]})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    assert not poll(condition, service).is_met
    before = len(service.asked)
    # What was looked at, and has not changed since, is not looked at again.
    assert not poll(condition, service).is_met
    assert names(service, before) == ["elt_syncs.status"]
    service.runs["a"].append(Past("a2", 13, 14))
    assert poll(condition, service).is_met


def test_a_status_that_never_changes_is_not_believed_for_ever() -> None:
    service = HistoryService({"a": []})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    stale = HistoryService({"a": [Past("a1", 1, 2)]})

    def send(request: Any) -> Any:
        return (stale if request.endpoint.name == "elt_syncs.status" else service).send(request)

    # The first look shows the stream itself, too.
    assert not run_blocking(condition.check(0), send, lambda _: None).is_met
    service.runs["a"] = [Past("a2", 11, 12)]
    schedule = 1
    while not run_blocking(condition.check(0), send, lambda _: None).is_met:
        schedule += 1
        assert schedule <= 10
    assert schedule > 1


def test_a_sync_with_a_failed_stream_fails_when_all_have_ended() -> None:
    service = HistoryService({"a": [Past("a1", 11, 12, "FAILED")], "b": [Past("b1", 11, None, "RUNNING")]})
    condition = SyncCondition(sync_id="y", after=stamp(10))
    assert not poll(condition, service).is_met
    service.runs["b"] = [Past("b1", 11, 12)]
    result, error = condition.task_result(poll(condition, service))
    assert result["outcome"] == "partial"
    assert isinstance(error, RunFailedError)
    assert "1 of 2 streams failed" in str(error)


def test_a_sync_is_fresh_if_all_streams_are() -> None:
    # What goes on in slices is looked at, and the other one with it.
    service = HistoryService({"a": [Past("a1", 91, 92)], "b": [Past("b1", 95, 96, "CHUNK_COMPLETED")]})
    condition = SyncCondition(sync_id="y", max_age=600)
    assert poll(condition, service, 100).description.endswith("waited for: b")
    service.runs["b"].append(Past("b2", 101, 104))
    # By now the other one is stale.
    assert not poll(condition, service, 105).is_met
    service.runs["a"].append(Past("a2", 103, 106, "FAILED"))
    assert not poll(condition, service, 107).is_met
    service.runs["a"].append(Past("a3", 107, 108))
    assert poll(condition, service, 109).is_met
