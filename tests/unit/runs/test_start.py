"""The start decision, against a model of the service that may lose requests and answers, and be asked by others."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConflictError,
    DatapipeError,
    NotFoundError,
    ProtocolError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.batch import Batch, run_batch, settle_records, wait_for_some
from airflow_provider_datapipe.runs.conflicts import Blocked, IfRunning, RunSkipped
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.records import NoRecords, Records, TaskStateRecords, key_of
from airflow_provider_datapipe.runs.reference import Observation, Target
from airflow_provider_datapipe.runs.start import StartPolicy, start
from airflow_provider_datapipe.runs.steps import drive
from airflow_provider_datapipe.runs.wait import EndReason, WaitPolicy
from airflow_provider_datapipe.runs.worker_wait import seconds_in_worker
from tests.support.examples import scaled


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


TARGET = Target("s", "orders")
POLICY = StartPolicy(settle=120, look_interval=5)


class Killed(BaseException):
    """The process is gone: nothing in it can catch this."""


@dataclass
class MemoryRecords:
    """A store that outlives the process, as Airflow's does; it holds JSON."""

    kept: dict[str, str] = field(default_factory=dict)
    tick: Callable[[], None] = lambda: None

    def get(self, key: str) -> Any:
        self.tick()
        return json.loads(self.kept[key]) if key in self.kept else None

    def set(self, key: str, value: Any) -> None:
        self.tick()
        self.kept[key] = json.dumps(value)
        self.tick()

    def delete(self, key: str) -> None:
        self.tick()
        self.kept.pop(key, None)
        self.tick()


def remembered(store: MemoryRecords, *, life: int = 0) -> TaskStateRecords:
    return TaskStateRecords(store, life)


@dataclass
class Run:
    """A run of the model: asked for, visible, over, at these times."""

    run_id: str
    began: float
    visible: float
    over: float
    status: str
    ours: bool


class Service:
    """
    One stream, or one orchestration, with a clock that moves only when somebody waits.

    :param invisible: seconds for which a requested run does not show.
    :param duration: seconds that a run takes.
    :param ends_as: how runs end, in turn; the last one from then on.
    """

    def __init__(
        self, *, invisible: float = 0, duration: float = 60, ends_as: tuple[str, ...] = ("COMPLETED",)
    ) -> None:
        self.invisible, self.duration, self.ends_as = invisible, duration, list(ends_as)
        self.now = 1_000.0
        self.runs: list[Run] = []
        #: What becomes of requests for a run:
        #: "ok"; "lost", never arrives; "unheard", carried out, answer lost; "502", not carried out; "502 done", carried
        #: out; "late30" and "502 late30", carried out 30 s after the answer was lost; "slow30", carried out, and no
        #: answer within the client's 30 s; "slow30 late30", carried out 30 s after those;
        #: "twice", a proxy delivers it twice, and gives the first answer; "twice, second", the second one; "twice
        #: unheard", none.
        self.fates: list[str] = []
        self.late: list[float] = []
        #: How the request that is under way is carried out, also when it is late or a copy.
        self._carry_out: Callable[[], Any] = lambda: None
        #: Runs that the service began for copies of a request.
        self.copies = 0
        self.posts = 0
        self.tick: Callable[[], None] = lambda: None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds < 10_000
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        until = self.now + seconds
        for due in sorted(due for due in self.late if due <= until):
            self.late.remove(due)
            self.now = max(self.now, due)
            # Like any other request it may be turned away; nobody hears of it.
            with suppress(ConflictError):
                self._carry_out()
        self.now = until

    def begin_others(self) -> Run:
        return self._begin(ours=False)

    def _begin(self, *, ours: bool) -> Run:
        ends_as = self.ends_as.pop(0) if len(self.ends_as) > 1 else self.ends_as[0]
        visible = self.now + self.invisible
        run = Run(f"r{len(self.runs) + 1}", self.now, visible, visible + self.duration, ends_as, ours)
        self.runs.append(run)
        return run

    @property
    def ours(self) -> list[Run]:
        return [run for run in self.runs if run.ours]

    def _shown(self, run: Run) -> dict[str, Any]:
        shown = {"id": run.run_id, "started_at": stamp(run.began), "status": "RUNNING"}
        if run.over <= self.now:
            shown |= {"status": run.status, "finished_at": stamp(run.over)}
        return shown

    def send(self, request: Request[Any]) -> Any:
        self.tick()
        answer = getattr(self, "_" + request.endpoint.name.replace(".", "_"))(request)
        self.tick()
        return answer

    def _fate(self, carry_out: Callable[[], Any]) -> Any:
        self.posts += 1
        self._carry_out = carry_out
        fate = self.fates.pop(0) if self.fates else "ok"
        if fate == "lost":
            raise TransportError("no answer", sent=True)
        if fate == "404":
            raise NotFoundError("gone", status=404)
        if fate == "conflict":
            raise ConflictError("running", status=409)
        if fate == "502":
            raise ServerError("bad gateway", status=502)
        if "late" in fate:
            self._delay(fate)
        answer = carry_out()
        if fate.startswith("twice"):
            answer = self._copy(fate, answer)
        if fate.startswith("slow"):
            self._pass(float(fate.removeprefix("slow")))
            raise TransportError("no answer in time", sent=True)
        if fate.endswith("unheard"):
            raise TransportError("no answer", sent=True)
        if fate == "garbled":
            raise ProtocolError("not what the interface says")
        if fate == "502 done":
            raise ServerError("bad gateway", status=502)
        return answer

    def _delay(self, fate: str) -> NoReturn:
        before, _, seconds = fate.partition("late")
        if before.startswith("slow"):
            self._pass(float(before.removeprefix("slow")))
        self.late.append(self.now + float(seconds))
        if before.startswith("502"):
            raise ServerError("bad gateway", status=502)
        raise TransportError("no answer", sent=True)

    def _copy(self, fate: str, first: Any) -> Any:
        begun = len(self.runs)
        try:
            second = self._carry_out()
        except ConflictError:
            if "second" in fate:
                raise
            return first
        self.copies += len(self.runs) - begun
        return second if "second" in fate else first

    def _elt_streams_request_full_refresh(self, request: Request[Any]) -> None: ...

    def _elt_streams_request_run(self, request: Request[Any]) -> RunRequested:
        def carry_out() -> RunRequested:
            active = [run for run in self.runs if run.over > self.now]
            if active:
                shown = active[0].run_id if active[0].visible <= self.now else None
                raise ConflictError("running", status=409, active_run_id=shown)
            last = f"&starting_after={self.runs[-1].run_id}" if self.runs else ""
            self._begin(ours=True)
            return RunRequested(status_url=f"/elt_stream_runs?elt_stream_id=s{last}&limit=1&sort_direction=asc")

        answer: RunRequested = self._fate(carry_out)
        return answer

    def _elt_stream_runs_list(self, request: Request[Any]) -> Page[EltStreamRun]:
        query = dict(request.query)
        seen = [run for run in self.runs if run.visible <= self.now]
        if query["sort_direction"] == "desc":
            seen.reverse()
        if after := query.get("starting_after"):
            seen = seen[[run.run_id for run in seen].index(after) + 1 :]
        shown = seen[: int(query["limit"])]
        return Page(data=tuple(self._stream_run(run) for run in shown), has_more=False)

    def _stream_run(self, run: Run) -> EltStreamRun:
        return EltStreamRun.model_validate({"elt_sync_id": "y", "elt_stream_id": "s"} | self._shown(run))

    def _elt_stream_runs_get(self, request: Request[Any]) -> EltStreamRun:
        (run,) = [run for run in self.runs if request.path.endswith(f"/{run.run_id}")]
        return self._stream_run(run)

    def _orchestration_run(self, run: Run) -> OrchestrationRun:
        return OrchestrationRun.model_validate({"orchestration_id": "s", "due_at": stamp(run.began)} | self._shown(run))

    def _orchestrations_request_run(self, request: Request[Any]) -> OrchestrationRun:
        answer: OrchestrationRun = self._fate(lambda: self._orchestration_run(self._begin(ours=True)))
        return answer

    def _orchestration_runs_list(self, request: Request[Any]) -> Page[OrchestrationRun]:
        newest = [self._orchestration_run(run) for run in reversed(self.runs)]
        return Page(data=tuple(newest[: int(dict(request.query)["limit"])]), has_more=False)

    def _orchestration_runs_get(self, request: Request[Any]) -> OrchestrationRun:
        (run,) = [run for run in self.runs if request.path.endswith(f"/{run.run_id}")]
        return self._orchestration_run(run)


def begin(
    service: Service,
    records: MemoryRecords | NoRecords | None = None,
    policy: StartPolicy = POLICY,
    *,
    kind: str = "elt_stream",
    target: Target = TARGET,
) -> Observation:
    kept: Records = NoRecords() if isinstance(records, NoRecords) else remembered(records or MemoryRecords())
    return drive(start(KINDS[kind], target, kept, policy, service.clock), service.send, service.sleep)


KINDS_OF_START = ["elt_stream", "orchestration"]


@pytest.mark.parametrize("kind", KINDS_OF_START)
@pytest.mark.parametrize("fate", ["unheard", "502 done", "garbled"])
def test_a_run_without_a_response_is_found_and_not_repeated(kind: str, fate: str) -> None:
    service = Service()
    service.begin_others()
    service.sleep(100)
    service.fates = [fate]
    seen = begin(service, kind=kind)
    assert seen.reference.run_id == "r2"
    # The list does not say who requested it.
    assert seen.reference.attached
    assert (service.posts, len(service.ours)) == (1, 1)


@pytest.mark.parametrize("kind", KINDS_OF_START)
@pytest.mark.parametrize("fate", ["lost", "502"])
def test_a_request_that_was_not_executed_is_sent_after_a_look(kind: str, fate: str) -> None:
    service = Service()
    service.fates = [fate]
    begin(service, kind=kind)
    assert (service.posts, len(service.ours)) == (2, 1)


@pytest.mark.parametrize("fate", ["unheard", "502 done"])
def test_an_invisible_run_rejects_the_second_request(fate: str) -> None:
    service = Service(invisible=1000)
    service.fates = [fate]
    seen = begin(service)
    assert seen.reference.attached
    assert (service.posts, len(service.ours)) == (2, 1)


@pytest.mark.parametrize("kind", KINDS_OF_START)
@pytest.mark.parametrize("late", ["late1", "late30", "late110", "slow30 late110"])
def test_a_request_that_is_carried_out_late_is_waited_for(kind: str, late: str) -> None:
    service = Service(duration=5)
    service.fates = [late]
    assert begin(service, kind=kind).reference.run_id == "r1"
    assert (service.posts, len(service.ours)) == (1, 1)


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_request_that_is_never_executed_leaves_its_intent(kind: str) -> None:
    service, records = Service(), MemoryRecords()
    service.fates = ["502"] * 3
    with pytest.raises(ServerError):
        begin(service, records, kind=kind)
    assert service.posts == POLICY.attempts
    assert remembered(records).get(key_of(kind, TARGET))["reference"] is None


def test_a_refusal_leaves_no_record() -> None:
    service, records = Service(), MemoryRecords()
    service.fates = ["404"]
    with pytest.raises(NotFoundError):
        begin(service, records)
    assert records.kept == {}


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_later_try_goes_on_with_a_run_that_is_going(kind: str) -> None:
    service, records = Service(duration=1000), MemoryRecords()
    first = begin(service, records, kind=kind)
    service.sleep(10)
    again = begin(service, records, kind=kind)
    assert again.reference.run_id == "r1"
    assert not again.reference.attached
    assert first.reference.kind == again.reference.kind
    assert (service.posts, len(service.ours)) == (1, 1)


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_later_try_adopts_a_run_that_has_succeeded_meanwhile(kind: str) -> None:
    service, records = Service(), MemoryRecords()
    begin(service, records, kind=kind)
    service.sleep(1000)
    assert begin(service, records, kind=kind).outcome is Outcome.SUCCEEDED
    assert service.posts == 1


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_later_try_starts_afresh_after_a_run_that_has_failed(kind: str) -> None:
    service, records = Service(ends_as=("FAILED", "COMPLETED")), MemoryRecords()
    begin(service, records, kind=kind)
    service.sleep(1000)
    assert not begin(service, records, kind=kind).outcome.is_over
    assert service.posts == 2


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_an_unknown_failed_run_does_not_fail_the_task_again(kind: str) -> None:
    service, records = Service(ends_as=("FAILED", "COMPLETED")), MemoryRecords()
    begin(service, records, kind=kind)
    key = key_of(kind, TARGET)
    # As it is when the process was killed before the answer.
    remembered(records).set(key, remembered(records).get(key) | {"reference": None})
    service.sleep(1000)
    assert not begin(service, records, kind=kind).outcome.is_over
    assert service.posts == 2


def finish(service: Service, records: TaskStateRecords, kind: str = "elt_stream") -> Batch:
    batch = Batch(kind, queued=[TARGET])
    wait = WaitPolicy(poll_interval=10)
    drive(run_batch(batch, records, POLICY, wait, alone=True, clock=service.clock), service.send, service.sleep)
    return batch


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_task_that_succeeded_and_is_cleared_runs_again(kind: str) -> None:
    service, store = Service(), MemoryRecords()
    for life in (1, 3, 4):
        records = remembered(store, life=life)
        settle_records(finish(service, records, kind), records, [], succeeded=True)
    assert len(service.ours) == 3


@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_task_killed_after_its_success_does_not_run_again(kind: str) -> None:
    service, store = Service(), MemoryRecords()
    for _ in range(3):
        records = remembered(store, life=2)
        settle_records(finish(service, records, kind), records, [], succeeded=True)
    assert len(service.ours) == 1


@pytest.mark.parametrize(
    ("reason", "is_failure", "stays"),
    [
        (EndReason.RUN_OVER, False, True),
        (EndReason.RUN_OVER, True, False),
        # These may still be going, or may have been carried out.
        (EndReason.VANISHED, True, True),
        (EndReason.LOST_CONTACT, True, True),
        (EndReason.TIMEOUT, True, True),
        (EndReason.NOT_SCHEDULED, True, True),
        (EndReason.NOT_STARTED, True, True),
    ],
)
def test_what_a_failed_sync_leaves_for_its_retry(reason: EndReason, *, is_failure: bool, stays: bool) -> None:
    service, store = Service(), MemoryRecords()
    (end,) = finish(service, remembered(store)).ended
    end = replace(end, reason=reason)
    settle_records(Batch("elt_stream", ended=[end]), remembered(store), [end] if is_failure else [], succeeded=False)
    assert bool(store.kept) == stays


def test_run_that_was_never_scheduled_is_requested_again() -> None:
    service, store = Service(invisible=100_000), MemoryRecords()
    records = remembered(store)
    batch = Batch("elt_stream", queued=[TARGET])
    wait = WaitPolicy(poll_interval=10, schedule_limit=100)
    drive(run_batch(batch, records, POLICY, wait, alone=True, clock=service.clock), service.send, service.sleep)
    assert [end.reason for end in batch.ended] == [EndReason.NOT_SCHEDULED]
    settle_records(batch, records, batch.ended, succeeded=False)
    service.runs, service.invisible = [], 0
    service.sleep(1000)
    assert begin(service, store).reference.status_url is not None
    assert service.posts == 2


@pytest.mark.parametrize("kind", KINDS_OF_START)
@pytest.mark.parametrize(
    "look",
    [
        AuthenticationError("no", status=401),
        RateLimitError("slow", status=429),
        TransportError("down", sent=False),
        ServerError("down", status=503),
    ],
)
def test_a_failed_look_after_a_lost_response_keeps_the_intent(kind: str, look: DatapipeError) -> None:
    service, records = Service(), MemoryRecords()
    service.fates = ["unheard"]

    def send(request: Request[Any]) -> Any:
        if service.posts and request.endpoint.method == "GET":
            raise look
        return service.send(request)

    with pytest.raises(type(look)):
        drive(start(KINDS[kind], TARGET, remembered(records), POLICY, service.clock), send, service.sleep)
    begin(service, records, kind=kind)
    assert (service.posts, len(service.ours)) == (1, 1)


def test_an_earlier_doubt_outlives_a_rejected_request() -> None:
    service, records = Service(), MemoryRecords()
    service.fates = ["502"] * 3
    with pytest.raises(ServerError):
        begin(service, records)
    service.fates = ["404"]
    service.sleep(1000)
    with pytest.raises(NotFoundError):
        begin(service, records)
    assert remembered(records).get(key_of("elt_stream", TARGET))["reference"] is None


def test_each_request_is_noted_before_it_is_sent() -> None:
    """A second request that is carried out late is waited for, though the first was noted long ago."""
    service, records = Service(), MemoryRecords()
    service.fates = ["lost", "late20"]

    def die() -> None:
        if service.posts == 2:
            raise Killed

    service.tick = die
    with pytest.raises(Killed):
        begin(service, records, kind="orchestration")
    service.tick = lambda: None
    service.sleep(6)
    begin(service, records, kind="orchestration")
    assert (service.posts, len(service.ours)) == (2, 1)


def others() -> Service:
    service = Service(duration=1000)
    service.begin_others()
    return service


def test_somebody_elses_run_is_attached_to_by_default() -> None:
    service = others()
    seen = begin(service)
    assert (seen.reference.run_id, seen.reference.attached) == ("r1", True)
    assert service.ours == []


def test_two_racing_tasks_share_one_run() -> None:
    service = Service(invisible=50)
    first, second = MemoryRecords(), MemoryRecords()
    begin(service, first)
    begin(service, second)
    service.sleep(60)
    seen = [begin(service, records) for records in (first, second)]
    assert [each.reference.run_id for each in seen] == ["r1", "r1"]
    assert len(service.runs) == 1


def test_policy_fail() -> None:
    records = MemoryRecords()
    with pytest.raises(RunConflictError, match=r"running already \(run r1\)"):
        begin(others(), records, replace(POLICY, if_running=IfRunning.FAIL))
    assert records.kept == {}


def test_policy_skip() -> None:
    records = MemoryRecords()
    with pytest.raises(RunSkipped, match="running already"):
        begin(others(), records, replace(POLICY, if_running=IfRunning.SKIP))
    assert records.kept == {}


@pytest.mark.parametrize(
    ("policy", "target"),
    [
        (replace(POLICY, if_running=IfRunning.WAIT), TARGET),
        (POLICY, replace(TARGET, options={"full_refresh": True})),
    ],
)
def test_policy_wait_and_full_refreshes_wait_for_the_other_run(policy: StartPolicy, target: Target) -> None:
    with pytest.raises(Blocked) as blocked:
        begin(others(), policy=policy, target=target)
    assert blocked.value.observation.reference.run_id == "r1"
    service = others()
    batch = Batch("elt_stream", queued=[target])
    wait = WaitPolicy(poll_interval=10)
    drive(
        run_batch(batch, remembered(MemoryRecords()), policy, wait, alone=True, clock=service.clock),
        service.send,
        service.sleep,
    )
    (end,) = batch.ended
    assert end.result is not None
    assert end.result["run_id"] == "r2"
    assert [run.ours for run in service.runs] == [False, True]
    assert Batch.from_dict(json.loads(json.dumps(batch.as_dict()))) == batch


def test_run_that_blocks_has_the_history_of_earlier_runs() -> None:
    service = Service(duration=600)
    for _ in range(3):
        service.begin_others()
        service.sleep(700)
    service.begin_others()
    with pytest.raises(Blocked) as blocked:
        begin(service, policy=replace(POLICY, if_running=IfRunning.WAIT))
    durations = blocked.value.observation.reference.durations
    assert durations is not None
    assert seconds_in_worker([durations]) == 0


@pytest.mark.parametrize("policy", list(IfRunning))
def test_no_policy_is_about_ones_own_run(policy: IfRunning) -> None:
    """A run of an earlier try, killed before the answer, does not stand in its own way."""
    service, records = Service(invisible=50), MemoryRecords()
    service.fates = ["unheard"]

    def die() -> None:
        if service.posts:
            raise Killed

    records.tick = die
    service.tick = die
    with pytest.raises(Killed):
        begin(service, records, replace(POLICY, if_running=policy))
    records.tick = service.tick = lambda: None
    begin(service, records, replace(POLICY, if_running=policy))
    assert len(service.runs) == 1


def test_an_own_run_that_appears_late_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    service, records = Service(invisible=5, duration=1000), MemoryRecords()
    begin(service, records)
    kept = remembered(records).get(key_of("elt_stream", TARGET))
    remembered(records).set(key_of("elt_stream", TARGET), kept | {"reference": None})
    # Time passes between two looks.
    monkeypatch.setattr(service, "_elt_stream_runs_list", shows_at_second_look(service))
    seen = begin(service, records, replace(POLICY, if_running=IfRunning.FAIL, settle=0))
    assert seen.reference.run_id == "r1"
    assert service.posts == 2


def shows_at_second_look(service: Service) -> Callable[[Request[Any]], Page[EltStreamRun]]:
    look = service._elt_stream_runs_list

    def looked(request: Request[Any]) -> Page[EltStreamRun]:
        answer = look(request)
        service.now += 10
        return answer

    return looked


def test_what_needs_a_run_of_its_own() -> None:
    options = {"elt_stream": "full_refresh", "reverse_etl": "retry_failed_records"}
    for name, kind in KINDS.items():
        assert not kind.needs_own_run(TARGET)
        for option in set(options.values()):
            wants = replace(TARGET, options={option: True})
            assert kind.needs_own_run(wants) == (options.get(name) == option)


def test_a_conflict_with_an_ended_run_leads_to_an_own_run() -> None:
    service = Service()
    service.begin_others()
    service.sleep(1000)
    service.fates = ["conflict"]
    seen = begin(service)
    assert not seen.reference.attached
    assert (service.posts, len(service.ours)) == (2, 1)


@pytest.mark.parametrize("before", [False, True])
def test_an_impossible_conflict_is_no_success_of_an_earlier_run(*, before: bool) -> None:
    service = Service()
    if before:
        service.begin_others()
        service.sleep(1000)
    service.fates = ["conflict"] * 100
    with pytest.raises(RunConflictError, match=r"refused \d+ requests"):
        begin(service, kind="orchestration")
    assert service.posts < 12
    service = others()
    service.fates = ["conflict"]
    assert begin(service, kind="orchestration").reference.run_id == "r1"


@pytest.mark.parametrize("status_url", ["/elsewhere", "https://evil.example/elt_stream_runs?x=1", "//["])
def test_a_foreign_status_url_is_not_used_and_the_run_not_lost(status_url: str) -> None:
    service = Service(invisible=10)
    service.begin_others()
    service.sleep(1000)
    refused: list[str] = []

    def send(request: Request[Any]) -> Any:
        if request.origin is not None:
            refused.append(request.origin)
            raise ProtocolError("refused: one origin only")
        answer = service.send(request)
        return RunRequested(status_url=status_url) if isinstance(answer, RunRequested) else answer

    steps = start(KINDS["elt_stream"], TARGET, remembered(MemoryRecords()), POLICY, service.clock)
    seen = drive(steps, send, service.sleep)
    assert not seen.reference.attached
    service.sleep(20)
    waiting = wait_for_some(Batch("elt_stream", waiting=[seen.reference]), WaitPolicy(poll_interval=10), service.clock)
    drive(waiting, send, service.sleep)
    assert [run.run_id for run in service.ours] == ["r2"]
    assert len(refused) == ("evil" in status_url)


#: A request may be carried out up to two minutes after its answer was lost: docs/runs.md promises nothing beyond.
#: Who is killed before the answer is lost leaves only when it was sent: so here it is two minutes from then.
LATE = ["late1", "late30", "late110", "502 late50", "slow30", "slow30 late80"]
FATES = st.sampled_from(["ok", "lost", "unheard", "502", "502 done", "garbled", *LATE])
#: A second copy of a request for a stream's run is turned away.
TWICE = st.sampled_from(["twice", "twice, second", "twice unheard"])


@settings(max_examples=scaled(400))
@given(
    kind=st.sampled_from(KINDS_OF_START),
    fates=st.lists(FATES | TWICE, max_size=6),
    kills=st.lists(st.integers(1, 14), max_size=5),
    invisible=st.sampled_from([0, 0, 30, 3000]),
    duration=st.sampled_from([20, 400]),
    before=st.booleans(),
)
def test_one_run_whatever_is_lost_and_whoever_is_killed(
    *, kind: str, fates: list[str], kills: list[int], invisible: float, duration: float, before: bool
) -> None:
    """A task that is killed at any step and tried again, and whose requests get lost, leads to one run."""
    if kind == "elt_stream" and invisible:
        # docs/exactly_once.md: two runs may start.
        doubled = fates.index("twice, second") if "twice, second" in fates else len(fates)
        assume(not set(fates[doubled:]) & set(LATE))
    service = Service(invisible=0 if kind == "orchestration" else invisible, duration=duration)
    if before:
        service.begin_others()
        service.sleep(service.invisible + duration + 1)
    service.fates = fates
    records = MemoryRecords()
    steps = 0
    batch = Batch(kind)

    def tick() -> None:
        nonlocal steps
        steps += 1
        if kills and steps >= kills[0]:
            kills.pop(0)
            steps = 0
            raise Killed

    service.tick = records.tick = tick
    for _ in range(20):
        batch = Batch(kind, queued=[TARGET])
        wait = WaitPolicy(poll_interval=10, schedule_limit=10_000)
        try:
            kept = remembered(records)
            drive(run_batch(batch, kept, POLICY, wait, alone=True, clock=service.clock), service.send, service.sleep)
            settle_records(batch, kept, [], succeeded=True)
            # The last moment at which a kill leads to a retry: Airflow hears of the success after it.
            tick()
            break
        except (Killed, ServerError, TransportError, ProtocolError):
            # Airflow's retry comes later.
            service.sleep(1)
    (end,) = batch.ended
    assert end.reason is EndReason.RUN_OVER
    assert end.outcome is Outcome.SUCCEEDED
    assert end.result is not None
    ours = [run.run_id for run in service.ours]
    assert end.result["run_id"] in ours
    # Orchestrations have no conflict: what a proxy doubles runs twice. The task itself adds nothing to that.
    assert len(ours) == 1 + service.copies
    assert kind == "orchestration" or not service.copies


@pytest.mark.parametrize("late", ["late1", "late30", "late110", "slow30 late110"])
@pytest.mark.parametrize("kind", KINDS_OF_START)
def test_a_request_that_is_late_and_meets_a_kill_is_waited_for(kind: str, late: str) -> None:
    """The try after a killed one waits for the run of a request that nobody has carried out yet."""
    service, records = Service(duration=20), MemoryRecords()
    service.fates = [late]
    looks = 0

    def die() -> None:
        nonlocal looks
        looks += service.posts
        # After the request, its answer that does not come, and a look.
        if looks == 2:
            raise Killed

    service.tick = die
    steps = start(KINDS[kind], TARGET, remembered(records), POLICY, service.clock)
    with pytest.raises(Killed):
        drive(steps, service.send, service.sleep)
    service.tick = lambda: None
    service.sleep(1)
    assert begin(service, records, kind=kind).reference.run_id == "r1"
    assert (service.posts, len(service.runs)) == (1, 1)


def test_a_late_copy_of_a_request_causes_no_wait_for_an_own_run() -> None:
    """The answer of the copy names the run that the request itself has started: it is attached to, and none follows."""
    service = Service(duration=1000)
    service.fates = ["twice, second"]
    assert begin(service).reference.run_id == "r1"
    assert (service.posts, len(service.runs)) == (1, 1)


@settings(max_examples=scaled(100))
@given(
    fates=st.lists(FATES, max_size=2),
    invisible=st.sampled_from([0, 30]),
)
def test_without_records_look_and_conflict_lead_to_one_run(fates: list[str], invisible: float) -> None:
    """Airflow before 3.3 keeps no records: one try leads to one run, and a try after it attaches while it is going."""
    service = Service(invisible=invisible, duration=5000)
    service.fates = fates
    begin(service, NoRecords())
    again = begin(service, NoRecords())
    assert again.reference.run_id in (None, "r1")
    assert len(service.runs) == 1
