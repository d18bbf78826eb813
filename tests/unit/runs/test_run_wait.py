"""Wait for one run: times of the polls, limits and outcomes; duration of the wait in the worker."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError, RateLimitError, ServerError
from airflow_provider_datapipe.runs.missing_runs import MissingRun, is_missing
from airflow_provider_datapipe.runs.models import RunRef, RunResult, RunState
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.wait import RunWait, WaitOutcome, WaitOutcomeReason, WaitPolicy
from airflow_provider_datapipe.runs.worker_wait import is_short, seconds_in_worker, sensor_intervals
from tests.unit.runs.model_service import result_of

BEGIN = 1_000.0
RUN = RunRef("elt_stream", "s", "orders", run_id="r1")
DOWN = ServerError("The service failed: down.\nTry again later.", status=503)
GONE = NotFoundError("Not found: no such run.", status=404)
SLOWER = RateLimitError("Too many requests: slower.", status=429, retry_after=120)
SHORT, LONG = [1.0] * 5, [600.0] * 5


def watch(reference: RunRef = RUN, *, jitter: float = 1.0, **policy: Any) -> RunWait:
    """Return a wait with a poll each 10 s."""
    return RunWait(reference, WaitPolicy(**{"poll_interval": 10.0, **policy}), BEGIN, lambda: jitter)


def seen(outcome: Outcome = Outcome.RUNNING, *, reference: RunRef = RUN, **more: Any) -> RunState:
    return RunState(reference, outcome, **{"result": result(outcome), **more})


def result(outcome: Outcome = Outcome.RUNNING, started_at: str | None = None) -> RunResult:
    return result_of(RUN, outcome, started_at=started_at, rows_synced=7)


ABSENT = seen(Outcome.SCHEDULED, result=None)


# Polls.


def test_a_wait_before_and_after_its_first_poll() -> None:
    begun = watch(contact_limit=60)
    assert (begun.due, begun.began, begun.last_answer, begun.lost_at) == (BEGIN, BEGIN, BEGIN, BEGIN + 60)
    assert (begun.outcome, begun.result, begun.poll_after, begun.was_seen) == (Outcome.SCHEDULED, None, None, False)
    state = seen(result=result(started_at="1970-01-01T00:10:00+00:00"))
    assert begun.seen(state, BEGIN + 1) is None
    assert (begun.outcome, begun.result, begun.was_seen) == (Outcome.RUNNING, state.result, True)
    assert (begun.began, begun.last_answer, begun.due) == (600.0, BEGIN + 1, BEGIN + 11)


def test_the_result_of_a_slice_is_kept_until_the_next_one() -> None:
    begun = watch()
    begun.seen(seen(), BEGIN)
    begun.seen(seen(result=None), BEGIN + 10)
    assert begun.result == result()


@pytest.mark.parametrize(
    ("now", "was_due", "due"),
    [
        (110.0, None, 120.0),
        # Its own due time is 70.
        (110.0, 105.0, 115.0),
        (110.0, 80.0, 110.0),
        # More than 30 s late: all polls were delayed.
        (110.0, 79.0, 120.0),
        (110.0, 200.0, 120.0),
        # The due time of the list belongs to another run: long before that of this run, or before this run is due.
        (72.0, 50.0, 80.0),
        (66.0, 61.0, 76.0),
    ],
)
def test_the_next_interval_counts_from_the_due_time(now: float, was_due: float | None, due: float) -> None:
    begun = watch()
    begun.seen(seen(), BEGIN + 60)
    assert begun.unchanged(BEGIN + now, None if was_due is None else BEGIN + was_due) is None
    assert begun.due == BEGIN + due


@pytest.mark.parametrize(
    ("interval", "deadline", "due"),
    [(10.0, None, 10.0), (None, None, 2.0), (900.0, BEGIN + 60, 60.0), (None, BEGIN + 1, 1.0)],
)
def test_a_run_that_was_just_read_is_polled_later(interval: float | None, deadline: float | None, due: float) -> None:
    begun = watch(poll_interval=interval, fastest=5.0, deadline=deadline)
    begun.delay_first_poll(BEGIN, 2.0)
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


def test_a_run_that_is_usually_long_is_polled_rarely() -> None:
    reference = RunRef("elt_stream", "s", "orders", run_id="r1", durations=LONG)
    begun = watch(reference, poll_interval=None, first_interval=0.2)
    begun.seen(seen(reference=reference), BEGIN)
    assert begun.due > BEGIN + 5


# Outcomes.


@pytest.mark.parametrize(
    ("stale_until", "last"), [(None, BEGIN + 10), (BEGIN + 5, BEGIN + 5), (BEGIN + 60, BEGIN + 10)]
)
def test_earlier_outcome_counts_after_ten_seconds(stale_until: float | None, last: float) -> None:
    reference = RunRef("transform", "t", "t", earlier_state={"status": "x"}, stale_until=stale_until)
    begun = watch(reference, poll_interval=1.0)
    assert begun.reference.stale_until == last
    state = seen(Outcome.SUCCEEDED, reference=begun.reference, may_be_stale=True)
    assert begun.seen(state, last - 0.1) is None
    assert begun.outcome is Outcome.RUNNING
    end = begun.seen(state, last)
    assert end is not None
    assert (end.reason, end.outcome) == (WaitOutcomeReason.RUN_OVER, Outcome.SUCCEEDED)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_run_that_does_not_appear_ends_the_wait(*, is_shared: bool) -> None:
    begun = watch(schedule_limit=100.0)
    assert begun.seen(ABSENT, BEGIN) is None
    assert begun.reference.absent_since == BEGIN
    first, last = (
        begun.unchanged(BEGIN + after) if is_shared else begun.seen(ABSENT, BEGIN + after) for after in (99, 101)
    )
    assert first is None
    assert last == WaitOutcome(WaitOutcomeReason.NOT_SCHEDULED, begun.reference, Outcome.SCHEDULED, None, "for 101 s")


def test_run_that_appears_ends_the_absence() -> None:
    begun = watch(RunRef("elt_stream", "s", "orders", absent_since=BEGIN - 50))
    assert begun.began == BEGIN - 50
    begun.seen(seen(), BEGIN)
    assert begun.reference.absent_since is None


def test_the_last_poll_is_at_the_deadline() -> None:
    begun = watch(deadline=BEGIN + 15)
    assert begun.seen(seen(), BEGIN + 8) is None
    assert begun.due == BEGIN + 15
    assert begun.expired(BEGIN + 24.9) is None
    over = WaitOutcome(WaitOutcomeReason.TIMEOUT, RUN, Outcome.RUNNING, result())
    assert begun.expired(BEGIN + 25) == over
    assert begun.unchanged(BEGIN + 15) == over


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


@pytest.mark.parametrize(("jitter", "rarer", "due"), [(0.0, True, 20), (1.0, True, 40), (1.0, False, 10)])
def test_jitter_and_failures_of_the_connection_shorten_delays(jitter: float, rarer: bool, due: float) -> None:
    begun = watch(jitter=jitter)
    for _ in range(3):
        assert begun.failed(DOWN, BEGIN, slow_down=rarer) is None
    assert begun.due == BEGIN + due
    # The connection has its own state.
    assert begun.lost is (DOWN if rarer else None)


def test_repeated_failures_count_as_lost() -> None:
    begun = watch()
    begun.failed(DOWN, BEGIN)
    assert begun.lost is DOWN, "there was no answer before"
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
    assert end == WaitOutcome(WaitOutcomeReason.LOST_CONTACT, RUN, Outcome.RUNNING, result(), f"for 25 s.\n{DOWN}")


@pytest.mark.parametrize(
    ("limits", "due", "reason", "detail"),
    [
        ({}, 120.0, None, None),
        ({"deadline": BEGIN + 50}, 50.0, WaitOutcomeReason.TIMEOUT, None),
        ({"contact_limit": 50.0}, 50.0, WaitOutcomeReason.LOST_CONTACT, "for 50 s.\nToo many requests: slower."),
    ],
)
def test_a_requested_pause_beyond_a_limit_ends_the_wait(
    limits: dict[str, Any], due: float, reason: WaitOutcomeReason | None, detail: str | None
) -> None:
    begun = watch(**limits)
    assert begun.failed(SLOWER, BEGIN) is None
    assert (begun.due, begun.poll_after) == (BEGIN + due, BEGIN + 120)
    assert begun.expired(begun.due) == (reason and WaitOutcome(reason, RUN, Outcome.SCHEDULED, None, detail))
    # After the pause, a last poll decides.
    assert "contact_limit" not in limits or begun.expired(BEGIN + 119) is not None
    assert "deadline" in limits or begun.expired(BEGIN + 120) is None


def test_duration_without_a_response() -> None:
    begun = watch()
    begun.seen(seen(), BEGIN)
    assert [begun.silence(BEGIN + after) for after in (40, 41)] == [0.0, 41.0]
    begun.failed(DOWN, BEGIN + 10)
    assert begun.silence(BEGIN + 12) == 12.0
    begun.unchanged(BEGIN + 20)
    assert begun.silence(BEGIN + 21) == 0.0
    assert begun.last_answer == BEGIN + 20
    begun.failed(GONE, BEGIN + 30)
    assert begun.silence(BEGIN + 31) == 0.0


# Missing runs.


def test_statuses_of_missing_runs() -> None:
    assert not is_missing(DatapipeError("x"))
    assert not is_missing(ServerError("x", status=500))
    missing = [status for status in range(400, 500) if is_missing(NotFoundError("x", status=status))]
    assert missing == [400, 404, 410]


def test_missing_run_ends_the_wait_after_the_grace_period() -> None:
    begun = watch(missing_grace=60.0)
    now, pauses = BEGIN, []
    while (end := begun.failed(GONE, now)) is None:
        assert begun.last_answer == now
        pauses.append(begun.due - now)
        now = begun.due
    assert pauses == [3, 6, 12, 24, 15]
    detail = "6 answers in 60 s, the last: Not found: no such run."
    assert end == WaitOutcome(WaitOutcomeReason.VANISHED, RUN, Outcome.SCHEDULED, None, detail)


@pytest.mark.parametrize(("answers", "now", "is_final"), [(2, 61.0, False), (3, 59.0, False), (3, 60.0, True)])
def test_run_is_missing_after_three_responses_and_the_grace(answers: int, now: float, *, is_final: bool) -> None:
    missing = MissingRun(60.0, BEGIN)
    for _ in range(answers - 1):
        assert not missing.is_final(BEGIN)
    assert missing.is_final(BEGIN + now) is is_final
    assert missing.summary(BEGIN + now) == f"{answers} answers in {now:.0f} s"


def test_a_pause_after_the_grace_is_the_backoff() -> None:
    missing = MissingRun(60.0, BEGIN)
    missing.is_final(BEGIN)
    assert missing.pause(BEGIN + 70, 0.0) == 1.5
    assert missing.pause(BEGIN + 59, 1.0) == 1.0


# Seconds in the worker before a deferral.


@pytest.mark.parametrize(
    ("histories", "options", "seconds"),
    [
        ([], {}, 0.0),
        ([[]], {}, 6.0),
        ([LONG], {}, 0.0),
        ([[0.0]], {}, 2.0),
        ([[4.0]], {}, 8.0),
        ([[10.0]], {}, 17.0),
        ([[10.1]], {}, 0.0),
        ([[4.0], [6.0]], {}, 11.0),
        ([SHORT, LONG], {}, 0.0),
        # Queued runs start after the short one.
        ([SHORT, LONG], {"any_of_them": True}, 3.5),
        # One slow run of many changes nothing, several do.
        ([[900.0, *[1.0] * 9]], {}, 3.5),
        ([[900.0, 1.0, 900.0, 1.0]], {}, 0.0),
        # The setting overrides the history.
        *(([SHORT, LONG, []], {"defer_after": setting}, setting) for setting in (0.0, 3.0, 120.0)),
    ],
)
def test_worker_time_follows_the_usual_duration(
    histories: list[list[float]], options: dict[str, Any], seconds: float
) -> None:
    assert seconds_in_worker(histories, **options) == seconds


def test_run_without_history_may_be_short() -> None:
    assert [is_short(durations) for durations in ([], SHORT, LONG, [10.0], [10.1])] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("poke_interval", "first", "later"),
    [(60.0, [0.2, 0.4, 0.8, 1.0, 1.0], 60.0), (0.5, [0.2, 0.4, 0.5, 0.5, 0.5], 0.5), (0.0, [0.2] * 5, 0.2)],
)
def test_a_sensor_polls_more_often_at_first(poke_interval: float, first: list[float], later: float) -> None:
    intervals = list(islice(sensor_intervals(poke_interval), 100))
    assert intervals[:5] == pytest.approx(first)
    assert intervals[-1] == later
    if later > 1:
        early = intervals[: intervals.index(later)]
        assert max(early) <= 1.0
        assert 15.0 <= sum(early) < 16.0
