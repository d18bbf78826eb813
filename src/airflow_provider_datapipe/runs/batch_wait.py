"""Wait for the runs of a batch: its state, without I/O and without a clock of its own, and flows that wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.flows import send, sleep
from airflow_provider_datapipe.runs.batch import Batch, WaitingForOtherRun, start_queued
from airflow_provider_datapipe.runs.log_lines.contact import ContactLog, LogLine
from airflow_provider_datapipe.runs.log_lines.progress import ProgressLines, ReportLine
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.poll_schedule import PollSchedule
from airflow_provider_datapipe.runs.start import StartPolicy
from airflow_provider_datapipe.runs.task_state import TaskState
from airflow_provider_datapipe.runs.wait import RunWait, WaitOutcome, WaitOutcomeReason, WaitPolicy

#: The most seconds until the first poll of a blocking run (of another client).
_BLOCKED_PAUSE = 5.0
#: The most seconds for which the first polls in a triggerer wait, if the clocks of worker and triggerer differ.
_LONGEST_DELAY = 300.0
#: The shortest pause of a wait in seconds, so that rounding does not cause a busy loop.
_SHORTEST_PAUSE = 0.001


class BatchWait:
    """
    The wait for runs of a batch: until a queued run can be started, or, with an empty queue, until all have ended.

    :param batch: the batch, which is changed in place.
    :param policy: poll interval and time limits.
    :param now: current time in seconds since the epoch.
    """

    __slots__ = ("_batch", "_contact_log", "_targets", "_was_answered", "size")

    def __init__(self, batch: Batch, policy: WaitPolicy, now: float) -> None:
        self._batch = batch
        self._contact_log = ContactLog(batch.lost_since)
        #: True if the wait for the last run ended with an answer of the service.
        self._was_answered = False
        #: Number of all runs of the batch.
        self.size = len(batch.queued) + len(batch.waiting) + len(batch.blocked) + len(batch.ended)
        #: Target to start when the run has ended; None for the batch's own runs.
        self._targets: dict[RunWait, RunTarget | None] = {
            RunWait(reference, policy, now): None for reference in batch.waiting
        }
        for each in batch.blocked:
            run_wait = RunWait(each.by, policy, now)
            # This run was polled when the start was refused. Replicas that disagree must not cause a busy loop.
            run_wait.delay_first_poll(now, _BLOCKED_PAUSE)
            self._targets[run_wait] = each.target
        if batch.poll_after is not None:
            for run_wait in self._targets:
                run_wait.postpone(min(batch.poll_after, now + _LONGEST_DELAY))

    @property
    def run_waits(self) -> list[RunWait]:
        """The waits for the single runs."""
        return list(self._targets)

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return len(self._batch.ended)

    @property
    def queued(self) -> int:
        """Number of queued runs."""
        return len(self._batch.queued)

    @property
    def is_over(self) -> bool:
        """True if a queued run can be started, or no run is left to wait for."""
        # The batch lists ended runs as active until write_back() is called.
        return not self._targets or self._batch.has_room_for(len(self._targets))

    def take(self, run_wait: RunWait, end: WaitOutcome, *, is_reachable: bool = False) -> list[RunWait]:
        """
        Process the outcome of the wait for one run. Return the other waits that end because of it.

        :param run_wait: the wait.
        :param end: its outcome.
        :param is_reachable: True if the service answers other requests, so that a loss of contact concerns one run.
        """
        if run_wait not in self._targets:
            return []
        batch, blocked = self._batch, self._targets.pop(run_wait)
        is_failed = end.reason in (WaitOutcomeReason.TIMEOUT, WaitOutcomeReason.LOST_CONTACT)
        self._was_answered = not is_failed
        if blocked is None:
            batch.ended.append(end)
        elif is_failed:
            batch.ended.append(_not_started(RunRef.to(batch.kind, blocked), end))
        else:
            # The blocking run has ended, with any outcome.
            batch.queued.insert(0, blocked)
        only_this_run = end.reason is WaitOutcomeReason.LOST_CONTACT and is_reachable
        if not is_failed or (only_this_run and (batch.at_a_time is None or batch.lost < batch.at_a_time)):
            return []
        # Do not start further runs: the service does not answer, the deadline has passed, or lost runs take all places.
        others = {run_wait: target for run_wait, target in self._targets.items() if target}
        reason = f"the wait for another run failed ({end.reason})"
        batch.mark_not_started([*batch.queued, *others.values()], reason)
        for other in others:
            del self._targets[other]
        return list(others)

    @property
    def is_lost(self) -> bool:
        """True if a loss of contact was logged, but not its end."""
        return self._contact_log.lost_since is not None

    def contact_line(self, lost: DatapipeError | None, now: float) -> LogLine | None:
        """
        Return the log line for a loss of contact or for its end, None if there is nothing new.

        :param lost: the failure while contact with the service is lost, None while there is contact.
        :param now: current time in seconds since the epoch.
        """
        error = lost or next((run_wait.lost for run_wait in self._targets if run_wait.lost), None)
        if error is not None:
            return self._contact_log.failed(error, now)
        if not self.is_lost:
            return None
        # Another process may have logged the loss. Then this process has to poll before it can log the end.
        is_answered = all(run_wait.was_seen for run_wait in self._targets) if self._targets else self._was_answered
        return self._contact_log.answered(now) if is_answered else None

    def write_back(self, asked_until: float = 0.0) -> None:
        """
        Write the state of the unfinished runs into the batch.

        :param asked_until: time before which the service does not want to be polled, in seconds since the epoch.
        """
        batch = self._batch
        batch.lost_since = self._contact_log.lost_since
        batch.waiting = [run_wait.reference for run_wait, target in self._targets.items() if target is None]
        batch.blocked = [
            WaitingForOtherRun(run_wait.reference, target) for run_wait, target in self._targets.items() if target
        ]
        batch.poll_after = max([asked_until, *(run_wait.poll_after or 0.0 for run_wait in self._targets)]) or None


def _not_started(reference: RunRef, end: WaitOutcome) -> WaitOutcome:
    """
    Return the outcome of a run that was not started, because the wait for another run failed.

    :param reference: the run that was not started.
    :param end: outcome of the wait for the other run.
    """
    other = f"run {end.reference.run_id}" if end.reference.run_id else "the scheduled run"
    detail = f"{other} has to end first, but did not end in time"
    if end.reason is WaitOutcomeReason.LOST_CONTACT:
        detail = f"{other} has to end first, but contact with the service was lost {end.detail}"
    return WaitOutcome(WaitOutcomeReason.NOT_STARTED, reference, Outcome.SCHEDULED, detail=detail, cause=end.reason)


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
    for run_wait in wait.run_waits:
        schedule.add(run_wait)
    while not wait.is_over and clock() < until:
        ends = schedule.overdue(clock())
        poll = None if ends else schedule.next(clock())
        if poll is not None:
            try:
                answer = await send(replace(poll.request, permit_by=policy.last_poll_at))
            except DatapipeError as error:
                ends = schedule.failed(poll, error, clock())
            else:
                ends = schedule.answered(poll, answer, clock())
        elif not ends:
            await sleep(max(min(schedule.wake_at(clock()), until) - clock(), _SHORTEST_PAUSE))
        for run_wait, end in ends:
            for other in wait.take(run_wait, end, is_reachable=schedule.backoff.error is None):
                schedule.discard(other)
        if report is not None and (line := wait.contact_line(schedule.backoff.lost, clock())):
            report(*line)
        wait.write_back(schedule.backoff.asked_until)
        if report is not None and clock() >= progress.due and not wait.is_over:
            report(logging.INFO, progress.line(clock(), is_lost=schedule.backoff.lost is not None))


async def run_batch(
    batch: Batch,
    task_state: TaskState,
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
    :param task_state: stored state of earlier tries of the task.
    :param start_policy: policy for starting runs.
    :param wait_policy: poll interval and time limits.
    :param alone: see :func:`~.batch.start_queued`.
    :param clock: function that returns the current time in seconds since the epoch.
    :param report: function that logs progress; None for no log lines.
    :param limit: function that returns the longest wait, in seconds, until a queued run can be started or every run has
        ended; None for no limit.
    """
    while not batch.is_over:
        await start_queued(batch, task_state, start_policy, alone=alone, clock=clock)
        until = inf if limit is None else clock() + limit(batch)
        await wait_for_some(batch, wait_policy, clock, report, until)
        if clock() >= until and not batch.has_room:
            return
