"""The engine, with work that does as the test says."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from datapipe_local.clock import Clock, Timestamp, later
from datapipe_local.engine import orchestration
from datapipe_local.engine.engine import Engine
from datapipe_local.engine.stop import Stop
from datapipe_local.errors import RunError
from datapipe_local.service import jobs
from datapipe_local.service.context import Context
from datapipe_local.store.records import Job, JobKind

KIND = JobKind.ELT_STREAM_RUN


class Scripted:
    """An executor whose work is a function per subject."""

    def __init__(self, context: Context, **work: Callable[[Stop], Any]) -> None:
        self.context = context
        self.work_of = work
        self.begun: list[str] = []
        self.ended: list[tuple[str, Any, str | None]] = []
        self.finish_fails = 0

    def begin(self, job: Job) -> None:
        if job.subject_id == "never_begins":
            raise KeyError(job.subject_id)
        self.begun.append(job.subject_id)
        jobs.begin(self.context, job, f"run of {job.subject_id}", job.due_at)

    def work(self, job: Job, stop: Stop) -> Any:
        return self.work_of[job.subject_id](stop)

    def finish(self, job: Job, result: Any, error: str | None) -> None:
        if self.finish_fails:
            self.finish_fails -= 1
            raise OSError("no space left")
        self.ended.append((job.subject_id, result, error))
        jobs.end(self.context, job, failed=error is not None)


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    engines: list[Engine] = []
    yield engines
    for engine in engines:
        engine.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def start(engines: list[Engine], executor: Scripted) -> Engine:
    engine = Engine(executor.context, {KIND: executor})
    engines.append(engine)
    engine.start()
    return engine


def owe(context: Context, *subjects: str, after: float = 0) -> None:
    for subject in subjects:
        jobs.add(context, KIND, subject, later(context.clock.now(), after))
    context.wake.set()


def fail(error: Exception) -> Callable[[Stop], Any]:
    def work(_: Stop) -> Any:
        raise error

    return work


def test_every_kind_of_end_is_noted(context: Context, engines: list[Engine]) -> None:
    executor = Scripted(context, good=lambda _: 7, bad=fail(RunError("no file")), defect=fail(ZeroDivisionError()))
    start(engines, executor)
    owe(context, "good", "bad", "defect")
    until(lambda: len(executor.ended) == 3)
    assert sorted(executor.ended, key=str) == [
        ("bad", None, "no file"),
        ("defect", None, "datapipe-local itself failed (ZeroDivisionError): see the service's log."),
        ("good", 7, None),
    ]
    # What it ends with is noted a moment before it is no longer owed.
    until(lambda: context.store.jobs.all() == [])


def test_what_is_due_later_waits_and_does_not_hold_up_others(context: Context, engines: list[Engine]) -> None:
    executor = Scripted(context, soon=lambda _: 1, late=lambda _: 2)
    start(engines, executor)
    begin = time.monotonic()
    owe(context, "late", after=0.3)
    owe(context, "soon")
    until(lambda: len(executor.ended) == 2)
    assert [subject for subject, *_ in executor.ended] == ["soon", "late"]
    assert 0.25 < time.monotonic() - begin < 3


def test_one_that_cannot_begin_does_not_keep_others_from_it(context: Context, engines: list[Engine]) -> None:
    executor = Scripted(context, good=lambda _: 7)
    owe(context, "never_begins", "good")
    start(engines, executor)
    until(lambda: len(executor.ended) == 1)
    assert [job.subject_id for job in context.store.jobs.all()] == ["never_begins"]


def test_more_than_there_are_workers(context: Context, engines: list[Engine]) -> None:
    subjects = [f"s{number}" for number in range(40)]
    at_once, most, guard = 0, 0, threading.Lock()

    def work(_: Stop) -> None:
        nonlocal at_once, most
        with guard:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with guard:
            at_once -= 1

    executor = Scripted(context, **dict.fromkeys(subjects, work))
    owe(context, *subjects)
    start(engines, executor)
    until(lambda: len(executor.ended) == 40)
    assert sorted(subject for subject, *_ in executor.ended) == sorted(subjects)
    assert 1 < most <= 8


def test_an_end_that_could_not_be_noted_is_noted_later(context: Context, engines: list[Engine]) -> None:
    executor = Scripted(context, good=lambda _: 7)
    executor.finish_fails = 1
    start(engines, executor)
    owe(context, "good")
    until(lambda: executor.ended == [("good", 7, None)])


def test_what_a_stop_breaks_off_stays_owed_and_is_not_failed(context: Context, engines: list[Engine]) -> None:
    going = threading.Barrier(3)

    def patient(stop: Stop) -> None:
        going.wait(10)
        stop.pause(60)

    def interrupted(stop: Stop) -> None:
        going.wait(10)
        while not stop.is_requested:
            time.sleep(0.001)
        raise RuntimeError("interrupted")

    executor = Scripted(context, patient=patient, interrupted=interrupted)
    engine = start(engines, executor)
    owe(context, "patient", "interrupted")
    going.wait(10)
    begin = time.monotonic()
    assert engine.stop()
    assert time.monotonic() - begin < 2
    assert executor.ended == []
    assert {job.run_id for job in context.store.jobs.all()} == {"run of patient", "run of interrupted"}

    # The next process does not begin them again: they are the same runs.
    following = Scripted(context, patient=lambda _: 1, interrupted=lambda _: 2)
    start(engines, following)
    until(lambda: len(following.ended) == 2)
    assert following.begun == []


def test_a_stop_does_not_wait_for_ever(
    context: Context, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datapipe_local.engine.engine._SECONDS_TO_STOP", 0.2)
    released = threading.Event()
    executor = Scripted(context, deaf=lambda _: released.wait(10))
    engine = start(engines, executor)
    owe(context, "deaf")
    until(lambda: executor.begun == ["deaf"])
    time.sleep(0.05)
    assert not engine.stop()
    released.set()


class Jumping(Clock):
    """A clock that has moved on by a second from its n-th reading on."""

    def __init__(self, reading: int) -> None:
        self._early = super().now()
        self._left = reading

    def now(self) -> Timestamp:
        self._left -= 1
        return later(self._early, 1) if self._left < 0 else self._early


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("reading", range(1, 9))
def test_what_becomes_due_within_a_step_is_not_missed(context: Context, reading: int, begun: bool) -> None:
    jumping = replace(context, clock=Jumping(reading))
    executor = Scripted(jumping, a=lambda stop: None)
    due_at = later(jumping.clock.now(), 0.5)
    jobs.add(jumping, KIND, "a", due_at, begun=begun)
    engine = Engine(jumping, {KIND: executor})
    seconds = engine._step(Stop())
    if seconds > 0.5:
        # It was found at once, and only its end is still to come.
        until(lambda: executor.ended == [("a", None, None)])


def test_work_that_ends_during_a_step_keeps_the_engine_unsettled(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    executor = Scripted(context, load=lambda _: released.wait(10))
    engine = Engine(context, {KIND: executor})
    has_work: list[bool] = []
    monkeypatch.setattr(engine._looks, "note", lambda **noted: has_work.append(noted["has_work"]))
    advance = orchestration.advance

    def advance_then_end(given: Context) -> Timestamp | None:
        moment = advance(given)
        released.set()
        until(lambda: not engine._going)
        return moment

    owe(context, "load")
    engine._step(Stop())
    monkeypatch.setattr(orchestration, "advance", advance_then_end)
    # The load ends after this step advanced the orchestrations, so only the next step can finish their runs.
    engine._step(Stop())
    engine._step(Stop())
    assert executor.ended == [("load", True, None)]
    assert has_work == [True, True, False]


def full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


@pytest.fixture
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datapipe_local.engine.engine._SECONDS_BETWEEN_PROBES", 0.01)


@pytest.mark.usefixtures("quick_probes")
def test_result_is_noted_once_the_state_can_be_written(
    context: Context, engines: list[Engine], caplog: pytest.LogCaptureFixture
) -> None:
    worked: list[int] = []

    class Full(Scripted):
        def finish(self, job: Job, result: Any, error: str | None) -> None:
            if len(failures) < 5:
                failures.append(1)
                raise full()
            super().finish(job, result, error)

    def work(_: Stop) -> None:
        worked.append(1)
        raise RunError("no room")

    failures: list[int] = []
    executor = Full(context, bad=work)
    start(engines, executor)
    owe(context, "bad")
    until(lambda: len(executor.ended) == 1)
    assert executor.ended == [("bad", None, "no room")]
    assert worked == [1]
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.usefixtures("quick_probes")
def test_work_that_could_not_write_the_state_is_carried_on(context: Context, engines: list[Engine]) -> None:
    tries: list[int] = []

    def work(_: Stop) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise full()
        return 7

    executor = Scripted(context, again=work)
    start(engines, executor)
    owe(context, "again")
    until(lambda: len(executor.ended) == 1)
    assert executor.ended == [("again", 7, None)]
    assert len(tries) == 3


@pytest.mark.usefixtures("quick_probes")
def test_work_that_never_finds_room_fails_in_the_end(context: Context, engines: list[Engine]) -> None:
    executor = Scripted(context, large=fail(full()))
    start(engines, executor)
    owe(context, "large")
    until(lambda: len(executor.ended) == 1)
    (ended,) = executor.ended
    assert ended == (
        "large",
        None,
        f"No space left on device in {context.store.folder}: make room there, and run it again.",
    )


@pytest.mark.usefixtures("quick_probes")
def test_nothing_begins_while_the_state_cannot_be_written(
    context: Context, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    probes: list[bool] = []

    def probe() -> bool:
        probes.append(True)
        return len(probes) > 10

    monkeypatch.setattr(context.outage, "probe", probe)
    context.outage.begin(full())
    executor = Scripted(context, late=lambda _: len(probes))
    owe(context, "late")
    start(engines, executor)
    until(lambda: len(executor.ended) == 1)
    assert executor.ended[0][1] > 10
