"""
Waits for a model of the service that is slow, lags, refuses and forgets runs, while triggerers restart.

Each step of a wait asserts the invariants of all waits. Hypothesis chooses the answer to each poll.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from typing_extensions import override

from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    DatapipeError,
    InvalidRequestError,
    NotFoundError,
    ProtocolError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import requested_delay
from airflow_provider_datapipe.flows import Flow, Sleep
from airflow_provider_datapipe.runs import batch_wait
from airflow_provider_datapipe.runs.backoff import is_of_connection
from airflow_provider_datapipe.runs.batch import Batch, WaitingForOtherRun
from airflow_provider_datapipe.runs.batch_wait import wait_for_some
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.poll_schedule import PollRequest, PollSchedule
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason, WaitPolicy
from tests.support.examples import scaled
from tests.unit.runs.waited_runs import OUTCOMES, Life, Part, Setup, Shown, World, setups

POLL = 10.0
#: Seconds after the deadline in which a last poll may begin.
GRACE = 10.0
#: Longest interval between two checks for overdue waits.
SWEEP = 5.0
#: Grace period of a missing run, and the shortest first pause in it.
MISSING = 40.0
MISSING_PAUSE = MISSING / 40
#: Tolerance for sums of floats.
NEARLY = 1e-6

#: Errors that do not show the state of the run.
ERRORS: list[DatapipeError] = [
    RateLimitError("slow down", status=429),
    RateLimitError("slow down", status=429, retry_after=3),
    RateLimitError("slow down", status=429, retry_after=25),
    RateLimitError("slow down", status=429, retry_after=1000),
    ServerError("down", status=500),
    ServerError("down", status=503, retry_after=40),
    TransportError("dropped", sent=True),
    TransportError("refused", sent=False),
    ProtocolError("half an answer"),
    AuthenticationError("no", status=401),
    InvalidRequestError("odd", status=418),
]
#: Errors of a missing run. They end a wait only if they repeat over the grace period.
GONE: list[DatapipeError] = [
    NotFoundError("gone", status=404),
    InvalidRequestError("no such id", status=400),
    InvalidRequestError("gone", status=410),
]


#: State of a run that a list omits.
UNLISTED = Shown(None)


@dataclass
class ExpectedWait:
    """Expected state of the wait for one run, at the time at which the tested code read the clock."""

    contact: float
    absent_since: float | None = None
    #: Earliest time of the next poll, counted from the last poll.
    due: float = 0.0
    retry_at: float = 0.0
    #: True if a list omitted the run, so that it may be polled directly at once.
    missed: bool = False
    failing: bool = False
    #: Number of consecutive answers that the run is missing, and time of the first one.
    missing_answers: int = 0
    missing_since: float = 0.0


class _Recorded(PollSchedule):
    """Stores the last poll, because a request does not contain the waits that it is for."""

    last: ClassVar[PollRequest]

    @override
    def next(self, now: float) -> PollRequest | None:
        poll = super().next(now)
        if poll is not None:
            _Recorded.last = poll
        return poll


class Waiting(RuleBasedStateMachine):
    """Wait for a batch. Each rule answers one poll, or disturbs the pause before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.steps: Flow[None] | None = None

    @initialize(setup=setups())
    def begin(self, setup: Setup) -> None:
        self.deadline = None if setup.deadline is None else self.now + setup.deadline
        self.policy = WaitPolicy(
            poll_interval=POLL,
            deadline=self.deadline,
            contact_limit=setup.contact_limit,
            schedule_limit=setup.schedule_limit,
            missing_grace=MISSING,
        )
        self.parts = {f"s{number}": part for number, part in enumerate(setup.parts)}
        self.finale = setup.finale
        self.kind, self.world = KINDS[setup.kind], World(setup.kind)
        self.batch = Batch(setup.kind, at_a_time=setup.at_a_time)
        self.expected: dict[str, ExpectedWait] = {}
        self.ends: dict[str, WaitOutcome] = {}
        self.readings: list[float] = []
        self.polls: Counter[str] = Counter()
        self.suspended: list[float] = []
        self.oversleep = 0.0
        self.restart_after: tuple[float, bool] | None = None
        self._reset_connection()
        for resource_id, part in self.parts.items():
            target = RunTarget(resource_id, resource_id)
            if part.place == "queued":
                self.batch.queued.append(target)
            elif part.place == "blocked":
                by = replace(self._request_run(resource_id, part.before), attached=True)
                self.batch.blocked.append(WaitingForOtherRun(by, target))
            else:
                self.batch.waiting.append(self._request_run(resource_id, part.life))
        self._wait()

    # Disturbances.

    @rule(number=st.integers(1, 4), seconds=st.sampled_from([0.5, 15.0, 45.0]))
    def delay_process(self, number: int, seconds: float) -> None:
        """Advance the clock when the code reads it for the n-th time, as if the process was suspended."""
        self.suspended = [0.0] * (number - 1) + [seconds]

    @rule(seconds=st.sampled_from([0.2, 12.0, 150.0]))
    def oversleep_next_pause(self, seconds: float) -> None:
        self.oversleep = seconds

    @rule(part=st.sampled_from([0.0, 0.5, 1.0]), moved=st.booleans())
    def restart_triggerer(self, part: float, *, moved: bool) -> None:
        """Restart in the next pause, with the current batch or (as in Airflow) with the batch of the deferral."""
        self.restart_after = (part, moved)

    # Answers.

    @precondition(lambda self: self.steps is not None)
    @rule(lag=st.sampled_from([*[0.0] * 5, 2.0, 30.0, 1000.0]), latency=st.sampled_from([0.0, 0.0, 1.0, 25.0]))
    def answer_poll(self, lag: float, latency: float) -> None:
        """Answer with a lag of a replica and a latency of the network."""
        self._answer(lag, latency)

    @precondition(lambda self: self.steps is not None)
    @rule(error=st.sampled_from(ERRORS * 2 + GONE), latency=st.sampled_from([0.0, 0.0, 25.0]), times=st.integers(1, 4))
    def fail_polls(self, error: DatapipeError, latency: float, times: int) -> None:
        for _ in range(times):
            if self.steps is not None:
                self.now += latency
                self._fail(error)

    def teardown(self) -> None:
        """With consistent answers from now on, the wait ends in bounded time and with a bounded number of polls."""
        if self.steps is None:
            return
        self.suspended, self.oversleep, self.restart_after = [], 0.0, None
        begun, polls = self.now, self.polls.total()
        limits = self.policy.contact_limit + self.policy.schedule_limit + 2 * MISSING + 5 * POLL
        longest = sum(part.life.span + part.before.span + 2 * limits for part in self.parts.values())
        # The wait for a run that never ends lasts until the deadline.
        longest += 0.0 if self.deadline is None else max(0.0, self.deadline - begun)
        while self.steps is not None:
            assert self.polls.total() - polls < len(self.parts) * longest / POLL, "too many polls"
            if self.finale == "down":
                self._fail(TransportError("down", sent=False))
            elif self.finale == "gone" and not _is_list_of_all(self.request):
                self._fail(GONE[0])
            else:
                self._answer(0.0, 0.0, absent=self.finale == "absent")
        assert self.now <= begun + longest
        if self.deadline is not None:
            # In a backoff of the connection, waits end without a last poll.
            assert self.now <= max(begun, self.deadline) + GRACE + SWEEP + NEARLY
        if self.finale == "down":
            # The next poll may be a whole interval later.
            assert self.now <= begun + max(POLL, self.policy.contact_limit) + 2 * SWEEP + NEARLY

    # Driver of the tested code.

    def _answer(self, lag: float, latency: float, *, absent: bool = False) -> None:
        request = self.request
        at = self.now - lag
        if _is_list_of_all(request):
            self.now += latency
            listed = self.world.show_all(at)
            answer = {"data": [json.loads(run.answer.model_dump_json()) for run in listed.values()], "has_more": False}
            self._go(answer, {name: listed.get(name, UNLISTED) for name in self._polled_runs()})
            return
        resource_id = self.world.resource_of(request)
        if self.kind.name == "transform":
            # An earlier publication of the transform would be visible before the tested one.
            at = max(at, self.world.begun[resource_id][0])
        self.now += latency
        try:
            shown = self.world.show(request, at)
        except NotFoundError as error:
            self._fail(error)
            return
        if absent and isinstance(shown.answer, Page):
            shown = Shown(Page(data=(), has_more=False), absent=True)
        self._go(shown.answer, {resource_id: shown})

    def _fail(self, error: DatapipeError) -> None:
        self._go(None, dict.fromkeys(self._polled_runs(), error), error)

    def _polled_runs(self) -> list[str]:
        """Return the runs that a request is for. A list excludes runs that are polled directly at that time."""
        asked = [watch.reference.resource_id for watch in _Recorded.last.run_waits]
        assert set(asked) <= set(self.expected)
        if not _is_list_of_all(self.request):
            assert asked == [self.world.resource_of(self.request)]
        return asked

    def _reset_connection(self) -> None:
        """Start with a connection without failures."""
        self.failures, self.backoff_until = 0, 0.0

    def _clock(self) -> float:
        self.now += self.suspended.pop(0) if self.suspended else 0.0
        self.readings.append(self.now)
        return self.now

    def _request_run(self, resource_id: str, life: Life) -> RunRef:
        """Return the reference of a run that was just requested."""
        self.world.begin(resource_id, life, self.now)
        if self.kind.name in ("elt_stream", "reverse_etl"):
            target = RunTarget(resource_id, resource_id)
            awaited = self.kind.awaited(target, self.world.old(resource_id))
            assert awaited is not None
            assert awaited.status_url is not None
            return self.kind.accepted(target, RunRequested(status_url=awaited.status_url)).reference
        run_id = self.world.last_run(resource_id) if self.kind.name == "orchestration" else None
        return RunRef(self.kind.name, resource_id, resource_id, run_id=run_id)

    def _wait(self) -> None:
        """Start queued runs like a resumed task, then defer."""
        while not self.batch.is_over:
            while self.batch.has_room:
                resource_id = self.batch.queued.pop(0).resource_id
                self.expected.pop(resource_id, None)
                self.batch.waiting.append(self._request_run(resource_id, self.parts[resource_id].life))
            self.deferred = json.dumps(self.batch.as_dict()), dict(self._absences())
            self._start()
            if self.steps is not None:
                return
        self.steps = None
        assert set(self.ends) == set(self.parts)

    def _absences(self) -> dict[str, float | None]:
        return {resource_id: each.absent_since for resource_id, each in self.expected.items()}

    def _start(self, absences: dict[str, float | None] | None = None) -> None:
        absences = self._absences() if absences is None else absences
        under_way = [each.resource_id for each in self.batch.waiting]
        under_way += [each.by.resource_id for each in self.batch.blocked]
        self.steps = wait_for_some(self.batch, self.policy, self._clock)
        self.readings = []
        self.polled: dict[str, Shown | DatapipeError] = {}
        self._reset_connection()
        # The first reading of the clock is the start of the contact limit.
        retry_at = min(self.batch.poll_after or 0.0, self.now + 300.0)
        self.expected = {
            name: ExpectedWait(self.now, absences.get(name), retry_at=retry_at, failing=retry_at > self.now)
            for name in under_way
        }
        self.is_first = True
        self._advance(None, None)

    def _restart(self, *, moved: bool) -> None:
        text = json.dumps(self.batch.as_dict())
        assert Batch.from_dict(json.loads(text)) == self.batch
        absences = self._absences()
        if moved:
            text, absences = self.deferred
        self.batch = Batch.from_dict(json.loads(text))
        self.ends = {end.reference.resource_id: end for end in self.batch.ended}
        self._start(absences)

    def _go(self, answer: Any, polled: Mapping[str, Shown | DatapipeError], error: DatapipeError | None = None) -> None:
        """Deliver the response. The code continues up to its next poll or its end."""
        self.polled = dict(polled)
        self.readings = []
        self._advance(answer, error)
        if self.steps is None and not self.batch.is_over:
            self._wait()

    def _advance(self, answer: Any, error: DatapipeError | None) -> None:
        self.has_slept = False
        # A failed assertion below ends the test.
        steps, self.steps = self.steps, None
        assert steps is not None
        while True:
            try:
                with patch.object(batch_wait, "PollSchedule", _Recorded):
                    step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                self._check_ends()
                assert self.batch.has_room or self.batch.is_over
                return
            self._check_ends()
            assert not self.batch.has_room, "the wait continues although a queued run can start"
            answer = error = None
            if isinstance(step, Request):
                self._check_poll(step)
                self.request = step
                self.steps = steps
                return
            assert isinstance(step, Sleep)
            self._check_pause(step)
            if self.restart_after:
                (part, moved), self.restart_after = self.restart_after, None
                self.now += step.seconds * part
                self._restart(moved=moved)
                return
            self.now += step.seconds + self.oversleep
            self.oversleep = 0.0
            self.readings = []

    # Assertions.

    def _check_pause(self, pause: Sleep) -> None:
        assert 0 < pause.seconds <= SWEEP + NEARLY, "pauses are positive and at most one sweep interval"
        if not self.has_slept:
            # This driver cannot sweep during a request.
            self.has_slept = True
            return
        now = self.readings[0]
        if self.deadline is not None:
            assert now < self.deadline + GRACE + SWEEP + NEARLY
        for expected in self.expected.values():
            if expected.failing:
                assert now < expected.contact + max(POLL, self.policy.contact_limit) + 2 * SWEEP + NEARLY

    def _check_poll(self, request: Request[Any]) -> None:
        """Assert that this poll is due."""
        assert request.once, "the client would retry by itself"
        now = (self.readings[-1] if self.readings else self.now) + NEARLY
        assert now >= self.backoff_until, "poll during the backoff of the connection"
        if _is_list_of_all(request):
            self.polls["all"] += 1
            assert len(self.expected) > 1, "a single run is polled directly"
            assert any(self._is_due(expected, now) for expected in self.expected.values())
            return
        resource_id = self.world.resource_of(request)
        self.polls[resource_id] += 1
        expected = self.expected[resource_id]
        if self.deadline is not None:
            assert now < self.deadline + GRACE + 2 * NEARLY
        assert expected.missed or self._is_due(expected, now)
        expected.missed = False
        assert now >= expected.retry_at, "poll before Retry-After has passed"

    def _is_due(self, expected: ExpectedWait, now: float) -> bool:
        is_last = (self.deadline is not None and now >= self.deadline) or (
            expected.failing and now >= expected.contact + self.policy.contact_limit
        )
        return now >= expected.due or is_last

    def _check_ends(self) -> None:
        """Assert that each ended wait ended once and for a valid reason, and that no other wait is over."""
        places = [
            *(target.resource_id for target in self.batch.queued),
            *(reference.resource_id for reference in self.batch.waiting),
            *(each.target.resource_id for each in self.batch.blocked),
            *(end.reference.resource_id for end in self.batch.ended),
        ]
        assert sorted(places) == sorted(self.parts), "each resource is in exactly one list"
        if self.is_first:
            self.is_first = False
            for expected in self.expected.values():
                expected.contact = expected.due = self.readings[0] if self.readings else self.now
        under_way = {reference.resource_id for reference in self.batch.waiting}
        under_way |= {each.target.resource_id for each in self.batch.blocked}
        ended = {end.reference.resource_id: end for end in self.batch.ended}
        assert self.ends.items() <= ended.items(), "outcomes are final"
        new = {name: end for name, end in ended.items() if name not in self.ends}
        self.ends = ended
        queued = {target.resource_id for target in self.batch.queued}
        polled, self.polled = self.polled, {}
        freed = set(self.expected) & queued
        dues: dict[str, set[WaitOutcomeReason]] = {}
        in_vain: set[WaitOutcomeReason] = set()
        if polled:
            self._update_backoff(polled, self.readings[0])
        for name, answer in polled.items():
            dues[name] = due = self._due(name, answer, self.readings[0])
            assert not due or name not in under_way, f"{name} is over: {due}"
            assert name not in freed or due & {
                WaitOutcomeReason.RUN_OVER,
                WaitOutcomeReason.VANISHED,
                WaitOutcomeReason.NOT_SCHEDULED,
            }
            freed.discard(name)
            in_vain |= due & {WaitOutcomeReason.TIMEOUT, WaitOutcomeReason.LOST_CONTACT}
        assert not freed, "the conflicting run is still active"
        for name, end in new.items():
            if end.reason is not WaitOutcomeReason.NOT_STARTED:
                self._check_end(end)
            if dues.get(name):
                assert end.reason in dues[name] | {WaitOutcomeReason.NOT_STARTED}
            elif end.reason is WaitOutcomeReason.TIMEOUT:
                # A timeout without a last poll.
                assert self._is_late(name)
                in_vain.add(WaitOutcomeReason.TIMEOUT)
            elif end.reason is WaitOutcomeReason.LOST_CONTACT:
                assert self._has_lost_contact(name)
                in_vain.add(WaitOutcomeReason.LOST_CONTACT)
            else:
                assert end.reason is WaitOutcomeReason.NOT_STARTED
        if any(end.reason is WaitOutcomeReason.NOT_STARTED for end in new.values()):
            assert in_vain or any(self._is_late(name) or self._has_lost_contact(name) for name in self.expected)
            if in_vain != {WaitOutcomeReason.LOST_CONTACT} or self.failures:
                assert not queued
                assert not self.batch.blocked
        self.expected = {name: expected for name, expected in self.expected.items() if name in under_way}

    def _is_late(self, name: str) -> bool:
        """Return True if it is too late for a last poll."""
        if self.deadline is None:
            return False
        return self.readings[-1] + NEARLY >= self.deadline + GRACE or self._is_paused_until_after(name, self.deadline)

    def _has_lost_contact(self, name: str) -> bool:
        """Return True if the service was unreachable, or asked for a pause, until contact was lost."""
        expected = self.expected[name]
        limit = expected.contact + self.policy.contact_limit
        if self.failures and self.readings[-1] + NEARLY >= limit:
            return True
        return expected.failing and self._is_paused_until_after(name, limit)

    def _is_paused_until_after(self, name: str, limit: float) -> bool:
        """Return True if a limit had passed before the end of the pause that the service asked for."""
        return any(limit <= reading + NEARLY < self.expected[name].retry_at for reading in self.readings)

    def _update_backoff(self, polled: Mapping[str, Shown | DatapipeError], now: float) -> None:
        """Update the expected backoff of the connection."""
        answer = next(iter(polled.values()))
        if not isinstance(answer, DatapipeError) or not is_of_connection(answer):
            self._reset_connection()
            return
        self.failures += 1
        self.backoff_until = now + max(min(60.0, 2.0 ** (self.failures - 1)) / 2, requested_delay(answer) or 0.0)

    def _due(self, name: str, answer: Shown | DatapipeError, now: float) -> set[WaitOutcomeReason]:
        """Return the reasons with which the wait may end with this response; empty if it must continue."""
        expected = self.expected[name]
        if answer is UNLISTED:
            expected.missed = True
            return set()
        # The last poll before a loss of contact is early.
        due = min(now, expected.due, expected.contact + self.policy.contact_limit if expected.failing else now)
        expected.retry_at, expected.failing = now, isinstance(answer, DatapipeError)
        if isinstance(answer, DatapipeError):
            return self._due_after(answer, expected, now)
        # A late poll does not delay the next one.
        expected.due = max(now, due + POLL)
        expected.contact = now
        expected.missing_answers = 0
        since = expected.absent_since
        expected.absent_since = None if not answer.absent else now if since is None else since
        if answer.over:
            return {WaitOutcomeReason.RUN_OVER}
        if answer.absent and since is not None and now >= since + self.policy.schedule_limit:
            return {WaitOutcomeReason.NOT_SCHEDULED}
        return {WaitOutcomeReason.TIMEOUT} if self._is_at_its_deadline(now) else set()

    def _due_after(self, error: DatapipeError, expected: ExpectedWait, now: float) -> set[WaitOutcomeReason]:
        lost = {WaitOutcomeReason.LOST_CONTACT} if now >= expected.contact + self.policy.contact_limit else set()
        if _is_list_of_all(self.request):
            # The error does not concern the run, which may be polled directly.
            expected.missed = True
            return lost
        expected.due = now + POLL
        if isinstance(error, ApiError):
            if error.status in (400, 404, 410):
                return self._due_after_missing(expected, now)
            expected.retry_at += requested_delay(error) or 0
        return lost or ({WaitOutcomeReason.TIMEOUT} if self._is_at_its_deadline(now) else set())

    def _due_after_missing(self, expected: ExpectedWait, now: float) -> set[WaitOutcomeReason]:
        # The service is reachable.
        expected.contact, expected.failing = now, False
        if expected.missing_answers == 0:
            expected.missing_since = now
        expected.missing_answers += 1
        left = expected.missing_since + MISSING - now
        if expected.missing_answers >= 3 and left <= 0:
            return {WaitOutcomeReason.VANISHED}
        expected.due = now + (min(left, MISSING_PAUSE) if left > 0 else MISSING_PAUSE)
        return {WaitOutcomeReason.TIMEOUT} if self._is_at_its_deadline(now) else set()

    def _is_at_its_deadline(self, now: float) -> bool:
        return self.deadline is not None and now >= self.deadline

    def _check_end(self, end: WaitOutcome) -> None:
        """Assert that an outcome matches the run."""
        resource_id = end.reference.resource_id
        if end.reason is not WaitOutcomeReason.RUN_OVER:
            assert not end.outcome.is_over
            return
        asked, life = self.world.begun[resource_id]
        assert life.ends_as != "never"
        assert self.now >= asked + life.span
        outcome = OUTCOMES.get(life.ends_as or "", Outcome.UNKNOWN)
        if outcome is Outcome.SUCCEEDED and life.failed_rows:
            outcome = Outcome.PARTIAL
        assert end.outcome is outcome
        assert end.result is not None
        assert end.result["outcome"] == outcome
        if self.kind.name != "transform":
            assert end.result["run_id"] == end.reference.run_id == self.world.last_run(resource_id)
        if self.kind.name == "elt_stream":
            assert end.result["rows_synced"] == len(life.slices)


def _is_list_of_all(request: Request[Any]) -> bool:
    """Return True if a request lists the runs of all orchestrations."""
    return request.endpoint.name == "orchestration_runs.list" and "orchestration_id" not in dict(request.query)


TestWaiting = Waiting.TestCase
TestWaiting.settings = settings(max_examples=scaled(300), stateful_step_count=40)


@pytest.mark.parametrize("seed", range(20))
def test_two_runs_whose_list_fails_three_times_and_answers_then(seed: int) -> None:
    """One of the runs is polled directly after the third failure. The seed sets the pauses between the attempts."""
    lives = [Life(0.0, (seconds,), 0.0, "RUNNING", "COMPLETED") for seconds in (60.0, 0.0)]
    waiting = Waiting()
    random.seed(seed)
    waiting.begin(Setup("orchestration", [Part(life, "waiting", life) for life in lives]))
    waiting.fail_polls(ERRORS[0], 0.0, 3)
    waiting.teardown()
