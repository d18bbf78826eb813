"""The engine: does in the background what the service owes."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from datapipe_local import storage
from datapipe_local.clock import later
from datapipe_local.engine import orchestration
from datapipe_local.engine.looks import Looks
from datapipe_local.engine.schedule import Schedule
from datapipe_local.engine.stop import Stop, StoppedError
from datapipe_local.errors import RunError
from datapipe_local.store.records import JobKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datapipe_local.clock import Timestamp
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import Job

log = logging.getLogger(__name__)

_WORKERS = 8
# Whoever tries out queries keeps nobody's runs waiting.
_MOST_PREVIEWS = 4
_SECONDS_TO_STOP = 3.0
# The engine is woken for everything that it can know; this bounds what it cannot, such as a clock that was set.
_LONGEST_SLEEP = 30.0
_SECONDS_AFTER_A_DEFECT = 1.0
_SECONDS_BETWEEN_PROBES = 1.0
# A run that needs more room than there ever is fails in the end.
_MOST_INTERRUPTIONS = 3


class Executor(Protocol):
    """Does one kind of work. Each step can be cut off by the end of the process, and is then done again."""

    def begin(self, job: Job) -> None:
        """Note that a run has begun, and with the job when its work is due."""

    def work(self, job: Job, stop: Stop) -> Any:
        """
        Do the work.

        :return: What :meth:`finish` is to know.
        :raises RunError: it cannot be done.
        """

    def finish(self, job: Job, result: Any, error: str | None) -> None:
        """Note the result, or the error, and in the same transaction that the job is done."""


class Engine:
    """
    One thread that decides what is due, and a thread for each piece of work.

    What is due is read from the store alone: so after a crash the next process carries on where this one was.

    :param context: The service.
    :param executors: Who does which kind of work.
    :param schedules: Have what has a schedule run by itself.
    """

    def __init__(self, context: Context, executors: Mapping[str, Executor], *, schedules: bool = True) -> None:
        self._context = context
        self._executors = executors
        self._schedule: Schedule | None = None
        self.have_schedules(wanted=schedules)
        self._looks = Looks(context.wake)
        #: Waits until there is nothing to do, and tells when there is more.
        self.settle = self._looks.settle
        self._stop = Stop()
        self._guard = threading.Lock()
        self._going: dict[int, threading.Thread] = {}
        self._dispatcher = threading.Thread()
        self._outage = context.outage
        #: How often the work of a job was interrupted because the state could not be written.
        self._interrupted: Counter[int] = Counter()

    def have_schedules(self, *, wanted: bool) -> None:
        """Have what has a schedule run by itself from now on, or not."""
        self._schedule = Schedule(self._context) if wanted else None

    def start(self) -> None:
        """Begin, with what the last process has left; or again, after :meth:`stop`, with what that has left."""
        self._stop = Stop()
        self._dispatcher = threading.Thread(target=self._dispatch, args=(self._stop,), name="dispatcher", daemon=True)
        self._dispatcher.start()

    def stop(self) -> bool:
        """
        Break off what is going on; it stays owed.

        :return: Whether all threads have ended. One that waits for a destination may take too long.
        """
        self._stop.request()
        self._context.wake.set()
        self._context.warehouse.interrupt()
        deadline = time.monotonic() + _SECONDS_TO_STOP
        self._dispatcher.join(_SECONDS_TO_STOP)
        with self._guard:
            threads = [self._dispatcher, *self._going.values()]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _dispatch(self, stop: Stop) -> None:
        while not stop.is_requested:
            self._context.wake.clear()
            try:
                # While the state cannot be written, nothing begins.
                seconds = self._step(stop) if self._outage.probe() else _SECONDS_BETWEEN_PROBES
            except Exception as defect:  # whatever went wrong with one job, the others are still owed
                if not self._outage.begin(defect) and not stop.is_requested:
                    log.exception("The engine stumbled")
                seconds = _SECONDS_AFTER_A_DEFECT
            if self._outage.is_on:
                # Nothing wakes it that would let it write.
                with suppress(StoppedError):
                    stop.pause(min(seconds, _SECONDS_BETWEEN_PROBES))
            else:
                self._context.wake.wait(seconds)

    def _step(self, stop: Stop) -> float:
        """Begin what is due and tell for how many seconds there is nothing more to do."""
        jobs, clock = self._context.store.jobs, self._context.clock
        # Read before anything else. A job that ends during this step counts as work: its end may let an orchestration
        # run advance, which only the next step does.
        with self._guard:
            going = set(self._going)
        next_fire = self._fire()
        until = orchestration.advance(self._context)
        # One moment for the whole step: what came due between two of them would be neither due nor waited for.
        now = clock.now()
        for job in jobs.all("WHERE NOT begun AND due_at <= ? ORDER BY due_at, seq", now):
            self._begin(job)
        free = _WORKERS - len(going)
        due = jobs.all(
            "WHERE begun AND due_at <= ? ORDER BY kind = ?, due_at, seq LIMIT ?",
            now,
            JobKind.QUERY_PREVIEW,
            2 * _WORKERS,
        )
        previews = sum(job.kind == JobKind.QUERY_PREVIEW and job.seq in going for job in due)
        for job in due:
            is_preview = job.kind == JobKind.QUERY_PREVIEW
            if free > 0 and job.seq not in going and not (is_preview and previews >= _MOST_PREVIEWS):
                free -= 1
                previews += is_preview
                self._start(job, stop)
        next_due = self._context.store.database.value("SELECT min(due_at) FROM jobs WHERE due_at > ?", now)
        next_moment = min((moment for moment in (next_fire, until, next_due) if moment is not None), default=None)
        sleep = _LONGEST_SLEEP if next_moment is None else min(clock.seconds_until(next_moment), _LONGEST_SLEEP)
        self._looks.note(has_work=bool(going or due) or sleep <= 0, next_moment=next_moment)
        return max(0.0, sleep)

    def _fire(self) -> Timestamp | None:
        # It may be taken away meanwhile.
        schedule = self._schedule
        if schedule is None:
            return None
        try:
            return schedule.fire()
        except Exception as defect:  # what is wrong with a schedule must not keep what was asked for from being done
            if not self._outage.begin(defect):
                log.exception("What is due by its schedule could not begin")
            return later(self._context.clock.now(), _SECONDS_AFTER_A_DEFECT)

    def _begin(self, job: Job) -> None:
        try:
            self._executors[job.kind].begin(job)
        except Exception as defect:  # what is wrong with one job must not keep the others from beginning
            if not self._outage.begin(defect):
                log.exception("%s of %s could not begin", job.kind, job.subject_id)

    def _start(self, job: Job, stop: Stop) -> None:
        thread = threading.Thread(target=self._do, args=(job, stop), name=f"{job.kind} {job.subject_id}", daemon=True)
        with self._guard:
            self._going[job.seq] = thread
        thread.start()

    def _do(self, job: Job, stop: Stop) -> None:
        try:
            self._execute(job, stop)
        except StoppedError:
            log.info("Left for the next start: %s of %s", job.kind, job.subject_id)
        except Exception as defect:  # its thread ends here; the job stays owed, and is tried again
            if stop.is_requested:
                log.info("Left for the next start: %s of %s", job.kind, job.subject_id)
            elif self._outage.begin(defect):
                # As after a kill, the job is carried on.
                self._interrupted[job.seq] += 1
            else:
                log.exception("The end of %s of %s could not be noted", job.kind, job.subject_id)
                # Not at once: it would fail as fast as it can be tried.
                with suppress(StoppedError):
                    stop.pause(_SECONDS_AFTER_A_DEFECT)
        finally:
            with self._guard:
                del self._going[job.seq]
            self._context.wake.set()

    def _execute(self, job: Job, stop: Stop) -> None:
        executor = self._executors[job.kind]
        result, error = None, None
        try:
            result = executor.work(job, stop)
        except StoppedError:
            raise
        except RunError as failure:
            error = str(failure)
        except Exception as defect:  # a defect of ours: the run must end, and say so, rather than go on for ever
            failed = storage.failure(defect, self._outage.folder)
            if failed is not None:
                # The state alone knows how far a run got: it is carried on once that can be written.
                if isinstance(defect, sqlite3.Error) and self._interrupted[job.seq] < _MOST_INTERRUPTIONS:
                    raise
                error = f"{failed.at(self._outage.folder)}, and run it again."
            else:
                if not stop.is_requested:
                    log.exception("%s of %s failed", job.kind, job.subject_id)
                error = f"datapipe-local itself failed ({type(defect).__name__}): see the service's log."
        # Work that was broken off looks as if it had failed.
        if error is not None:
            stop.check()
            log.warning("%s of %s failed: %s", job.kind, job.subject_id, error)
        self._finish(job, result, error, stop)

    def _finish(self, job: Job, result: Any, error: str | None, stop: Stop) -> None:
        """Note the result, once the state can be written: the work is not done again."""
        while True:
            try:
                self._executors[job.kind].finish(job, result, error)
            except Exception as failure:
                if stop.is_requested or not self._outage.begin(failure):
                    raise
            else:
                self._interrupted.pop(job.seq, None)
                return
            # The dispatcher finds out when the outage is over.
            self._context.wake.set()
            stop.pause(_SECONDS_BETWEEN_PROBES)
            while self._outage.is_on:
                stop.pause(_SECONDS_BETWEEN_PROBES)
