"""
Shared run poller, one per event loop and connection. The waits of a triggerer share its requests and HTTP connections.

A trigger adds its wait, and sleeps until the wait ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections import deque
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.backoff import ConnectionBackoff, is_of_connection
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.batch_wait import BatchWait
from airflow_provider_datapipe.runs.log_lines.progress import ProgressLines, ReportLine
from airflow_provider_datapipe.runs.polling.per_loop import PerLoop
from airflow_provider_datapipe.runs.polling.poll_schedule import PollRequest, PollSchedule, WaitOutcomes
from airflow_provider_datapipe.runs.polling.shared_client import Reader, SharedClient
from airflow_provider_datapipe.runs.wait import RunWait, WaitPolicy

log = logging.getLogger(__name__)

#: Number of waits in a group that ends at once. Airflow does work for each trigger that ends, on the event loop and in
#: threads. A thousand at once would block the event loop.
_GROUP_SIZE = 25
#: The shortest pause between two such groups, in seconds.
_GROUP_PAUSE = 0.002


class RunPoller:
    """
    Run poller of one connection on one event loop. :data:`shared_run_poller` creates and closes it.

    :param read: function that reads the Airflow connection.
    :param name: name of the connection in messages.
    """

    def __init__(self, read: Reader, name: str = "the Airflow connection") -> None:
        self._clients = SharedClient(read, name)
        self._schedule = PollSchedule()
        self._waits: dict[RunWait, tuple[BatchWait, asyncio.Future[None]]] = {}
        self._poll_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sending: dict[Request[Any], asyncio.Task[Any]] = {}
        self._wake = asyncio.Event()
        #: Futures of waits that have ended, but were not notified yet.
        self._finished: deque[asyncio.Future[None]] = deque()
        self._group_timer: asyncio.TimerHandle | None = None
        self._reporters: dict[BatchWait, _ProgressReporter] = {}
        #: Loggers of waits that have logged a loss of contact, but not its end.
        self._lost: set[_ProgressReporter] = set()
        self._was_lost = False
        #: Number of users.
        self.users = 0
        #: Unexpected exception that ended all waits; None if there was none. Further waits need a new poller.
        self.defect: Exception | None = None

    async def wait(self, batch: Batch, policy: WaitPolicy, report: ReportLine | None = None) -> None:
        """
        Wait for runs of a batch, as :func:`~airflow_provider_datapipe.runs.batch_wait.wait_for_some` does.

        :param batch: the batch, which is changed in place.
        :param policy: poll interval and time limits.
        :param report: function that logs progress, called in the context of the caller; None for no log lines.
        :raises Exception: if the Airflow connection cannot be read.
        """
        limit = time.time() + policy.contact_limit
        await self._clients.open_until(limit if policy.deadline is None else min(limit, policy.deadline))
        if self.defect is not None:
            raise self.defect
        self._schedule.backoff.widen(self._clients.most)
        wait = BatchWait(batch, policy, time.time())
        run_waits = wait.run_waits
        finished = asyncio.get_running_loop().create_future()
        reporter = None if report is None else _ProgressReporter(wait, report, self._schedule.backoff, self._lost)
        try:
            if reporter is not None:
                self._reporters[wait] = reporter
            for run_wait in run_waits:
                self._waits[run_wait] = (wait, finished)
                self._schedule.add(run_wait)
            if self._poll_task is None:
                # An own context, because its log lines do not belong to a single trigger.
                self._poll_task = asyncio.create_task(self._poll(), context=contextvars.Context())
            self._wake.set()
            if not wait.is_over:
                await finished
        finally:
            if reporter is not None:
                del self._reporters[wait]
                reporter.stop()
            self._discard(run_waits)
            wait.write_back()

    async def send(self, request: Request[Any], *, after_failure: bool = False) -> Any:
        """
        Send a request that belongs to no wait, with the shared backoff and HTTP connections.

        :param request: the request. If an equal one is being sent, both share its answer.
        :param after_failure: True if the last request of the caller failed. Then the Airflow connection is read again.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        sending = self._sending.get(request)
        if sending is None:
            sending = self._sending[request] = asyncio.create_task(
                self._send(request, after_failure=after_failure), context=contextvars.Context()
            )
            self._tasks.add(sending)
            sending.add_done_callback(lambda task: self._sent(request, task))
        # A canceled caller must not cancel the request for the others.
        return await asyncio.shield(sending)

    async def close(self) -> None:
        """Cancel all tasks, and close the HTTP connections."""
        tasks = [*self._tasks, *([self._poll_task] if self._poll_task else [])]
        for task in tasks:
            task.cancel()
        if self._group_timer is not None:
            self._group_timer.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._clients.close()

    async def _send(self, request: Request[Any], *, after_failure: bool) -> Any:
        await self._clients.open()
        backoff = self._schedule.backoff
        while (pause := backoff.paused_until - time.time()) > 0:  # noqa: ASYNC110 - the end may move during the sleep
            await asyncio.sleep(pause)
        await self._clients.refresh(after_failure=after_failure or backoff.error is not None)
        try:
            answer = await self._clients.send(request)
        except DatapipeError as error:
            if is_of_connection(error):
                backoff.failed(error, time.time())
            raise
        backoff.answered(time.time())
        return answer

    def _sent(self, request: Request[Any], task: asyncio.Task[Any]) -> None:
        self._sending.pop(request, None)
        self._tasks.discard(task)
        if not task.cancelled():
            # Retrieve the exception, so that asyncio does not log it if all callers were canceled.
            task.exception()

    @property
    def is_failing(self) -> bool:
        """True if requests fail, and their pauses grow."""
        return self._schedule.backoff.error is not None

    @property
    def is_usable(self) -> bool:
        """True if further waits can join. False after a defect has ended all waits."""
        return self.defect is None

    def _discard(self, run_waits: list[RunWait]) -> None:
        for run_wait in run_waits:
            self._schedule.discard(run_wait)
            self._waits.pop(run_wait, None)

    async def _poll(self) -> None:
        try:
            while True:
                await self._step()
        except Exception as error:  # noqa: BLE001 - a defect: all waits raise it, instead of waiting forever
            self._fail(error)

    async def _step(self) -> None:
        """Process overdue waits, send the polls that are due, and sleep until the next one is due or answered."""
        self._wake.clear()
        self._process_outcomes(self._schedule.overdue(time.time()))
        if self._schedule.is_due(time.time()):
            await self._clients.refresh(after_failure=self._schedule.backoff.error is not None)
            self._schedule.backoff.widen(self._clients.most)
        while (poll := self._schedule.next(time.time())) is not None:
            task = asyncio.create_task(self._poll_once(poll))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        now = time.time()
        alarm = asyncio.get_running_loop().call_later(max(self._schedule.wake_at(now) - now, 0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _poll_once(self, poll: PollRequest) -> None:
        try:
            try:
                answer = await self._clients.send(poll.request)
            except DatapipeError as error:
                ends = self._schedule.failed(poll, error, time.time())
            else:
                ends = self._schedule.answered(poll, answer, time.time())
            self._process_outcomes(ends)
            self._report_contact(poll)
        except Exception as error:  # noqa: BLE001 - as in _poll
            self._fail(error)
        self._wake.set()

    def _process_outcomes(self, ends: WaitOutcomes) -> None:
        for run_wait, end in ends:
            if run_wait not in self._waits:
                # It ended with another wait of its batch.
                continue
            wait, finished = self._waits.pop(run_wait)
            self._discard(wait.take(run_wait, end, is_reachable=not self.is_failing))
            if wait.is_over:
                self._finished.append(finished)
        if self._finished and self._group_timer is None:
            self._finish_group(0)

    def _finish_group(self, delay: float) -> None:
        """
        End a group of waits, and schedule the next group.

        :param delay: seconds by which the event loop is late, which extend the pause before the next group.
        """
        for _ in range(min(_GROUP_SIZE, len(self._finished))):
            finished = self._finished.popleft()
            if not finished.done():
                finished.set_result(None)
        loop = asyncio.get_running_loop()
        at = loop.time() + _GROUP_PAUSE + delay
        self._group_timer = loop.call_at(at, self._finish_next_group, at)

    def _finish_next_group(self, due: float) -> None:
        self._group_timer = None
        if self._finished:
            self._finish_group(asyncio.get_running_loop().time() - due)

    def _report_contact(self, poll: PollRequest) -> None:
        """Notify the waits that a request may concern of a loss of contact or its end, so that they log it."""
        is_lost = self._schedule.backoff.lost is not None
        affected = set(self._lost)
        if is_lost is not self._was_lost:
            affected.update(self._reporters.values())
        elif poll.is_direct:
            waits = [self._waits[run_wait][0] for run_wait in poll.run_waits if run_wait in self._waits]
            affected.update(self._reporters[wait] for wait in waits if wait in self._reporters)
        self._was_lost = is_lost
        for reporter in affected:
            reporter.check_contact(within=len(affected) * _GROUP_PAUSE)

    def _fail(self, error: Exception) -> None:
        log.error("The run poller failed: all of its waits end with this error.", exc_info=error)
        self.defect = error
        for _, finished in self._waits.values():
            if not finished.done():
                finished.set_exception(error)


class _ProgressReporter:
    """
    Log of the progress of a wait. A timer writes it in the context of the trigger, without waking the trigger.

    :param wait: the wait.
    :param report: function that logs a line.
    :param backoff: backoff of the connection, which knows whether contact with the service is lost.
    :param lost: shared set of instances that have logged a loss of contact, but not its end.
    """

    __slots__ = (
        "_backoff",
        "_contact_timer",
        "_context",
        "_lost",
        "_progress",
        "_progress_timer",
        "_report_line",
        "_wait",
    )

    def __init__(
        self, wait: BatchWait, report: ReportLine, backoff: ConnectionBackoff, lost: set[_ProgressReporter]
    ) -> None:
        self._wait = wait
        self._report_line = report
        self._backoff = backoff
        self._lost = lost
        self._context = contextvars.copy_context()
        self._contact_timer: asyncio.TimerHandle | None = None
        now = time.time()
        self._progress = ProgressLines(wait, now, random.random())  # noqa: S311 - jitter, not security
        self._progress_timer = asyncio.get_running_loop().call_later(self._progress.due - now, self._log_progress)
        # Other waits, or an earlier process, may have lost contact before.
        self._report_contact()

    def check_contact(self, *, within: float) -> None:
        """
        Log a loss of contact or its end, if it is new, in the context of the task.

        :param within: seconds over which the log lines of all waits are spread, so that they do not block the event
            loop.
        """
        if self._contact_timer is None:
            delay = within * random.random()  # noqa: S311 - jitter, not security
            self._contact_timer = asyncio.get_running_loop().call_later(
                delay, self._report_contact, context=self._context
            )

    def stop(self) -> None:
        """Stop logging, except for the end of a loss of contact."""
        self._progress_timer.cancel()
        if self._contact_timer is not None:
            self._contact_timer.cancel()
        if self._backoff.lost is None:
            self._report_contact()
        self._lost.discard(self)

    def _report_contact(self) -> None:
        self._contact_timer = None
        if line := self._wait.contact_line(self._backoff.lost, time.time()):
            self._report_line(*line)
        (self._lost.add if self._wait.is_lost else self._lost.discard)(self)

    def _log_progress(self) -> None:
        now = time.time()
        self._report_line(logging.INFO, self._progress.line(now, is_lost=self._backoff.lost is not None))
        self._progress_timer = asyncio.get_running_loop().call_later(self._progress.due - now, self._log_progress)


#: Context manager for the shared run poller of a connection on the running event loop.
shared_run_poller = PerLoop(lambda conn_id, read: RunPoller(read, f"the Airflow connection `{conn_id}`"))
