"""Tests of the wait for one run: times of the polls, limits, and the reasons for its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError, RateLimitError, ServerError
from airflow_provider_datapipe.runs.missing import Missing, is_missing
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, Reference, RunResult
from airflow_provider_datapipe.runs.wait import End, EndReason, WaitPolicy, Watch

BEGIN = 1_000.0
RUN = Reference("elt_stream", "s", "orders", run_id="r1")
DOWN = ServerError("The service failed: down.\nTry again later.", status=503)
GONE = NotFoundError("Not found: no such run.", status=404)


def watch(reference: Reference = RUN, **policy: Any) -> Watch:
    """Return a wait with a poll each 10 s, without jitter."""
    return Watch(reference, WaitPolicy(**{"poll_interval": 10.0, **policy}), BEGIN, lambda: 1.0)


def result(outcome: Outcome = Outcome.RUNNING, started_at: str | None = None) -> RunResult:
    return RunResult(
        kind="elt_stream",
        resource_id="s",
        name="orders",
        run_id="r1",
        status="RUNNING",
        outcome=outcome,
        started_at=started_at,
        finished_at=None,
        duration=None,
        rows_synced=7,
        rows_failed=None,
        rows_total=None,
        attached=False,
        error=None,
    )


def seen(outcome: Outcome = Outcome.RUNNING, *, reference: Reference = RUN, **more: Any) -> Observation:
    return Observation(reference, outcome, **{"result": result(outcome), **more})


# Serialization.


def test_a_policy_survives_json() -> None:
    policy = WaitPolicy(5.0, 2_000.0, 60.0, 70.0, 2.0, 30.0, 0.5, 90.0)
    stored = json.loads(json.dumps(policy.as_dict()))
    assert WaitPolicy.from_dict(stored) == policy
    assert WaitPolicy.from_dict({**stored, "of_a_later_version": 1}) == policy
    assert WaitPolicy.from_dict({}) == WaitPolicy()


@pytest.mark.parametrize(
    "end",
    [
        End(EndReason.RUN_OVER, RUN, Outcome.FAILED, result(), "a detail", [{"record_id": "1", "error": "no"}]),
        End(EndReason.TIMEOUT, RUN, Outcome.RUNNING),
    ],
)
def test_an_end_survives_json(end: End) -> None:
    stored = json.loads(json.dumps(end.as_dict()))
    assert End.from_dict(stored) == end
    # An earlier version stored no records.
    del stored["records"]
    assert End.from_dict(stored).records == []


# Polls.


def test_a_wait_before_its_first_poll() -> None:
    begun = watch(contact_limit=60)
    assert (begun.due, begun.began, begun.last_answer, begun.lost_at) == (BEGIN, BEGIN, BEGIN, BEGIN + 60)
    assert (begun.outcome, begun.result, begun.poll_after) == (Outcome.SCHEDULED, None, None)
    assert not begun.was_seen


def test_a_poll_notes_state_start_and_time() -> None:
    begun = watch()
    observation = seen(result=result(started_at="1970-01-01T00:10:00+00:00"))
    assert begun.seen(observation, BEGIN + 1) is None
    assert (begun.outcome, begun.result) == (Outcome.RUNNING, observation.result)
    assert (begun.began, begun.last_answer, begun.due) == (600.0, BEGIN + 1, BEGIN + 11)
    assert begun.was_seen


def test_the_result_of_a_slice_is_kept_until_the_next_one() -> None:
    begun = watch()
    begun.seen(seen(), BEGIN)
    begun.seen(seen(result=None), BEGIN + 10)
    assert begun.result == result()


@pytest.mark.parametrize(
    ("was_due", "due"), [(None, 120.0), (105.0, 115.0), (80.0, 110.0), (79.0, 120.0), (200.0, 120.0)]
)
def test_the_next_interval_counts_from_the_due_time(was_due: float | None, due: float) -> None:
    begun = watch()
    begun.seen(seen(), BEGIN + 60)
    # More than 30 s late: all polls were held up.
    assert begun.unchanged(BEGIN + 110, None if was_due is None else BEGIN + was_due) is None
    assert begun.due == BEGIN + due


@pytest.mark.parametrize(("interval", "due"), [(10.0, 10.0), (None, 2.0)])
def test_a_run_that_was_just_read_is_polled_later(interval: float | None, due: float) -> None:
    begun = watch(poll_interval=interval, fastest=5.0)
    begun.was_just_read(BEGIN, 2.0)
    assert begun.due == BEGIN + due


def test_a_run_that_may_be_short_is_polled_more_often_at_first() -> None:
    begun = watch(poll_interval=None, first_interval=0.2, fastest=1.0)
    now, intervals = BEGIN, []
    begun.seen(seen(), now)
    while begun.due < BEGIN + 20:
        intervals.append(round(begun.due - now, 3))
        now = begun.due
        begun.unchanged(now)
    assert intervals[:4] == [0.2, 0.4, 0.8, 1.0]
    # The first poll after 15 s is an early one.
    assert all(interval == 1.0 for interval in intervals[3:14])


def test_a_run_that_is_long_as_a_rule_is_polled_rarely() -> None:
    reference = Reference("elt_stream", "s", "orders", run_id="r1", durations=[600.0] * 5)
    begun = Watch(reference, WaitPolicy(first_interval=0.2), BEGIN)
    begun.seen(seen(reference=reference), BEGIN)
    assert begun.due > BEGIN + 5


# Ends.


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.PARTIAL, Outcome.FAILED, Outcome.CANCELED])
def test_the_end_of_the_run_ends_the_wait(outcome: Outcome) -> None:
    end = watch().seen(seen(outcome), BEGIN)
    assert end == End(EndReason.RUN_OVER, RUN, outcome, result(outcome))


@pytest.mark.parametrize(
    ("stale_until", "last"), [(None, BEGIN + 10), (BEGIN + 5, BEGIN + 5), (BEGIN + 60, BEGIN + 10)]
)
def test_an_outcome_of_before_counts_after_ten_seconds(stale_until: float | None, last: float) -> None:
    reference = Reference("transform", "t", "t", earlier_state={"status": "x"}, stale_until=stale_until)
    begun = watch(reference, poll_interval=1.0)
    assert begun.reference.stale_until == last

    def look(now: float) -> End | None:
        return begun.seen(seen(Outcome.SUCCEEDED, reference=begun.reference, may_be_stale=True), now)

    assert look(last - 0.1) is None
    assert begun.outcome is Outcome.RUNNING
    end = look(last)
    assert end is not None
    assert (end.reason, end.outcome) == (EndReason.RUN_OVER, Outcome.SUCCEEDED)


@pytest.mark.parametrize("poll", ["seen", "unchanged"])
def test_a_run_that_does_not_appear_ends_the_wait(poll: str) -> None:
    begun = watch(schedule_limit=100.0)
    assert begun.seen(seen(Outcome.SCHEDULED, result=None), BEGIN) is None
    assert begun.reference.absent_since == BEGIN

    def look(now: float) -> End | None:
        return begun.unchanged(now) if poll == "unchanged" else begun.seen(seen(Outcome.SCHEDULED, result=None), now)

    assert look(BEGIN + 99) is None
    end = look(BEGIN + 101)
    assert end == End(EndReason.NOT_SCHEDULED, begun.reference, Outcome.SCHEDULED, None, "for 101 s")


def test_a_run_that_appears_is_absent_no_more() -> None:
    begun = watch(Reference("elt_stream", "s", "orders", absent_since=BEGIN - 50))
    assert begun.began == BEGIN - 50
    begun.seen(seen(), BEGIN)
    assert begun.reference.absent_since is None


def test_the_last_poll_is_at_the_deadline() -> None:
    begun = watch(deadline=BEGIN + 15)
    assert begun.seen(seen(), BEGIN + 8) is None
    assert begun.due == BEGIN + 15
    assert begun.expired(BEGIN + 24.9) is None
    end = begun.expired(BEGIN + 25)
    assert end is not None
    assert end.reason is EndReason.TIMEOUT
    assert begun.unchanged(BEGIN + 15) == End(EndReason.TIMEOUT, RUN, Outcome.RUNNING, result())


# Failures.


def test_failures_make_polls_rarer_up_to_five_minutes() -> None:
    begun = watch(contact_limit=10_000.0)
    now, delays = BEGIN, []
    for _ in range(7):
        assert begun.failed(DOWN, now) is None
        delays.append(begun.due - now)
        now = begun.due
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    assert begun.seen(seen(), now) is None
    assert begun.failed(DOWN, now) is None
    assert begun.due == now + 10


def test_jitter_halves_a_delay_at_the_most() -> None:
    begun = Watch(RUN, WaitPolicy(poll_interval=10.0), BEGIN, lambda: 0.0)
    for _ in range(3):
        begun.failed(DOWN, BEGIN)
    assert begun.due == BEGIN + 20


def test_failures_of_the_connection_keep_the_interval() -> None:
    begun = watch()
    for _ in range(3):
        assert begun.failed(DOWN, BEGIN, rarer=False) is None
    assert begun.due == BEGIN + 10
    assert begun.lost is None


def test_repeated_failures_count_as_lost() -> None:
    begun = watch()
    begun.seen(seen(), BEGIN)
    begun.failed(DOWN, BEGIN + 1)
    assert begun.lost is None
    begun.failed(DOWN, BEGIN + 2)
    assert begun.lost is DOWN
    begun.unchanged(BEGIN + 40)
    assert begun.lost is None


def test_lost_contact_ends_the_wait_at_its_limit() -> None:
    begun = watch(contact_limit=25.0)
    begun.seen(seen(), BEGIN)
    assert begun.failed(DOWN, BEGIN + 10) is None
    assert begun.failed(DOWN, BEGIN + 20) is None
    assert begun.due == begun.lost_at == BEGIN + 25
    assert begun.unreachable(DOWN, BEGIN + 24) is None
    end = begun.failed(DOWN, BEGIN + 25)
    assert end == End(EndReason.LOST_CONTACT, RUN, Outcome.RUNNING, result(), f"for 25 s.\n{DOWN}")


def test_a_requested_pause_is_kept() -> None:
    begun = watch()
    error = RateLimitError("Too many requests: slower.", status=429, retry_after=120)
    assert begun.failed(error, BEGIN) is None
    assert (begun.due, begun.poll_after) == (BEGIN + 120, BEGIN + 120)
    assert begun.expired(BEGIN + 120) is None


@pytest.mark.parametrize(
    ("limits", "reason", "detail"),
    [
        ({"deadline": BEGIN + 50}, EndReason.TIMEOUT, None),
        ({"contact_limit": 50.0}, EndReason.LOST_CONTACT, "for 50 s.\nToo many requests: slower."),
    ],
)
def test_a_pause_beyond_a_limit_ends_the_wait(limits: dict[str, Any], reason: EndReason, detail: str | None) -> None:
    begun = watch(**limits)
    assert begun.failed(RateLimitError("Too many requests: slower.", status=429, retry_after=120), BEGIN) is None
    assert begun.due == BEGIN + 50
    assert begun.expired(BEGIN + 50) == End(reason, RUN, Outcome.SCHEDULED, None, detail)


@pytest.mark.parametrize(("now", "silence"), [(BEGIN + 40, 0.0), (BEGIN + 41, 41.0)])
def test_silence_of_an_overdue_poll(now: float, silence: float) -> None:
    begun = watch()
    begun.seen(seen(), BEGIN)
    assert begun.silence(now) == silence


def test_silence_after_a_failure() -> None:
    begun = watch()
    begun.seen(seen(), BEGIN)
    begun.failed(DOWN, BEGIN + 10)
    assert begun.silence(BEGIN + 12) == 12.0
    begun.unchanged(BEGIN + 20)
    assert begun.silence(BEGIN + 21) == 0.0
    assert begun.last_answer == BEGIN + 20
    begun.failed(GONE, BEGIN + 30)
    assert begun.silence(BEGIN + 31) == 0.0


def test_failures_before_the_first_answer_count_at_once() -> None:
    begun = watch()
    begun.failed(DOWN, BEGIN)
    assert begun.lost is DOWN


# Missing runs.


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((DatapipeError("x"), False), (ServerError("x", status=500), False)),
        *((NotFoundError("x", status=status), True) for status in (400, 404, 410)),
        (NotFoundError("x", status=401), False),
    ],
)
def test_statuses_of_missing_runs(error: DatapipeError, *, expected: bool) -> None:
    assert is_missing(error) is expected


def test_a_missing_run_ends_the_wait_after_the_grace() -> None:
    begun = watch(missing_grace=60.0)
    now, pauses = BEGIN, []
    while (end := begun.failed(GONE, now)) is None:
        assert begun.last_answer == now
        pauses.append(begun.due - now)
        now = begun.due
    assert pauses == [3, 6, 12, 24, 15]
    assert end == End(
        EndReason.VANISHED, RUN, Outcome.SCHEDULED, None, "6 answers in 60 s, the last: Not found: no such run."
    )


def test_a_run_that_is_shown_again_is_missing_no_more() -> None:
    begun = watch(missing_grace=60.0)
    begun.failed(GONE, BEGIN)
    begun.unchanged(BEGIN + 50)
    begun.failed(GONE, BEGIN + 60)
    assert begun.due == BEGIN + 63
    assert begun.lost is None


@pytest.mark.parametrize(("answers", "now", "is_final"), [(2, 61.0, False), (3, 59.0, False), (3, 60.0, True)])
def test_three_answers_over_the_grace_are_final(answers: int, now: float, *, is_final: bool) -> None:
    missing = Missing(60.0, BEGIN)
    for _ in range(answers - 1):
        assert not missing.is_final(BEGIN)
    assert missing.is_final(BEGIN + now) is is_final
    assert missing.summary(BEGIN + now) == f"{answers} answers in {now:.0f} s"


def test_a_pause_after_the_grace_is_the_backoff() -> None:
    missing = Missing(60.0, BEGIN)
    missing.is_final(BEGIN)
    assert missing.pause(BEGIN + 70, 0.0) == 1.5
    assert missing.pause(BEGIN + 59, 1.0) == 1.0
