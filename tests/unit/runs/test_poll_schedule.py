"""Order and number of polls of a service with many runs, with a simulated clock."""

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
from tests.support.many_runs import Asked, ManyRuns, Run, Said
from tests.support.responses import LONG_AGO
from tests.unit.runs.many_waits import many, orchestration, references, reverse_etl, stream

START = 1_000_000.0
SETTINGS = Settings("https://api.example.com", "k")
EVERY_5 = WaitPolicy(poll_interval=5.0)


def path_of(poll: PollRequest) -> str:
    query = "&".join(f"{name}={value}" for name, value in poll.request.query)
    return f"{poll.request.path}?{query}" if query else poll.request.path


def deliver(schedule: PollSchedule, poll: PollRequest, said: Said | DatapipeError, now: float) -> WaitOutcomes:
    """Deliver a response, which is read as the clients do."""
    try:
        if isinstance(said, DatapipeError):
            raise said
        exchange = RequestAttempts(SETTINGS, poll.request)
        exchange.attempt()
        answer = exchange.received(
            ResponseHead(said.status, HTTPStatus(said.status).phrase, said.headers), said.encoded()
        )
    except DatapipeError as error:
        return schedule.failed(poll, error, now)
    return schedule.answered(poll, answer, now)


@dataclass
class Simulation:
    """
    Polls of a service, in simulated time.

    :param service: the service.
    :param most: the most requests at a time.
    :param latency: seconds per response.
    :param hangs: paths that begin so get no response. The requests fail after a minute.
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
        self.watches: dict[RunWait, str] = {}
        self._answers: list[tuple[float, int, PollRequest, float]] = []
        self._numbers = itertools.count()

    def wait(self, reference: RunRef, policy: WaitPolicy = EVERY_5) -> RunWait:
        watch = RunWait(reference, policy, self.now, lambda: self.jitter)
        self.watches[watch] = f"{reference.run_id}#{len(self.watches)}"
        self.schedule.add(watch)
        return watch

    def wait_for_all(self, policy: WaitPolicy = EVERY_5) -> None:
        for reference in references(self.service):
            self.wait(reference, policy)

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

    def end_of(self, run_id: str) -> WaitOutcome:
        (end,) = [end for name, (end, _) in self.ends.items() if name.partition("#")[0] == run_id]
        return end

    def _send(self, poll: PollRequest) -> None:
        assert poll.request.once
        hangs = self.hangs and poll.request.path.startswith(self.hangs)
        heapq.heappush(self._answers, (self.now + (60 if hangs else self.latency), next(self._numbers), poll, self.now))
        self.most_under_way = max(self.most_under_way, len(self._answers))

    def _receive(self, poll: PollRequest, sent_at: float) -> None:
        path = path_of(poll)
        said: Said | DatapipeError
        if self.hangs and path.startswith(self.hangs):
            self.service.asked.append(Asked(path, sent_at))
            said = RequestTimeoutError("no answer", sent=True)
        else:
            said = self.service.answer(path, sent_at)
        self._take(deliver(self.schedule, poll, said, self.now))

    def _take(self, ends: list[tuple[RunWait, WaitOutcome]]) -> None:
        for watch, end in ends:
            name = self.watches[watch]
            assert name not in self.ends, "one end each"
            self.ends[name] = end, self.now
            if end.reason is WaitOutcomeReason.RUN_OVER and watch.reference.kind == "elt_stream":
                sync_id, _, stream_id = str(watch.reference.run_id).partition(".")
                assert self.now >= self.service.streams[sync_id][stream_id].ends_at, "no false end"


def waiting(ends_after: float, **counts: int) -> Simulation:
    """Return a simulation with a wait for each run of a service."""
    simulation = Simulation(many(START, ends_after, **counts))
    simulation.wait_for_all()
    return simulation


def delays(simulation: Simulation) -> list[float]:
    """Return the delays with which the ends of the runs of a stream were noticed."""
    found = []
    for name, (end, at) in simulation.ends.items():
        assert end.reason is WaitOutcomeReason.RUN_OVER
        sync_id, _, stream_id = name.partition("#")[0].partition(".")
        found.append(at - simulation.service.streams[sync_id][stream_id].ends_at)
    return found


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
    assert len(delays(simulation)) == 100
    assert max(delays(simulation)) <= 6
    shared = simulation.service.count("/elt_syncs/y/status")
    each = Counter(asked.path for asked in simulation.service.asked if asked.path.startswith("/elt_stream_runs/"))
    assert 600 / 5 <= shared <= 600 / 5 + 3
    # At first, at the end, and now and then.
    assert max(each.values()) <= 2 + 600 / 120


def test_one_stream_alone_is_looked_at_itself() -> None:
    simulation = waiting(50, streams=1)
    simulation.run(60)
    assert simulation.service.per_path == {"/elt_stream_runs/y.s0": 11}


def test_runs_of_orchestrations_share_one_list_of_several_pages() -> None:
    simulation = waiting(100, orchestrations=250)
    simulation.run(110)
    assert len(simulation.ends) == 250
    assert all(end.outcome is Outcome.SUCCEEDED for end, _ in simulation.ends.values())
    # Three pages at 0, 5 ... 100 s, and no look at a single run.
    assert simulation.service.count("/orchestration_runs") == 3 * 21
    assert simulation.service.count("/orchestration_runs/") == 0


def test_a_run_that_is_far_down_the_list_is_looked_at_itself() -> None:
    simulation = Simulation(many(START, 100, orchestrations=5000))
    for run_id in ("o1", "o2", "o4999"):
        simulation.wait(orchestration(run_id))
    simulation.run(200)
    assert len(simulation.ends) == 3
    # Once it was not shown several times in a row, the list is not asked for it any more.
    assert simulation.service.count("/orchestration_runs?") <= 21
    assert simulation.service.count("/orchestration_runs/o4999") <= 21 + 3


def test_never_more_requests_than_allowed_at_a_time() -> None:
    simulation = Simulation(many(START, 300, reverse_etl=500), most=4, latency=1.0)
    simulation.wait_for_all()
    simulation.run(60)
    assert simulation.most_under_way == 4
    assert simulation.service.count() >= 4 * 58


# A status that can't be relied on.


Status = dict[str, Any]
NUMBERS = itertools.count()


def each_stream(change: Callable[[Status], Status]) -> Callable[[Status], Status]:
    return lambda status: status | {"source_streams": [change(each) for each in status["source_streams"]]}


LIES: dict[str, Callable[[Status], Status]] = {
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


@pytest.mark.parametrize("kind", LIES)
def test_a_wrong_status_causes_no_false_end_and_no_endless_wait(kind: str) -> None:
    simulation = waiting(400, streams=6)
    simulation.service.forge = LIES[kind]
    simulation.run(700)
    assert len(delays(simulation)) == 6
    # What can be seen to be of no use costs no time; a plain lie is found out by the next look at the run itself.
    assert max(delays(simulation)) <= (245 if kind in ("always the same", "over too early") else 6)
    # Never more than what each run by itself would cost, and the status.
    assert simulation.service.count() <= 7 * 700 / 5


@pytest.mark.parametrize(("status_lag", "run_lag", "most"), [(30, 0, 36), (0, 2, 8), (0, 12, 18)])
def test_lags_of_the_status_and_of_the_runs_delay_a_wait(status_lag: float, run_lag: float, most: float) -> None:
    """If the runs lag, the status shows that a run has ended while the run itself seems to be active."""
    simulation = waiting(400, streams=6)
    simulation.service.status_lag, simulation.service.run_lag = status_lag, run_lag
    simulation.run(500)
    assert len(delays(simulation)) == 6
    assert max(delays(simulation)) <= most


@pytest.mark.parametrize(
    "said",
    [
        Said(404, {}),
        Said(403, {}),
        Said(500, {}),
        Said(200, b"<html>"),
        Said(200, {"source_streams": None}),
        Said(200, {"source_streams": [{"name": 7}]}),
        Said(302, {}),
        Said(500, {}, {"retry-after": "3600"}),
    ],
    ids=["404", "403", "500", "html", "null", "number", "redirect", "500 for an hour"],
)
def test_a_status_that_fails_costs_no_time(said: Said) -> None:
    simulation = waiting(400, streams=6)
    simulation.service.fault = lambda path, now: said if path.startswith("/elt_syncs") else None
    simulation.run(500)
    assert len(delays(simulation)) == 6
    assert max(delays(simulation)) <= 6
    at = [asked.at for asked in simulation.service.asked if asked.path.startswith("/elt_syncs")]
    # It is asked for ever more rarely, and not before it wants to be.
    assert len(at) <= 500 / 60 + 8
    if "retry-after" in said.headers:
        assert all(later - earlier >= LONGEST_RETRY_AFTER for earlier, later in itertools.pairwise(at))


@pytest.mark.parametrize("how", ["503", "no answer"])
def test_a_status_that_fails_like_an_outage_ends_no_wait(how: str) -> None:
    """A gateway gives up on the one request that takes long; the runs themselves can be looked at."""
    simulation = waiting(4000, streams=6)
    if how == "503":
        simulation.service.fault = lambda path, now: Said(503) if path.startswith("/elt_syncs") else None
    else:
        simulation.service.answer("/elt_syncs", START)
        simulation.hangs = ("/elt_syncs",)
    simulation.run(5000)
    assert len(delays(simulation)) == 6
    assert max(delays(simulation)) <= 130


# Failures of the whole connection.


def outage(begin: float, end: float, said: Said) -> Any:
    return lambda path, now: said if START + begin <= now < START + end else None


@pytest.mark.parametrize("count", [1, 10, 100])
def test_an_outage_is_met_with_few_requests_however_many_wait(count: int) -> None:
    simulation = waiting(2000, reverse_etl=count)
    simulation.run(30)
    simulation.service.fault = outage(30, 630, Said(503))
    simulation.run(600)
    # What was under way fails; then 0.75, 1.5, 3 ... 45 s, at most one at a time.
    assert simulation.service.count(since=START + 30) <= 16 + 6 + 600 / 45 + 2
    assert not simulation.ends


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("status", [503, 401, 429])
def test_all_go_on_soon_after_an_outage(count: int, status: int) -> None:
    """The longest pause is a minute, whoever failed in it, and how often."""
    simulation = waiting(700, reverse_etl=count)
    simulation.run(30)
    simulation.service.fault = outage(30, 1200, Said(status))
    simulation.run(1170)
    assert not simulation.ends
    simulation.run(75)
    assert len(simulation.ends) == count


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
def test_the_patience_that_is_asked_for_is_shown_by_all(status: int) -> None:
    simulation = Simulation(many(START, 1000, reverse_etl=50), latency=0.5)
    simulation.wait_for_all()
    simulation.run(20)
    # One request is refused; those that are under way with it are answered.
    reported = iter([Said(status, {}, {"retry-after": "120"})])
    simulation.service.fault = lambda path, now: next(reported, None)
    simulation.run(20)
    refused_at = next(asked.at for asked in simulation.service.asked if asked.at >= START + 20)
    simulation.run(300)
    later = sorted(asked.at for asked in simulation.service.asked if asked.at > refused_at + simulation.latency)
    assert later[0] >= refused_at + 120
    assert len(later) > 50


def test_contact_is_lost_once_for_all_without_requests_for_them() -> None:
    simulation = Simulation(many(START, 9000, reverse_etl=300))
    simulation.wait_for_all(replace(EVERY_5, contact_limit=100))
    simulation.run(30)
    simulation.service.fault = lambda path, now: Said(503)
    simulation.run(115)
    assert {end.reason for end, _ in simulation.ends.values()} == {WaitOutcomeReason.LOST_CONTACT}
    assert len(simulation.ends) == 300
    assert min(at for _, at in simulation.ends.values()) >= START + 125


def test_a_wait_that_is_not_due_has_not_lost_contact() -> None:
    """Looked at once an hour, it is not ended because another wait meets with one failure."""
    service = many(START, 8000, reverse_etl=2)
    simulation = Simulation(service)
    simulation.wait(reverse_etl("r0"), WaitPolicy(poll_interval=3600.0))
    simulation.wait(reverse_etl("r1"))
    simulation.run(2000)
    service.fault = outage(2000, 2020, Said(503))
    simulation.run(1000)
    assert not simulation.ends
    simulation.run(8500)
    assert simulation.end_of("r0").outcome is Outcome.SUCCEEDED


def test_an_outage_during_a_shared_request_ends_no_wait_early() -> None:
    simulation = waiting(3000, streams=50)
    simulation.run(30)
    simulation.service.fault = outage(30, 1500, Said(503))
    simulation.run(1470)
    assert simulation.service.count(since=START + 30) <= 60
    assert not simulation.ends
    simulation.run(1600)
    assert max(delays(simulation)) <= 6


# Limits.


@pytest.mark.parametrize("how", ["paused", "hanging", "shared and hanging"])
def test_a_deadline_holds_during_a_pause_or_a_hanging_request(how: str) -> None:
    simulation = Simulation(
        many(START, 9000, streams=4) if how == "shared and hanging" else many(START, 9000, reverse_etl=50)
    )
    simulation.wait_for_all(replace(EVERY_5, deadline=START + 20))
    simulation.run(7)
    if how == "paused":
        simulation.service.fault = lambda path, now: Said(429, {}, {"retry-after": "3000"})
    else:
        simulation.hangs = ("/",)
    simulation.run(30)
    assert {end.reason for end, _ in simulation.ends.values()} == {WaitOutcomeReason.TIMEOUT}
    assert len(simulation.ends) == len(simulation.watches)
    assert all(START + 20 <= at <= START + 20 + 10 + 5 for _, at in simulation.ends.values())


def test_a_run_is_polled_directly_before_its_deadline() -> None:
    """The status fails for long: that it is left alone does not cost the last look."""
    simulation = Simulation(many(START, 95, streams=4))
    simulation.service.fault = lambda path, now: Said(500) if path.startswith("/elt_syncs") else None
    simulation.wait_for_all(replace(EVERY_5, deadline=START + 99))
    simulation.run(130)
    assert len(delays(simulation)) == 4


def test_after_a_long_standstill_each_is_looked_at_once() -> None:
    simulation = waiting(9000, reverse_etl=100)
    simulation.run(12)
    simulation.now += 300
    woken = simulation.now
    simulation.run(4.9)
    assert simulation.service.count(since=woken) == 100
    assert not simulation.ends


# Whatever happens.


class Anything(RuleBasedStateMachine):
    """Waits come and go, the service does what it likes, and time passes: whatever the order."""

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
        # Several pages of them.
        self.service.orchestrations = {f"o{number}": Run(START - number, START + number) for number in range(250)}
        self.service.reverse_etl = {f"r{number}": Run(START, START + 50 * number) for number in range(3)}
        self.schedule = PollSchedule(4, lambda: 0.5)
        self.watches: dict[RunWait, None] = {}
        self.under_way: list[PollRequest] = []

    @rule(reference=KEYS, every=st.sampled_from([1.0, 7.0, None]), deadline=st.sampled_from([None, 30.0, 500.0]))
    def one_comes(self, reference: RunRef, every: float | None, deadline: float | None) -> None:
        until = None if deadline is None else self.now + deadline
        watch = RunWait(reference, WaitPolicy(poll_interval=every, deadline=until, contact_limit=300.0), self.now)
        self.watches[watch] = None
        self.schedule.add(watch)

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def one_goes(self, data: st.DataObject) -> None:
        watch = data.draw(st.sampled_from(list(self.watches)))
        del self.watches[watch]
        self.schedule.discard(watch)

    @rule()
    def all_go(self) -> None:
        for watch in self.watches:
            self.schedule.discard(watch)
        self.watches.clear()

    @rule(seconds=st.sampled_from([0.0, 0.3, 5.0, 61.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self._take(self.schedule.overdue(self.now))
        self._send()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def an_answer_comes(self, data: st.DataObject) -> None:
        poll = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        faults = [None, None, None, Said(404), Said(500), Said(503), Said(429, {}, {"retry-after": "20"})]
        said = data.draw(st.sampled_from(faults)) or self.service.answer(path_of(poll), self.now)
        self._take(deliver(self.schedule, poll, said, self.now))
        self._send()

    @precondition(lambda self: self.under_way)
    @rule()
    def an_answer_is_lost(self) -> None:
        self._take(self.schedule.failed(self.under_way.pop(), TransportError("reset", sent=True), self.now))
        self._send()

    def _send(self) -> None:
        while (poll := self.schedule.next(self.now)) is not None:
            assert poll.watches, "somebody wants to know"
            self.under_way.append(poll)
        assert not self.schedule.is_due(self.now)
        assert self.schedule.wake_at(self.now) >= self.now, "it would never sleep"

    def _take(self, ends: list[tuple[RunWait, WaitOutcome]]) -> None:
        for watch, _ in ends:
            # Once, and of nobody who has gone.
            del self.watches[watch]

    @invariant()
    def no_two_ask_the_same(self) -> None:
        assert len(self.under_way) <= 4
        requests = [poll.request for poll in self.under_way]
        assert len(set(requests)) == len(requests)
        assert len({poll.source for poll in self.under_way}) == len(self.under_way)

    @invariant()
    def nothing_is_left_of_those_who_went(self) -> None:
        assert len(self.schedule) == len(self.watches)
        # A page that nobody waits for any more is dropped when it would be asked for.
        if not self.watches and not self.under_way and not self.schedule._more:
            assert not self.schedule._sources

    def teardown(self) -> None:
        """Everybody who still waits is looked at in bounded time, once the service is well again."""
        for lost in self.under_way:
            self._take(self.schedule.failed(lost, TransportError("reset", sent=True), self.now))
        self.under_way.clear()
        asked: dict[RunWait, float] = {}
        until = self.now + 400
        while self.now < until and self.watches.keys() - asked.keys():
            self._take(self.schedule.overdue(self.now))
            poll = self.schedule.next(self.now)
            if poll is None:
                self.now = max(self.schedule.wake_at(self.now), self.now + 0.01)
                continue
            asked |= dict.fromkeys(poll.watches, self.now)
            self._take(deliver(self.schedule, poll, self.service.answer(path_of(poll), self.now), self.now))
        assert not self.watches.keys() - asked.keys(), "somebody was forgotten"
        self.all_go()
        assert self.schedule.next(self.now + 10_000) is None
        assert not self.schedule._more
        self.nothing_is_left_of_those_who_went()
        assert not any(self.schedule._queues), "nothing is left"


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=scaled(200), stateful_step_count=60)
