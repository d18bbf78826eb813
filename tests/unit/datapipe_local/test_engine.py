"""Tests of the engine, with work that the tests define."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any
from unittest.mock import Mock

import pytest

from datapipe_local.common.errors import RunError
from datapipe_local.engine import orchestration_runs
from datapipe_local.engine.engine import Engine
from datapipe_local.engine.stop import Stop
from datapipe_local.services import jobs
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import Clock, Timestamp, later
from datapipe_local.storage.records import Job, JobKind
from tests.support.processes import wait_for

KIND = JobKind.ELT_STREAM_RUN
Start = Callable[..., "Scripted"]


class Scripted:
    """An executor whose work is a function per subject. ``failures`` are raised by the first calls of ``finish``."""

    def __init__(self, context: Context, failures: list[Exception], **work: Callable[[Stop], Any]) -> None:
        self.context = context
        self.work_of = work
        self.failures = failures
        self.begun: list[str] = []
        self.ended: list[tuple[str, Any, str | None]] = []
        self.engine = Engine(context, {KIND: self})

    def begin(self, job: Job) -> None:
        if job.subject_id == "never_begins":
            raise KeyError(job.subject_id)
        self.begun.append(job.subject_id)
        jobs.begin(self.context, job, f"run of {job.subject_id}", job.due_at)

    def work(self, job: Job, stop: Stop) -> Any:
        return self.work_of[job.subject_id](stop)

    def finish(self, job: Job, result: Any, error: str | None) -> None:
        if self.failures:
            raise self.failures.pop()
        self.ended.append((job.subject_id, result, error))
        jobs.end(self.context, job, failed=error is not None)

    def wait(self, number: int = 1) -> list[tuple[str, Any, str | None]]:
        """Wait until a number of jobs ended, and return their results in the order of their subjects."""
        wait_for("the jobs ended", lambda: len(self.ended) == number, limit=60, interval=0.005)
        return sorted(self.ended, key=lambda ended: ended[0])


@pytest.fixture
def start(context: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start an engine with this work, which is due at once."""
    executors: list[Scripted] = []
    monkeypatch.setattr("datapipe_local.engine.engine._SECONDS_BETWEEN_PROBES", 0.01)

    def started(*, failures: list[Exception] | None = None, **work: Callable[[Stop], Any]) -> Scripted:
        executors.append(Scripted(context, failures or [], **work))
        # Before the start: the engine could end a stored job, which would then be added again.
        add_jobs(context, *work)
        executors[-1].engine.start()
        return executors[-1]

    yield started
    for executor in executors:
        executor.engine.stop()


def add_jobs(context: Context, *subjects: str) -> None:
    for subject in subjects:
        if jobs.get(context, KIND, subject) is None:
            jobs.add(context, KIND, subject, context.clock.now())
    context.wake.set()


def test_each_outcome_is_recorded(context: Context, start: Start) -> None:
    bad, defect = (Mock(side_effect=error) for error in (RunError("no file"), ZeroDivisionError()))
    assert start(good=lambda _: 7, bad=bad, defect=defect).wait(3) == [
        ("bad", None, "no file"),
        ("defect", None, "datapipe-local itself failed (ZeroDivisionError): see the service's log."),
        ("good", 7, None),
    ]
    wait_for("no jobs are left", lambda: context.store.jobs.all() == [], limit=60)


def test_a_job_that_cannot_begin_does_not_block_others(context: Context, start: Start) -> None:
    add_jobs(context, "never_begins")
    start(good=lambda _: 7).wait()
    assert [job.subject_id for job in context.store.jobs.all()] == ["never_begins"]


def test_an_outcome_that_could_not_be_recorded_is_later(start: Start) -> None:
    assert start(failures=[OSError("no space left")], good=lambda _: 7).wait() == [("good", 7, None)]


def test_jobs_interrupted_by_a_stop_are_resumed(context: Context, start: Start) -> None:
    going = threading.Barrier(3)

    def patient(stop: Stop) -> None:
        going.wait(60)
        stop.pause(3600)

    def interrupted(stop: Stop) -> None:
        going.wait(60)
        while not stop.is_requested:
            time.sleep(0.001)
        raise RuntimeError("interrupted")

    executor = start(patient=patient, interrupted=interrupted)
    going.wait(60)
    assert executor.engine.stop()
    assert executor.ended == []
    assert {job.run_id for job in context.store.jobs.all()} == {"run of patient", "run of interrupted"}

    # The next process carries the same runs on.
    following = start(patient=lambda _: 1, interrupted=lambda _: 2)
    following.wait(2)
    assert following.begun == []


def test_a_stop_does_not_wait_for_ever(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datapipe_local.engine.engine._SECONDS_TO_STOP", 0.2)
    working, released = threading.Event(), threading.Event()

    def deaf(_: Stop) -> None:
        working.set()
        released.wait(60)

    executor = start(deaf=deaf)
    assert working.wait(60)
    assert not executor.engine.stop()
    released.set()


class Jumping(Clock):
    """A clock that jumps a second ahead at its n-th reading."""

    def __init__(self, reading: int) -> None:
        self._early = super().now()
        self._left = reading

    def now(self) -> Timestamp:
        self._left -= 1
        return later(self._early, 1) if self._left < 0 else self._early


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("reading", range(1, 9))
def test_jobs_that_become_due_during_a_step_are_not_missed(context: Context, reading: int, begun: bool) -> None:
    jumping = replace(context, clock=Jumping(reading))
    executor = Scripted(jumping, [], a=lambda _: None)
    jobs.add(jumping, KIND, "a", later(jumping.clock.now(), 0.5), begun=begun)
    if executor.engine._step(Stop()) > 0.5:
        # The job was found at once.
        assert executor.wait() == [("a", None, None)]


def test_work_that_ends_during_a_step_keeps_the_engine_busy(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    executor = Scripted(context, [], load=lambda _: released.wait(60))
    engine = executor.engine
    has_work: list[bool] = []
    monkeypatch.setattr(engine._idle, "note", lambda **noted: has_work.append(noted["has_work"]))
    advance = orchestration_runs.advance

    def advance_then_end(given: Context) -> Timestamp | None:
        moment = advance(given)
        released.set()
        wait_for("the load ended", lambda: not engine._going, limit=60, interval=0.005)
        return moment

    add_jobs(context, "load")
    engine._step(Stop())
    monkeypatch.setattr(orchestration_runs, "advance", advance_then_end)
    # The load ends after this step advanced the orchestrations, so that only the next step can finish their runs.
    engine._step(Stop())
    engine._step(Stop())
    assert executor.ended == [("load", True, None)]
    assert has_work == [True, True, False]


def full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_an_outcome_is_recorded_after_a_full_disk(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    work = Mock(side_effect=RunError("no room"))
    assert start(failures=[full() for _ in range(5)], bad=work).wait() == [("bad", None, "no room")]
    assert work.call_count == 1
    assert not any(record.exc_info for record in caplog.records)


def test_work_is_repeated_after_a_full_disk(start: Start) -> None:
    assert start(again=Mock(side_effect=[full(), full(), 7])).wait() == [("again", 7, None)]


def test_work_that_never_finds_room_fails(context: Context, start: Start) -> None:
    error = f"No space left on device in {context.store.folder}: make room there, and run it again."
    assert start(large=Mock(side_effect=full())).wait() == [("large", None, error)]


def test_no_work_begins_during_an_outage(context: Context, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Mock(side_effect=chain([False] * 10, repeat(True)))
    monkeypatch.setattr(context.outage, "probe", probe)
    context.outage.begin(full())
    ((_, probed, _),) = start(late=lambda _: probe.call_count).wait()
    assert probed > 10
