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
from airflow_provider_datapipe.api.retry import honored
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
#: Seconds after the deadline in which a last look may still begin.
GRACE = 10.0
#: Seconds within which a wait that can't be answered is swept up.
SWEEP = 5.0
#: The grace period of a run that seems not to exist, and the shortest first pause in it.
MISSING = 40.0
MISSING_PAUSE = MISSING / 40
#: What is asserted of times, which are sums of floats.
NEARLY = 1e-6

#: Failures that leave the state of the run open.
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
#: Answers that the run does not exist. Only repeated ones over the grace period end a wait.
GONE: list[DatapipeError] = [
    NotFoundError("gone", status=404),
    InvalidRequestError("no such id", status=400),
    InvalidRequestError("gone", status=410),
]


#: The state of a run that a list does not show.
UNLISTED = Shown(None)


@dataclass
class Followed:
    """State of the wait for one run in the test, at the time at which the code read the clock."""

    contact: float
    absent_since: float | None = None
    #: When the next look is due at the earliest, which is counted from when the last one was.
    due: float = 0.0
    asked_for: float = 0.0
    #: Whether a list that should show it did not, so that it may be looked at itself at once.
    missed: bool = False
    failing: bool = False
    #: Answers in a row that the run does not exist, and the time of the first one.
    missing_answers: int = 0
    missing_since: float = 0.0


class _Recorded(PollSchedule):
    """Keeps the last look: whom a request is for can't be seen from the request."""

    last: ClassVar[PollRequest]

    @override
    def next(self, now: float) -> PollRequest | None:
        poll = super().next(now)
        if poll is not None:
            _Recorded.last = poll
        return poll


class Waiting(RuleBasedStateMachine):
    """A batch that is waited for; each rule answers one look, or disturbs the pause before the next one."""

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
        self.followed: dict[str, Followed] = {}
        self.ends: dict[str, WaitOutcome] = {}
        self.readings: list[float] = []
        self.schedule: Counter[str] = Counter()
        self.suspended: list[float] = []
        self.oversleep = 0.0
        self.restart_after: tuple[float, bool] | None = None
        self._meet()
        for resource_id, part in self.parts.items():
            target = RunTarget(resource_id, resource_id)
            if part.place == "queued":
                self.batch.queued.append(target)
            elif part.place == "blocked":
                by = replace(self._asked_for(resource_id, part.before), attached=True)
                self.batch.blocked.append(WaitingForOtherRun(by, target))
            else:
                self.batch.waiting.append(self._asked_for(resource_id, part.life))
        self._wait()

    # What disturbs.

    @rule(number=st.integers(1, 4), seconds=st.sampled_from([0.5, 15.0, 45.0]))
    def the_process_is_held_up(self, number: int, seconds: float) -> None:
        """Some time passes between two instructions of the code: where it reads the clock for the n-th time."""
        self.suspended = [0.0] * (number - 1) + [seconds]

    @rule(seconds=st.sampled_from([0.2, 12.0, 150.0]))
    def it_sleeps_longer_than_asked(self, seconds: float) -> None:
        self.oversleep = seconds

    @rule(part=st.sampled_from([0.0, 0.5, 1.0]), moved=st.booleans())
    def the_triggerer_restarts(self, part: float, *, moved: bool) -> None:
        """In the next pause: with the batch as it then stands, or, as Airflow does, as it was when it was deferred."""
        self.restart_after = (part, moved)

    # What is answered.

    @precondition(lambda self: self.steps is not None)
    @rule(lag=st.sampled_from([*[0.0] * 5, 2.0, 30.0, 1000.0]), latency=st.sampled_from([0.0, 0.0, 1.0, 25.0]))
    def it_is_answered(self, lag: float, latency: float) -> None:
        """By a replica that may lag behind, over a line that may be slow."""
        self._answer(lag, latency)

    @precondition(lambda self: self.steps is not None)
    @rule(error=st.sampled_from(ERRORS * 2 + GONE), latency=st.sampled_from([0.0, 0.0, 25.0]), times=st.integers(1, 4))
    def it_fails(self, error: DatapipeError, latency: float, times: int) -> None:
        for _ in range(times):
            if self.steps is not None:
                self.now += latency
                self._fail(error)

    def teardown(self) -> None:
        """From now on the service is of one mind: the wait ends, in bounded time and with a bounded number of looks."""
        if self.steps is None:
            return
        self.suspended, self.oversleep, self.restart_after = [], 0.0, None
        begun, schedule = self.now, self.schedule.total()
        limits = self.policy.contact_limit + self.policy.schedule_limit + 2 * MISSING + 5 * POLL
        longest = sum(part.life.span + part.before.span + 2 * limits for part in self.parts.values())
        # A run that goes on for ever is waited for until then.
        longest += 0.0 if self.deadline is None else max(0.0, self.deadline - begun)
        while self.steps is not None:
            assert self.schedule.total() - schedule < len(self.parts) * longest / POLL, "there is no end of it"
            if self.finale == "down":
                self._fail(TransportError("down", sent=False))
            elif self.finale == "gone" and not _is_list_of_all(self.request):
                self._fail(GONE[0])
            else:
                self._answer(0.0, 0.0, absent=self.finale == "absent")
        assert self.now <= begun + longest
        if self.deadline is not None:
            # Where the connection rests at that moment, nobody gets a last look.
            assert self.now <= max(begun, self.deadline) + GRACE + SWEEP + NEARLY
        if self.finale == "down":
            # The next look may be as far away as the interval.
            assert self.now <= begun + max(POLL, self.policy.contact_limit) + 2 * SWEEP + NEARLY

    # The driver.

    def _answer(self, lag: float, latency: float, *, absent: bool = False) -> None:
        request = self.request
        at = self.now - lag
        if _is_list_of_all(request):
            self.now += latency
            listed = self.world.show_all(at)
            answer = {
                "data": [json.loads(shown.answer.model_dump_json()) for shown in listed.values()],
                "has_more": False,
            }
            self._go(answer, {name: listed.get(name, UNLISTED) for name in self._asked_about()})
            return
        resource_id = self.world.resource_of(request)
        if self.kind.name == "transform":
            # A transform that was published before shows the state of that publication until this one is seen.
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
        self._go(None, dict.fromkeys(self._asked_about(), error), error)

    def _asked_about(self) -> list[str]:
        """Return the runs of a request: a list is not for runs that are polled directly at that time."""
        asked = [watch.reference.resource_id for watch in _Recorded.last.watches]
        assert set(asked) <= set(self.followed)
        if not _is_list_of_all(self.request):
            assert asked == [self.world.resource_of(self.request)]
        return asked

    def _meet(self) -> None:
        """Begin with a connection of which nothing bad is known."""
        self.failures, self.rests_until = 0, 0.0

    def _clock(self) -> float:
        self.now += self.suspended.pop(0) if self.suspended else 0.0
        self.readings.append(self.now)
        return self.now

    def _asked_for(self, resource_id: str, life: Life) -> RunRef:
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
        """Start what there is room for, as a resumed task does, then defer."""
        while not self.batch.is_over:
            while self.batch.has_room:
                resource_id = self.batch.queued.pop(0).resource_id
                self.followed.pop(resource_id, None)
                self.batch.waiting.append(self._asked_for(resource_id, self.parts[resource_id].life))
            self.deferred = json.dumps(self.batch.as_dict()), dict(self._absences())
            self._start()
            if self.steps is not None:
                return
        self.steps = None
        assert set(self.ends) == set(self.parts)

    def _absences(self) -> dict[str, float | None]:
        return {resource_id: each.absent_since for resource_id, each in self.followed.items()}

    def _start(self, absences: dict[str, float | None] | None = None) -> None:
        absences = self._absences() if absences is None else absences
        under_way = [each.resource_id for each in self.batch.waiting]
        under_way += [each.by.resource_id for each in self.batch.blocked]
        self.steps = wait_for_some(self.batch, self.policy, self._clock)
        self.readings = []
        self.polled: dict[str, Shown | DatapipeError] = {}
        self._meet()
        # Its first reading of the clock is where contact begins.
        asked_for = min(self.batch.poll_after or 0.0, self.now + 300.0)
        self.followed = {
            name: Followed(self.now, absences.get(name), asked_for=asked_for, failing=asked_for > self.now)
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
        """Deliver the response to the code, which continues up to its next poll or its end."""
        self.polled = dict(polled)
        self.readings = []
        self._advance(answer, error)
        if self.steps is None and not self.batch.is_over:
            self._wait()

    def _advance(self, answer: Any, error: DatapipeError | None) -> None:
        self.has_slept = False
        # Whatever is found wrong below is the end of the test.
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
            assert not self.batch.has_room, "something could be started instead"
            answer = error = None
            if isinstance(step, Request):
                self._check_look(step)
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

    # What holds.

    def _check_pause(self, pause: Sleep) -> None:
        assert 0 < pause.seconds <= SWEEP + NEARLY, "no sleep takes less than no time, and none is longer than a sweep"
        if not self.has_slept:
            # While a request is under way, this driver can't sweep.
            self.has_slept = True
            return
        now = self.readings[0]
        if self.deadline is not None:
            assert now < self.deadline + GRACE + SWEEP + NEARLY
        for followed in self.followed.values():
            if followed.failing:
                assert now < followed.contact + max(POLL, self.policy.contact_limit) + 2 * SWEEP + NEARLY

    def _check_look(self, request: Request[Any]) -> None:
        """Assert that it is time for this look."""
        assert request.once, "the client would look again by itself"
        now = (self.readings[-1] if self.readings else self.now) + NEARLY
        assert now >= self.rests_until, "the whole connection rests"
        if _is_list_of_all(request):
            self.schedule["all"] += 1
            assert len(self.followed) > 1, "one alone is looked at itself"
            assert any(self._is_due(followed, now) for followed in self.followed.values())
            return
        resource_id = self.world.resource_of(request)
        self.schedule[resource_id] += 1
        followed = self.followed[resource_id]
        if self.deadline is not None:
            assert now < self.deadline + GRACE + 2 * NEARLY
        assert followed.missed or self._is_due(followed, now)
        followed.missed = False
        assert now >= followed.asked_for, "it said when to come back"

    def _is_due(self, followed: Followed, now: float) -> bool:
        is_last = (self.deadline is not None and now >= self.deadline) or (
            followed.failing and now >= followed.contact + self.policy.contact_limit
        )
        return now >= followed.due or is_last

    def _check_ends(self) -> None:
        """Assert that what has ended has ended by right, once, and that nothing else is over."""
        places = [
            *(target.resource_id for target in self.batch.queued),
            *(reference.resource_id for reference in self.batch.waiting),
            *(each.target.resource_id for each in self.batch.blocked),
            *(end.reference.resource_id for end in self.batch.ended),
        ]
        assert sorted(places) == sorted(self.parts), "each is in one place"
        if self.is_first:
            self.is_first = False
            for followed in self.followed.values():
                followed.contact = followed.due = self.readings[0] if self.readings else self.now
        under_way = {reference.resource_id for reference in self.batch.waiting}
        under_way |= {each.target.resource_id for each in self.batch.blocked}
        ended = {end.reference.resource_id: end for end in self.batch.ended}
        assert self.ends.items() <= ended.items(), "an end is the end"
        new = {name: end for name, end in ended.items() if name not in self.ends}
        self.ends = ended
        queued = {target.resource_id for target in self.batch.queued}
        polled, self.polled = self.polled, {}
        freed = set(self.followed) & queued
        dues: dict[str, set[WaitOutcomeReason]] = {}
        in_vain: set[WaitOutcomeReason] = set()
        if polled:
            self._note_contact(polled, self.readings[0])
        for name, said in polled.items():
            dues[name] = due = self._due(name, said, self.readings[0])
            assert not due or name not in under_way, f"{name} is over: {due}"
            assert name not in freed or due & {
                WaitOutcomeReason.RUN_OVER,
                WaitOutcomeReason.VANISHED,
                WaitOutcomeReason.NOT_SCHEDULED,
            }
            freed.discard(name)
            in_vain |= due & {WaitOutcomeReason.TIMEOUT, WaitOutcomeReason.LOST_CONTACT}
        assert not freed, "the way is not free yet"
        for name, end in new.items():
            if end.reason is not WaitOutcomeReason.NOT_STARTED:
                self._check_end(end)
            if dues.get(name):
                assert end.reason in dues[name] | {WaitOutcomeReason.NOT_STARTED}
            elif end.reason is WaitOutcomeReason.TIMEOUT:
                # Without a last look.
                assert self._is_late(name)
                in_vain.add(WaitOutcomeReason.TIMEOUT)
            elif end.reason is WaitOutcomeReason.LOST_CONTACT:
                assert self._is_shut_out(name)
                in_vain.add(WaitOutcomeReason.LOST_CONTACT)
            else:
                assert end.reason is WaitOutcomeReason.NOT_STARTED
        if any(end.reason is WaitOutcomeReason.NOT_STARTED for end in new.values()):
            assert in_vain or any(self._is_late(name) or self._is_shut_out(name) for name in self.followed)
            assert not queued
            assert not self.batch.blocked
        self.followed = {name: followed for name, followed in self.followed.items() if name in under_way}

    def _is_late(self, name: str) -> bool:
        """Return True if it is too late for a last poll."""
        if self.deadline is None:
            return False
        return self.readings[-1] + NEARLY >= self.deadline + GRACE or self._is_kept_off(name, self.deadline)

    def _is_shut_out(self, name: str) -> bool:
        """Return True if the service was unreachable, or asked for a pause, until contact was lost."""
        followed = self.followed[name]
        limit = followed.contact + self.policy.contact_limit
        if self.failures and self.readings[-1] + NEARLY >= limit:
            return True
        return followed.failing and self._is_kept_off(name, limit)

    def _is_kept_off(self, name: str, limit: float) -> bool:
        """Return True if a limit had passed before the end of the pause that the service asked for."""
        return any(limit <= reading + NEARLY < self.followed[name].asked_for for reading in self.readings)

    def _note_contact(self, polled: Mapping[str, Shown | DatapipeError], now: float) -> None:
        """Note what the answer says about the connection: how long nothing may be asked."""
        said = next(iter(polled.values()))
        if not isinstance(said, DatapipeError) or not is_of_connection(said):
            self._meet()
            return
        self.failures += 1
        self.rests_until = now + max(min(60.0, 2.0 ** (self.failures - 1)) / 2, honored(said) or 0.0)

    def _due(self, name: str, said: Shown | DatapipeError, now: float) -> set[WaitOutcomeReason]:
        """Return the reasons with which the wait may end with this response; empty if it must continue."""
        followed = self.followed[name]
        if said is UNLISTED:
            followed.missed = True
            return set()
        # The last look before contact is lost comes early.
        due = min(now, followed.due, followed.contact + self.policy.contact_limit if followed.failing else now)
        followed.asked_for, followed.failing = now, isinstance(said, DatapipeError)
        if isinstance(said, DatapipeError):
            return self._due_after(said, followed, now)
        # Where a look was late, the next one need not be.
        followed.due = max(now, due + POLL)
        followed.contact = now
        followed.missing_answers = 0
        since = followed.absent_since
        followed.absent_since = None if not said.absent else now if since is None else since
        if said.over:
            return {WaitOutcomeReason.RUN_OVER}
        if said.absent and since is not None and now >= since + self.policy.schedule_limit:
            return {WaitOutcomeReason.NOT_SCHEDULED}
        return {WaitOutcomeReason.TIMEOUT} if self._is_at_its_deadline(now) else set()

    def _due_after(self, error: DatapipeError, followed: Followed, now: float) -> set[WaitOutcomeReason]:
        lost = {WaitOutcomeReason.LOST_CONTACT} if now >= followed.contact + self.policy.contact_limit else set()
        if _is_list_of_all(self.request):
            # It says nothing of the run, which may be looked at itself.
            followed.missed = True
            return lost
        followed.due = now + POLL
        if isinstance(error, ApiError):
            if error.status in (400, 404, 410):
                return self._due_after_missing(followed, now)
            followed.asked_for += honored(error) or 0
        return lost or ({WaitOutcomeReason.TIMEOUT} if self._is_at_its_deadline(now) else set())

    def _due_after_missing(self, followed: Followed, now: float) -> set[WaitOutcomeReason]:
        # The service can be reached.
        followed.contact, followed.failing = now, False
        if followed.missing_answers == 0:
            followed.missing_since = now
        followed.missing_answers += 1
        left = followed.missing_since + MISSING - now
        if followed.missing_answers >= 3 and left <= 0:
            return {WaitOutcomeReason.VANISHED}
        followed.due = now + (min(left, MISSING_PAUSE) if left > 0 else MISSING_PAUSE)
        return {WaitOutcomeReason.TIMEOUT} if self._is_at_its_deadline(now) else set()

    def _is_at_its_deadline(self, now: float) -> bool:
        return self.deadline is not None and now >= self.deadline

    def _check_end(self, end: WaitOutcome) -> None:
        """Assert that an end says what became of the run."""
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
    """One of the runs is polled by itself after the third failure. The seed sets the pauses between the attempts."""
    lives = [Life(0.0, (seconds,), 0.0, "RUNNING", "COMPLETED") for seconds in (60.0, 0.0)]
    waiting = Waiting()
    random.seed(seed)
    waiting.begin(Setup("orchestration", [Part(life, "waiting", life) for life in lives]))
    waiting.it_fails(ERRORS[0], 0.0, 3)
    waiting.teardown()
