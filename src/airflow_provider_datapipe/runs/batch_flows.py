"""Flows that start the runs of a batch and wait for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.flows import send, sleep
from airflow_provider_datapipe.runs.batch import Batch, WaitingForOtherRun
from airflow_provider_datapipe.runs.batch_wait import BatchWait
from airflow_provider_datapipe.runs.conflicts import ActiveRunConflict, RunSkipped
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.log_lines.progress import ProgressLines, ReportLine
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.poll_schedule import PollSchedule
from airflow_provider_datapipe.runs.start import StartPolicy, start
from airflow_provider_datapipe.runs.task_state import StartRecord, TaskState, task_state_key
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason, WaitPolicy

#: The shortest pause of a wait in seconds, so that rounding does not cause a busy loop.
_SHORTEST_PAUSE = 0.001


async def start_queued(
    batch: Batch,
    records: TaskState,
    policy: StartPolicy,
    *,
    alone: bool,
    clock: Callable[[], float] = time.time,
) -> None:
    """
    Start queued runs, up to the limit of the batch.

    :param batch: the batch, which is changed in place.
    :param records: stored state of earlier tries of the task.
    :param policy: policy for starting runs.
    :param alone: True if the batch is a single run: errors and skips are raised. False to store the refusal of a run
        as the outcome of this run.
    :param clock: function that returns the current time in seconds since the epoch.
    :raises RunSkipped: if another run is active, and ``if_running`` is ``skip``.
    :raises DatapipeError: if the service cannot be reached, or does not accept the key.
    """
    kind = KINDS[batch.kind]
    while batch.has_room:
        target = batch.queued[0]
        reference = RunRef.to(batch.kind, target)
        try:
            seen = await start(kind, target, records, policy, clock)
        except ActiveRunConflict as blocked:
            batch.blocked.append(WaitingForOtherRun(blocked.observation.reference, target))
        except DatapipeError as error:
            about_others = not isinstance(error, InvalidRequestError | NotFoundError | RunConflictError)
            if alone or (about_others and not batch.waiting and not batch.ended):
                raise
            batch.ended.append(WaitOutcome(WaitOutcomeReason.NOT_STARTED, reference, Outcome.FAILED, detail=str(error)))
            if about_others:
                # The other requests would fail as well. Wait for the runs that were started.
                batch.give_up(batch.queued[1:], "the one before it could not be started")
        except RunSkipped as skipped:
            if alone:
                raise
            batch.ended.append(WaitOutcome(WaitOutcomeReason.SKIPPED, reference, Outcome.SKIPPED, detail=str(skipped)))
        else:
            batch.add(seen)
        # Remove the target last: if the code above raises, a retry finds it in the queue.
        batch.queued.pop(0)


async def wait_for_some(
    batch: Batch,
    policy: WaitPolicy,
    clock: Callable[[], float] = time.time,
    report: ReportLine | None = None,
    until: float = inf,
) -> None:
    """
    Wait until a queued run can be started, or, with an empty queue, until every run has ended.

    :param batch: the batch, which is changed in place.
    :param policy: poll interval and time limits.
    :param clock: function that returns the current time in seconds since the epoch.
    :param report: function that logs progress; None for no log lines.
    :param until: time at which the wait is interrupted; the runs remain in ``batch.waiting``.
    """
    wait = BatchWait(batch, policy, clock())
    progress = ProgressLines(wait, clock(), 0.0)
    schedule = PollSchedule()
    for watch in wait.watches:
        schedule.add(watch)
    while not wait.is_over and clock() < until:
        ends = schedule.overdue(clock())
        poll = None if ends else schedule.next(clock())
        if poll is not None:
            try:
                answer = await send(poll.request)
            except DatapipeError as error:
                ends = schedule.failed(poll, error, clock())
            else:
                ends = schedule.answered(poll, answer, clock())
        elif not ends:
            await sleep(max(min(schedule.wake_at(clock()), until) - clock(), _SHORTEST_PAUSE))
        for watch, end in ends:
            for gone in wait.take(watch, end):
                schedule.discard(gone)
        if report is not None and (line := wait.contact_line(schedule.contact.lost, clock())):
            report(*line)
        wait.write_back(schedule.contact.asked_until)
        if report is not None and clock() >= progress.due and not wait.is_over:
            report(logging.INFO, progress.line(clock(), is_lost=schedule.contact.lost is not None))


async def run_batch(
    batch: Batch,
    records: TaskState,
    start_policy: StartPolicy,
    wait_policy: WaitPolicy,
    *,
    alone: bool,
    clock: Callable[[], float] = time.time,
    report: ReportLine | None = None,
    limit: Callable[[Batch], float] | None = None,
) -> None:
    """
    Start the runs of a batch and wait until all have ended, or until a wait exceeds a limit.

    :param batch: the batch, which is changed in place.
    :param records: stored state of earlier tries of the task.
    :param start_policy: policy for starting runs.
    :param wait_policy: poll interval and time limits.
    :param alone: see :func:`start_queued`.
    :param clock: function that returns the current time in seconds since the epoch.
    :param report: function that logs progress; None for no log lines.
    :param limit: function that returns the longest wait, in seconds, until a queued run can be started or every run has
        ended; None for no limit.
    """
    while not batch.is_over:
        await start_queued(batch, records, start_policy, alone=alone, clock=clock)
        until = inf if limit is None else clock() + limit(batch)
        await wait_for_some(batch, wait_policy, clock, report, until)
        if clock() >= until and not batch.has_room:
            return


def finalize_task_state(batch: Batch, records: TaskState, failed: list[WaitOutcome], *, succeeded: bool) -> None:
    """
    Update the stored state of the task for later tries.

    A task that succeeds closes its records. If it is cleared, it runs again; if it is killed before Airflow stores its
    success, the retry continues with the finished runs. A task that fails keeps the records of runs that may be active,
    of runs that have succeeded, and of requests whose result is not known, so that a retry starts only the failed runs.
    It also keeps the record of a run that the service no longer knows: the retry verifies it.

    :param batch: the batch, in which all runs have ended.
    :param failed: outcomes that the task counts as failures.
    :param succeeded: True if the task succeeds.
    """
    for end in batch.ended:
        key = task_state_key(batch.kind, RunTarget(end.reference.resource_id, end.reference.name))
        if succeeded:
            records.close(key)
        elif end in failed and end.reason is WaitOutcomeReason.RUN_OVER:
            records.delete(key)
        elif end.reason is WaitOutcomeReason.NOT_SCHEDULED and (kept := records.get(key)):
            # The retry checks once if the run was scheduled since. If not, it requests a run.
            records.set(key, replace(StartRecord.from_dict(kept), reference=None).as_dict())
