"""Order and number of polls for many runs, with a simulated clock."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from airflow_provider_datapipe.api.errors import DatapipeError, RequestTimeoutError, TransportError
from airflow_provider_datapipe.api.request_attempts import RequestAttempts, ResponseHead
from airflow_provider_datapipe.api.retry import LONGEST_RETRY_AFTER
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.poll_schedule import PollRequest, PollSchedule, WaitOutcomes
from airflow_provider_datapipe.runs.wait import RunWait, WaitOutcome, WaitOutcomeReason, WaitPolicy
from tests.support.examples import scaled
from tests.support.many_runs import ManyRuns, ReceivedRequest, Run
from tests.support.responses import LONG_AGO
from tests.support.scripted_server import Reply
from tests.unit.runs.many_waits import many, orchestration, references, reverse_etl, stream

START = 1_000_000.0
SETTINGS = Settings("https://api.example.com", "k")
EVERY_5 = WaitPolicy(poll_interval=5.0)


def path_of(poll: PollRequest) -> str:
    query = "&".join(f"{name}={value}" for name, value in poll.request.query)
    return f"{poll.request.path}?{query}" if query else poll.request.path


def deliver(schedule: PollSchedule, poll: PollRequest, reply: Reply | DatapipeError, now: float) -> WaitOutcomes:
    """Deliver a response that is parsed like in the clients."""
    try:
        if isinstance(reply, DatapipeError):
            raise reply
        exchange = RequestAttempts(SETTINGS, poll.request)
        exchange.attempt()
        answer = exchange.received(
            ResponseHead(reply.status, HTTPStatus(reply.status).phrase, reply.headers), reply.encoded()
        )
    except DatapipeError as error:
        return schedule.failed(poll, error, now)
    return schedule.answered(poll, answer, now)


@dataclass
class Simulation:
    """
    Polls of a service, in simulated time.

    :param service: the service.
    :param most: limit of concurrent requests.
    :param latency: seconds per response.
    :param hangs: path prefixes without a response. Requests for them fail after a minute.
    """

    service: ManyRuns
    most: int = 16
    latency: float = 0.05
    hangs: tuple[str, ...] = ()
    now: float = START
    ends: dict[str, tuple[WaitOutcome, float]] = field(default_factory=dict)
    most_under_way: int = 0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        self.schedule = PollSchedule(self.most, lambda: self.jitter)
        self.run_waits: dict[RunWait, str] = {}
        self._answers: list[tuple[float, int, PollRequest, float]] = []
        self._numbers = itertools.count()

    def wait(self, reference: RunRef, policy: WaitPolicy = EVERY_5) -> RunWait:
        watch = RunWait(reference, policy, self.now, lambda: self.jitter)
        self.run_waits[watch] = f"{reference.run_id}#{len(self.run_waits)}"
        self.schedule.add(watch)
        return watch

    def run(self, seconds: float) -> None:
        """Advance the clock."""
        until = self.now + seconds
        while True:
            self._take(self.schedule.overdue(self.now))
            while (poll := self.schedule.next(self.now)) is not None:
                self._send(poll)
            wake = self.schedule.wake_at(self.now) if self.schedule.next(self.now) is None else self.now
            at = min(max(wake, self.now + 0.001), self._answers[0][0] if self._answers else math.inf)
            if at > until:
                self.now = until
                return
            self.now = at
            while self._answers and self._answers[0][0] <= self.now:
                self._receive(*heapq.heappop(self._answers)[2:])

    def _send(self, poll: PollRequest) -> None:
        assert poll.request.once
        hangs = self.hangs and poll.request.path.startswith(self.hangs)
        heapq.heappush(self._answers, (self.now + (60 if hangs else self.latency), next(self._numbers), poll, self.now))
        self.most_under_way = max(self.most_under_way, len(self._answers))

    def _receive(self, poll: PollRequest, sent_at: float) -> None:
        path = path_of(poll)
        reply: Reply | DatapipeError
        if self.hangs and path.startswith(self.hangs):
            self.service.asked.append(ReceivedRequest(path, sent_at))
            reply = RequestTimeoutError("no answer", sent=True)
        else:
            reply = self.service.answer(path, sent_at)
        self._take(deliver(self.schedule, poll, reply, self.now))

    def _take(self, ends: list[tuple[RunWait, WaitOutcome]]) -> None:
        for watch, end in ends:
            name = self.run_waits[watch]
            assert name not in self.ends, "one end each"
            self.ends[name] = end, self.now
            if end.reason is WaitOutcomeReason.RUN_OVER and watch.reference.kind == "elt_stream":
                sync_id, _, stream_id = str(watch.reference.run_id).partition(".")
                assert self.now >= self.service.streams[sync_id][stream_id].ends_at, "no false end"


def waiting(
    ends_after: float, policy: WaitPolicy = EVERY_5, *, most: int = 16, latency: float = 0.05, **counts: int
) -> Simulation:
    """Return a simulation with a wait for each run of a service."""
    simulation = Simulation(many(START, ends_after, **counts), most, latency)
    for reference in references(simulation.service):
        simulation.wait(reference, policy)
    return simulation


def longest_delay(simulation: Simulation) -> float:
    """Return the longest delay between the end of a stream run and its detection. All waits must have ended."""
    assert len(simulation.ends) == len(simulation.run_waits)
    delays = []
    for name, (end, at) in simulation.ends.items():
        assert end.reason is WaitOutcomeReason.RUN_OVER
        sync_id, _, stream_id = name.partition("#")[0].partition(".")
        delays.append(at - simulation.service.streams[sync_id][stream_id].ends_at)
    return max(delays)


# Few requests.


def test_several_waits_for_one_run_are_one_request() -> None:
    simulation = Simulation(many(START, 50, reverse_etl=1))
    for _ in range(7):
        simulation.wait(reverse_etl("r0"))
    simulation.run(60)
    assert len(simulation.ends) == 7
    # At 0, 5 ... 50 s.
    assert simulation.service.per_path == {"/reverse_etl_sync_runs/r0": 11}


def test_a_frequent_wait_is_not_delayed_by_a_rare_one() -> None:
    simulation = Simulation(many(START, 100, reverse_etl=1))
    for seconds in (60.0, 5.0):
        simulation.wait(reverse_etl("r0"), WaitPolicy(poll_interval=seconds))
    simulation.run(99)
    assert simulation.service.count() == 20


def test_the_streams_of_a_sync_share_one_request() -> None:
    simulation = waiting(600, streams=100)
    simulation.run(700)
    assert longest_delay(simulation) <= 6
    shared = simulation.service.count("/elt_syncs/y/status")
    each = Counter(asked.path for asked in simulation.service.asked if asked.path.startswith("/elt_stream_runs/"))
    assert 600 / 5 <= shared <= 600 / 5 + 3
    # The first poll, the last poll, and a direct poll every 2 minutes.
    assert max(each.values()) <= 2 + 600 / 120


def test_single_stream_of_a_sync_is_polled_directly() -> None:
    simulation = waiting(50, streams=1)
    simulation.run(60)
    assert simulation.service.per_path == {"/elt_stream_runs/y.s0": 11}


def test_runs_of_orchestrations_share_one_list_of_several_pages() -> None:
    simulation = waiting(100, orchestrations=250)
    simulation.run(110)
    assert len(simulation.ends) == 250
    assert all(end.outcome is Outcome.SUCCEEDED for end, _ in simulation.ends.values())
    # Three pages at 0, 5 ... 100 s, and no direct poll of a run.
    assert simulation.service.count("/orchestration_runs") == 3 * 21
    assert simulation.service.count("/orchestration_runs/") == 0


def test_run_far_down_the_list_is_polled_directly() -> None:
    simulation = Simulation(many(START, 100, orchestrations=5000))
    for run_id in ("o1", "o2", "o4999"):
        simulation.wait(orchestration(run_id))
    simulation.run(200)
    assert len(simulation.ends) == 3
    # The list is no longer requested for a run that several responses in a row omitted.
    assert simulation.service.count("/orchestration_runs?") <= 21
    assert simulation.service.count("/orchestration_runs/o4999") <= 21 + 3


def test_concurrent_requests_are_limited() -> None:
    simulation = waiting(300, most=4, latency=1.0, reverse_etl=500)
    simulation.run(60)
    assert simulation.most_under_way == 4
    assert simulation.service.count() >= 4 * 58


# Unreliable status.


Status = dict[str, Any]
NUMBERS = itertools.count()


def each_stream(change: Callable[[Status], Status]) -> Callable[[Status], Status]:
    return lambda status: status | {"source_streams": [change(each) for each in status["source_streams"]]}


WRONG_STATUSES: dict[str, Callable[[Status], Status]] = {
    "always the same": each_stream(
        lambda each: {"name": each["name"], "active_sync": {"status": "RUNNING", "started_at": LONG_AGO}}
    ),
    "over too early": each_stream(
        lambda each: {"name": each["name"], "latest_sync": {"status": "COMPLETED", "finished_at": LONG_AGO}}
    ),
    "without some": lambda status: status | {"source_streams": status["source_streams"][::2]},
    "of one name": each_stream(lambda each: each | {"name": "s0"}),
    "without names": each_stream(lambda each: {key: value for key, value in each.items() if key != "name"}),
    "of other names": each_stream(lambda each: each | {"name": each["name"] + "!"}),
    "empty": lambda status: status | {"source_streams": []},
    "changing all the time": each_stream(
        lambda each: {"name": each["name"], "active_sync": {"status": str(next(NUMBERS))}}
    ),
}


@pytest.mark.parametrize("kind", WRONG_STATUSES)
def test_a_wrong_status_causes_no_false_end_and_no_endless_wait(kind: str) -> None:
    simulation = waiting(400, streams=6)
    simulation.service.forge = WRONG_STATUSES[kind]
    simulation.run(700)
    # A recognizably useless status causes no delay. A plausible but wrong one is corrected by the next direct poll.
    assert longest_delay(simulation) <= (245 if kind in ("always the same", "over too early") else 6)
    # At most the requests of direct polls of all runs, and those for the status.
    assert simulation.service.count() <= 7 * 700 / 5


@pytest.mark.parametrize(("status_lag", "run_lag", "most"), [(30, 0, 36), (0, 2, 8), (0, 12, 18)])
def test_lags_of_the_status_and_of_the_runs_delay_a_wait(status_lag: float, run_lag: float, most: float) -> None:
    """If the runs lag, the status shows that a run has ended while the run itself seems to be active."""
    simulation = waiting(400, streams=6)
    simulation.service.status_lag, simulation.service.run_lag = status_lag, run_lag
    simulation.run(500)
    assert longest_delay(simulation) <= most


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, {}),
        Reply(403, {}),
        Reply(500, {}),
        Reply(200, b"<html>"),
        Reply(200, {"source_streams": None}),
        Reply(200, {"source_streams": [{"name": 7}]}),
        Reply(302, {}),
        Reply(500, {}, {"retry-after": "3600"}),
    ],
    ids=["404", "403", "500", "html", "null", "number", "redirect", "500 for an hour"],
)
def test_failing_status_causes_no_delay(reply: Reply) -> None:
    simulation = waiting(400, streams=6)
    simulation.service.fault = lambda path, now: reply if path.startswith("/elt_syncs") else None
    simulation.run(500)
    assert longest_delay(simulation) <= 6
    at = [asked.at for asked in simulation.service.asked if asked.path.startswith("/elt_syncs")]
    # The status is requested less and less often, and not before its Retry-After has passed.
    assert len(at) <= 500 / 60 + 8
    if "retry-after" in reply.headers:
        assert all(later - earlier >= LONGEST_RETRY_AFTER for earlier, later in itertools.pairwise(at))


@pytest.mark.parametrize("how", ["503", "no answer"])
def test_a_status_that_fails_like_an_outage_ends_no_wait(how: str) -> None:
    """A gateway times out for the slow status request, but the runs can be polled directly."""
    simulation = waiting(4000, streams=6)
    if how == "503":
        simulation.service.fault = lambda path, now: Reply(503) if path.startswith("/elt_syncs") else None
    else:
        simulation.service.answer("/elt_syncs", START)
        simulation.hangs = ("/elt_syncs",)
    simulation.run(5000)
    assert longest_delay(simulation) <= 130


# Failures of the whole connection.


def outage(begin: float, end: float, reply: Reply) -> Any:
    return lambda path, now: reply if START + begin <= now < START + end else None


@pytest.mark.parametrize("count", [1, 10, 100])
def test_requests_in_an_outage_do_not_depend_on_number_of_waits(count: int) -> None:
    simulation = waiting(2000, reverse_etl=count)
    simulation.run(30)
    simulation.service.fault = outage(30, 630, Reply(503))
    simulation.run(600)
    # The active requests fail. Then one request at a time, after 0.75, 1.5, 3 ... 45 s.
    assert simulation.service.count(since=START + 30) <= 16 + 6 + 600 / 45 + 2
    assert not simulation.ends


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("status", [503, 401, 429])
def test_all_waits_continue_soon_after_an_outage(count: int, status: int) -> None:
    """The backoff is at most a minute, for any number of waits and failures."""
    simulation = waiting(700, reverse_etl=count)
    simulation.run(30)
    simulation.service.fault = outage(30, 1200, Reply(status))
    simulation.run(1170)
    assert not simulation.ends
    simulation.run(75)
    assert len(simulation.ends) == count


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_applies_to_all_waits_of_a_connection(status: int) -> None:
    simulation = waiting(1000, latency=0.5, reverse_etl=50)
    simulation.run(20)
    # One request is refused. The requests sent with it succeed.
    reported = iter([Reply(status, {}, {"retry-after": "120"})])
    simulation.service.fault = lambda path, now: next(reported, None)
    simulation.run(20)
    refused_at = next(asked.at for asked in simulation.service.asked if asked.at >= START + 20)
    simulation.run(300)
    later = sorted(asked.at for asked in simulation.service.asked if asked.at > refused_at + simulation.latency)
    assert later[0] >= refused_at + 120
    assert len(later) > 50


def test_lost_contact_ends_all_waits_at_once() -> None:
    simulation = waiting(9000, replace(EVERY_5, contact_limit=100), reverse_etl=300)
    simulation.run(30)
    simulation.service.fault = lambda path, now: Reply(503)
    simulation.run(115)
    assert {end.reason for end, _ in simulation.ends.values()} == {WaitOutcomeReason.LOST_CONTACT}
    assert len(simulation.ends) == 300
    assert min(at for _, at in simulation.ends.values()) >= START + 125


def test_lost_contact_does_not_end_a_wait_that_is_not_due() -> None:
    """One failure of another wait does not end a wait that is polled once an hour."""
    service = many(START, 8000, reverse_etl=2)
    simulation = Simulation(service)
    simulation.wait(reverse_etl("r0"), WaitPolicy(poll_interval=3600.0))
    simulation.wait(reverse_etl("r1"))
    simulation.run(2000)
    service.fault = outage(2000, 2020, Reply(503))
    simulation.run(1000)
    assert not simulation.ends
    simulation.run(8500)
    assert [end.outcome for end, _ in simulation.ends.values()] == [Outcome.SUCCEEDED] * 2


def test_an_outage_during_a_shared_request_ends_no_wait_early() -> None:
    simulation = waiting(3000, streams=50)
    simulation.run(30)
    simulation.service.fault = outage(30, 1500, Reply(503))
    simulation.run(1470)
    assert simulation.service.count(since=START + 30) <= 60
    assert not simulation.ends
    simulation.run(1600)
    assert longest_delay(simulation) <= 6


# Limits.


@pytest.mark.parametrize("how", ["paused", "hanging", "shared and hanging"])
def test_a_deadline_holds_during_a_pause_or_a_hanging_request(how: str) -> None:
    counts = {"streams": 4} if how == "shared and hanging" else {"reverse_etl": 50}
    simulation = waiting(9000, replace(EVERY_5, deadline=START + 20), **counts)
    simulation.run(7)
    if how == "paused":
        simulation.service.fault = lambda path, now: Reply(429, {}, {"retry-after": "3000"})
    else:
        simulation.hangs = ("/",)
    simulation.run(30)
    assert {end.reason for end, _ in simulation.ends.values()} == {WaitOutcomeReason.TIMEOUT}
    assert len(simulation.ends) == len(simulation.run_waits)
    assert all(START + 20 <= at <= START + 20 + 10 + 5 for _, at in simulation.ends.values())


def test_a_run_is_polled_directly_before_its_deadline() -> None:
    """The backoff of a failing status does not prevent the last poll."""
    simulation = waiting(95, replace(EVERY_5, deadline=START + 99), streams=4)
    simulation.service.fault = lambda path, now: Reply(500) if path.startswith("/elt_syncs") else None
    simulation.run(130)
    # Not a timeout: each run was polled after its end.
    assert longest_delay(simulation) > 0


def test_each_run_is_polled_once_after_a_suspension() -> None:
    simulation = waiting(9000, reverse_etl=100)
    simulation.run(12)
    simulation.now += 300
    woken = simulation.now
    simulation.run(4.9)
    assert simulation.service.count(since=woken) == 100
    assert not simulation.ends


# Random sequences of events.


class RandomEvents(RuleBasedStateMachine):
    """Waits that are added and removed, faults of the service, and elapsed time, in any order."""

    KEYS = st.sampled_from(
        [stream(f"s{n}") for n in range(5)]
        + [stream("t0", "z")]
        + [orchestration(f"o{n}") for n in (70, 150, 160, 249, 999)]
        + [reverse_etl(f"r{n}") for n in range(3)]
    )

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.service = ManyRuns()
        self.service.streams = {
            "y": {f"s{number}": Run(START, START + 40 * number) for number in range(5)},
            "z": {"t0": Run(START, START + 10_000)},
        }
        # Several pages of the list.
        self.service.orchestrations = {f"o{number}": Run(START - number, START + number) for number in range(250)}
        self.service.reverse_etl = {f"r{number}": Run(START, START + 50 * number) for number in range(3)}
        self.schedule = PollSchedule(4, lambda: 0.5)
        self.run_waits: dict[RunWait, None] = {}
        self.under_way: list[PollRequest] = []

    @rule(reference=KEYS, every=st.sampled_from([1.0, 7.0, None]), deadline=st.sampled_from([None, 30.0, 500.0]))
    def add_wait(self, reference: RunRef, every: float | None, deadline: float | None) -> None:
        until = None if deadline is None else self.now + deadline
        watch = RunWait(reference, WaitPolicy(poll_interval=every, deadline=until, contact_limit=300.0), self.now)
        self.run_waits[watch] = None
        self.schedule.add(watch)

    @precondition(lambda self: self.run_waits)
    @rule(data=st.data())
    def remove_wait(self, data: st.DataObject) -> None:
        watch = data.draw(st.sampled_from(list(self.run_waits)))
        del self.run_waits[watch]
        self.schedule.discard(watch)

    @rule()
    def remove_all_waits(self) -> None:
        for watch in self.run_waits:
            self.schedule.discard(watch)
        self.run_waits.clear()

    @rule(seconds=st.sampled_from([0.0, 0.3, 5.0, 61.0, 400.0]))
    def advance_clock(self, seconds: float) -> None:
        self.now += seconds
        self._take(self.schedule.overdue(self.now))
        self._send()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def deliver_response(self, data: st.DataObject) -> None:
        poll = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        faults = [None, None, None, Reply(404), Reply(500), Reply(503), Reply(429, {}, {"retry-after": "20"})]
        reply = data.draw(st.sampled_from(faults)) or self.service.answer(path_of(poll), self.now)
        self._take(deliver(self.schedule, poll, reply, self.now))
        self._send()

    @precondition(lambda self: self.under_way)
    @rule()
    def lose_response(self) -> None:
        self._take(self.schedule.failed(self.under_way.pop(), TransportError("reset", sent=True), self.now))
        self._send()

    def _send(self) -> None:
        while (poll := self.schedule.next(self.now)) is not None:
            assert poll.run_waits, "poll without a wait"
            self.under_way.append(poll)
        assert not self.schedule.is_due(self.now)
        assert self.schedule.wake_at(self.now) >= self.now, "it would never sleep"

    def _take(self, ends: list[tuple[RunWait, WaitOutcome]]) -> None:
        for watch, _ in ends:
            # KeyError if a wait ends twice or after its removal.
            del self.run_waits[watch]

    @invariant()
    def concurrent_requests_are_distinct(self) -> None:
        assert len(self.under_way) <= 4
        requests = [poll.request for poll in self.under_way]
        assert len(set(requests)) == len(requests)
        assert len({poll.source for poll in self.under_way}) == len(self.under_way)

    @invariant()
    def removed_waits_leave_no_state(self) -> None:
        assert len(self.schedule) == len(self.run_waits)
        # An unneeded page is dropped when its request would be due.
        if not self.run_waits and not self.under_way and not self.schedule._next_pages:
            assert not self.schedule._sources

    def teardown(self) -> None:
        """After the service has recovered, each remaining wait is polled in bounded time."""
        for lost in self.under_way:
            self._take(self.schedule.failed(lost, TransportError("reset", sent=True), self.now))
        self.under_way.clear()
        asked: dict[RunWait, float] = {}
        until = self.now + 400
        while self.now < until and self.run_waits.keys() - asked.keys():
            self._take(self.schedule.overdue(self.now))
            poll = self.schedule.next(self.now)
            if poll is None:
                self.now = max(self.schedule.wake_at(self.now), self.now + 0.01)
                continue
            asked |= dict.fromkeys(poll.run_waits, self.now)
            self._take(deliver(self.schedule, poll, self.service.answer(path_of(poll), self.now), self.now))
        assert not self.run_waits.keys() - asked.keys(), "some waits were never polled"
        self.remove_all_waits()
        assert self.schedule.next(self.now + 10_000) is None
        assert not self.schedule._next_pages
        self.removed_waits_leave_no_state()
        assert not any(self.schedule._queues), "nothing is left"


TestRandomEvents = RandomEvents.TestCase
TestRandomEvents.settings = settings(max_examples=scaled(200), stateful_step_count=60)
