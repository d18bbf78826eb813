"""Engine: executes jobs of the service in the background."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from datapipe_local.common.errors import RunError
from datapipe_local.engine import orchestration_runs
from datapipe_local.engine.idle_tracker import IdleTracker
from datapipe_local.engine.schedule import Schedule
from datapipe_local.engine.stop import Stop, StoppedError
from datapipe_local.storage import write_failures
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import JobKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp
    from datapipe_local.storage.records import Job

log = logging.getLogger(__name__)

_WORKERS = 8
# Query previews leave workers for runs.
_MOST_PREVIEWS = 4
_SECONDS_TO_STOP = 3.0
# Wake-ups cover all known events. This limit covers others, such as a changed machine clock.
_LONGEST_SLEEP = 30.0
_SECONDS_AFTER_A_DEFECT = 1.0
_SECONDS_BETWEEN_PROBES = 1.0
# A run that always needs more disk space than there is must fail in the end.
_MOST_INTERRUPTIONS = 3


class Executor(Protocol):
    """Executor of one kind of job. Each step can be interrupted by the end of the process, and is then repeated."""

    def begin(self, job: Job) -> None:
        """Record that a run has started, and store in the job when its work is due."""

    def work(self, job: Job, stop: Stop) -> Any:
        """
        Execute the job.

        :return: The result for :meth:`finish`.
        :raises RunError: the job fails.
        """

    def finish(self, job: Job, result: Any, error: str | None) -> None:
        """Record the result or the error, and in the same transaction the end of the job."""


class Engine:
    """
    Background execution with one dispatcher thread, and one thread per running job.

    The dispatcher reads due jobs from the store only. Therefore, after a crash, the next process continues them.

    :param context: The service.
    :param executors: The executors by kind of job.
    :param schedules: Start scheduled runs.
    """

    def __init__(self, context: Context, executors: Mapping[str, Executor], *, schedules: bool = True) -> None:
        self._context = context
        self._executors = executors
        self._schedule: Schedule | None = None
        self.have_schedules(wanted=schedules)
        self._idle = IdleTracker(context.wake)
        #: Waits until there is no work, and returns when there will be more.
        self.wait_until_idle = self._idle.wait_until_idle
        self._stop = Stop()
        self._guard = threading.Lock()
        self._going: dict[int, threading.Thread] = {}
        self._dispatcher = threading.Thread()
        self._outage = context.outage
        #: Number of interruptions of each job by failed writes of the state.
        self._interrupted: Counter[int] = Counter()

    def have_schedules(self, *, wanted: bool) -> None:
        """Turn scheduled runs on or off."""
        self._schedule = Schedule(self._context) if wanted else None

    def start(self) -> None:
        """Start the engine, or start it again after :meth:`stop`. It continues the unfinished jobs."""
        self._stop = Stop()
        self._dispatcher = threading.Thread(target=self._dispatch, args=(self._stop,), name="dispatcher", daemon=True)
        self._dispatcher.start()

    def stop(self) -> bool:
        """
        Stop the engine and interrupt running jobs, which stay in the store.

        :return: True if all threads have ended. A thread that waits for a destination may take longer.
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
                # While the state cannot be written, no job starts.
                seconds = self._step(stop) if self._outage.probe() else _SECONDS_BETWEEN_PROBES
            except Exception as defect:  # other jobs must continue after a defect in one
                if not self._outage.begin(defect) and not stop.is_requested:
                    log.exception("The engine failed in one step, and continues")
                seconds = _SECONDS_AFTER_A_DEFECT
            if self._outage.is_on:
                # No wake-up announces that writes succeed again.
                with suppress(StoppedError):
                    stop.pause(min(seconds, _SECONDS_BETWEEN_PROBES))
            else:
                self._context.wake.wait(seconds)

    def _step(self, stop: Stop) -> float:
        """Start due jobs. Return the number of seconds until the next one is due."""
        jobs, clock = self._context.store.jobs, self._context.clock
        # Read this first. A job that ends during this step counts as work: its end may let an orchestration run
        # advance, which only the next step does.
        with self._guard:
            going = set(self._going)
        next_fire = self._fire()
        until = orchestration_runs.advance(self._context)
        # Use one time for the whole step: a job that comes due during it would otherwise be missed.
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
        self._idle.note(has_work=bool(going or due) or sleep <= 0, next_moment=next_moment)
        return max(0.0, sleep)

    def _fire(self) -> Timestamp | None:
        # Another thread may remove it at any time.
        schedule = self._schedule
        if schedule is None:
            return None
        try:
            return schedule.fire()
        except Exception as defect:  # a defect in a schedule must not block requested runs
            if not self._outage.begin(defect):
                log.exception("Due schedules could not start their runs")
            return later(self._context.clock.now(), _SECONDS_AFTER_A_DEFECT)

    def _begin(self, job: Job) -> None:
        try:
            self._executors[job.kind].begin(job)
        except Exception as defect:  # a defect in one job must not block the others
            if not self._outage.begin(defect):
                log.exception("%s of %s could not start", job.kind, job.subject_id)

    def _start(self, job: Job, stop: Stop) -> None:
        thread = threading.Thread(target=self._do, args=(job, stop), name=f"{job.kind} {job.subject_id}", daemon=True)
        with self._guard:
            self._going[job.seq] = thread
        thread.start()

    def _do(self, job: Job, stop: Stop) -> None:
        try:
            self._execute(job, stop)
        except StoppedError:
            log.info("%s of %s continues at the next start of the service", job.kind, job.subject_id)
        except Exception as defect:  # the thread ends here; the job stays in the store and is retried
            if stop.is_requested:
                log.info("%s of %s continues at the next start of the service", job.kind, job.subject_id)
            elif self._outage.begin(defect):
                # The job continues later, as after a kill.
                self._interrupted[job.seq] += 1
            else:
                log.exception("The end of %s of %s could not be recorded", job.kind, job.subject_id)
                # Wait: an immediate retry would fail again in a busy loop.
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
        except Exception as defect:  # a defect of the service: fail the run instead of retrying forever
            failed = write_failures.failure(defect, self._outage.folder)
            if failed is not None:
                # Only the state knows how far the run got: continue it once the state can be written.
                if isinstance(defect, sqlite3.Error) and self._interrupted[job.seq] < _MOST_INTERRUPTIONS:
                    raise
                error = f"{failed.at(self._outage.folder)}, and run it again."
            else:
                if not stop.is_requested:
                    log.exception("%s of %s failed", job.kind, job.subject_id)
                error = f"datapipe-local itself failed ({type(defect).__name__}): see the service's log."
        # Interrupted work looks like failed work.
        if error is not None:
            stop.check()
            log.warning("%s of %s failed: %s", job.kind, job.subject_id, error)
        self._finish(job, result, error, stop)

    def _finish(self, job: Job, result: Any, error: str | None, stop: Stop) -> None:
        """Record the result, and wait until the state can be written if necessary. The work is not repeated."""
        while True:
            try:
                self._executors[job.kind].finish(job, result, error)
            except Exception as failure:
                if stop.is_requested or not self._outage.begin(failure):
                    raise
            else:
                self._interrupted.pop(job.seq, None)
                return
            # The dispatcher detects the end of the outage.
            self._context.wake.set()
            stop.pause(_SECONDS_BETWEEN_PROBES)
            while self._outage.is_on:
                stop.pause(_SECONDS_BETWEEN_PROBES)
