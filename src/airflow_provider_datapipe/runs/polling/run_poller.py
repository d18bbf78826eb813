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
from airflow_provider_datapipe.runs.backoff import ConnectionBackoff
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.batch_wait import BatchWait
from airflow_provider_datapipe.runs.log_lines.progress import ProgressLines, ReportLine
from airflow_provider_datapipe.runs.polling.per_loop import PerLoop
from airflow_provider_datapipe.runs.polling.poll_schedule import PollRequest, PollSchedule, WaitOutcomes
from airflow_provider_datapipe.runs.polling.shared_client import Reader, SharedClient, until_welcome
from airflow_provider_datapipe.runs.wait import RunWait, WaitPolicy

log = logging.getLogger(__name__)

#: Number of waits that end at a time. Airflow does work for each trigger that ends, on the event loop and in threads. A
#: thousand at once would block the event loop.
_AT_A_TIME = 25
#: The shortest interval between two groups of waits that end, in seconds.
_BREATH = 0.002


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
        self._poller: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self._asked: dict[Request[Any], asyncio.Task[Any]] = {}
        self._wake = asyncio.Event()
        #: Futures of waits that have ended, but were not notified yet.
        self._over: deque[asyncio.Future[None]] = deque()
        self._reporting: asyncio.TimerHandle | None = None
        self._reporters: dict[BatchWait, _ProgressReporter] = {}
        #: Loggers of waits that have logged a loss of contact, but not its end.
        self._lost: set[_ProgressReporter] = set()
        self._was_lost = False
        #: Number of users.
        self.users = 0
        #: The defect that has ended the waits, None otherwise. Further waits need a new poller.
        self.broken: Exception | None = None

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
        if self.broken is not None:
            raise self.broken
        self._schedule.contact.widen(self._clients.most)
        wait = BatchWait(batch, policy, time.time())
        watches = wait.watches
        over = asyncio.get_running_loop().create_future()
        reporter = None if report is None else _ProgressReporter(wait, report, self._schedule.contact, self._lost)
        try:
            if reporter is not None:
                self._reporters[wait] = reporter
            for watch in watches:
                self._waits[watch] = (wait, over)
                self._schedule.add(watch)
            if self._poller is None:
                # An own context, because its log lines do not belong to a single trigger.
                self._poller = asyncio.create_task(self._poll(), context=contextvars.Context())
            self._wake.set()
            if not wait.is_over:
                await over
        finally:
            if reporter is not None:
                del self._reporters[wait]
                reporter.stop()
            self._let_go(watches)
            wait.write_back()

    async def ask(self, request: Request[Any], *, in_doubt: bool = False) -> Any:
        """
        Send a request that belongs to no wait, with the shared backoff and HTTP connections.

        :param request: the request. If an equal one is being sent, both share its answer.
        :param in_doubt: True if the last request of the caller failed, so that the Airflow connection may have changed.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        asked = self._asked.get(request)
        if asked is None:
            asked = self._asked[request] = asyncio.create_task(
                self._ask(request, in_doubt=in_doubt), context=contextvars.Context()
            )
            self._under_way.add(asked)
            asked.add_done_callback(lambda task: self._answered(request, task))
        # A canceled caller must not cancel the request for the others.
        return await asyncio.shield(asked)

    async def close(self) -> None:
        """Cancel all tasks, and close the HTTP connections."""
        tasks = [*self._under_way, *([self._poller] if self._poller else [])]
        for task in tasks:
            task.cancel()
        if self._reporting is not None:
            self._reporting.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._clients.close()

    async def _ask(self, request: Request[Any], *, in_doubt: bool) -> Any:
        await self._clients.open()
        contact = self._schedule.contact
        await until_welcome(contact)
        await self._clients.refresh(in_doubt=in_doubt or contact.error is not None)
        return await self._clients.ask(request, contact)

    def _answered(self, request: Request[Any], task: asyncio.Task[Any]) -> None:
        self._asked.pop(request, None)
        self._under_way.discard(task)
        if not task.cancelled():
            # Retrieve the exception, so that asyncio does not log it if all callers were canceled.
            task.exception()

    @property
    def is_failing(self) -> bool:
        """True if requests fail, and their pauses grow."""
        return self._schedule.contact.error is not None

    @property
    def is_usable(self) -> bool:
        """True if further waits can join. False after a defect has ended all waits."""
        return self.broken is None

    def _let_go(self, watches: list[RunWait]) -> None:
        for watch in watches:
            self._schedule.discard(watch)
            self._waits.pop(watch, None)

    async def _poll(self) -> None:
        try:
            while True:
                await self._step()
        except Exception as error:  # noqa: BLE001 - a defect: all waits raise it, instead of waiting forever
            self._fail(error)

    async def _step(self) -> None:
        """Send the polls that are due, then sleep until the next one is due or an answer arrives."""
        self._wake.clear()
        self._take(self._schedule.overdue(time.time()))
        if self._schedule.is_due(time.time()):
            await self._clients.refresh(in_doubt=self._schedule.contact.error is not None)
            self._schedule.contact.widen(self._clients.most)
        while (poll := self._schedule.next(time.time())) is not None:
            task = asyncio.create_task(self._poll_once(poll))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
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
            self._take(ends)
            self._report_contact(poll)
        except Exception as error:  # noqa: BLE001 - as in _poll
            self._fail(error)
        self._wake.set()

    def _take(self, ends: WaitOutcomes) -> None:
        for watch, end in ends:
            if watch not in self._waits:
                # It ended with another wait of its batch.
                continue
            wait, over = self._waits.pop(watch)
            self._let_go(wait.take(watch, end))
            if wait.is_over:
                self._over.append(over)
        if self._over and self._reporting is None:
            self._report_line(0)

    def _report_line(self, late: float) -> None:
        """End a group of waits, and schedule the next group. The later the event loop runs, the longer the pause."""
        for _ in range(min(_AT_A_TIME, len(self._over))):
            over = self._over.popleft()
            if not over.done():
                over.set_result(None)
        loop = asyncio.get_running_loop()
        at = loop.time() + _BREATH + late
        self._reporting = loop.call_at(at, self._reported, at)

    def _reported(self, due: float) -> None:
        self._reporting = None
        if self._over:
            self._report_line(asyncio.get_running_loop().time() - due)

    def _report_contact(self, poll: PollRequest) -> None:
        """Notify the waits that a request may concern of a loss of contact or its end, so that they log it."""
        is_lost = self._schedule.contact.lost is not None
        concerned = set(self._lost)
        if is_lost is not self._was_lost:
            concerned.update(self._reporters.values())
        elif poll.is_direct:
            waits = [self._waits[watch][0] for watch in poll.watches if watch in self._waits]
            concerned.update(self._reporters[wait] for wait in waits if wait in self._reporters)
        self._was_lost = is_lost
        for reporter in concerned:
            reporter.check_contact(within=len(concerned) * _BREATH)

    def _fail(self, error: Exception) -> None:
        log.error("The run poller failed: all of its waits end with this error.", exc_info=error)
        self.broken = error
        for _, over in self._waits.values():
            if not over.done():
                over.set_exception(error)


class _ProgressReporter:
    """
    Log of the progress of a wait. A timer writes it in the context of the task, without waking the trigger.

    :param wait: the wait.
    :param report: function that logs a line.
    :param contact: the contact with the service.
    :param lost: shared set of instances that have logged a loss of contact, but not its end.
    """

    __slots__ = ("_alarm", "_check", "_contact", "_context", "_lost", "_progress", "_report_line", "_wait")

    def __init__(
        self, wait: BatchWait, report: ReportLine, contact: ConnectionBackoff, lost: set[_ProgressReporter]
    ) -> None:
        self._wait = wait
        self._report_line = report
        self._contact = contact
        self._lost = lost
        self._context = contextvars.copy_context()
        self._check: asyncio.TimerHandle | None = None
        now = time.time()
        self._progress = ProgressLines(wait, now, random.random())  # noqa: S311 - no secret
        self._alarm = asyncio.get_running_loop().call_later(self._progress.due - now, self._speak)
        # Other waits, or an earlier process, may have lost contact before.
        self._report_contact()

    def check_contact(self, *, within: float) -> None:
        """
        Log a loss of contact or its end, if it is new, in the context of the task.

        :param within: seconds over which the log lines of all waits are spread, so that they do not block the event
            loop.
        """
        if self._check is None:
            delay = within * random.random()  # noqa: S311 - no secret
            self._check = asyncio.get_running_loop().call_later(delay, self._report_contact, context=self._context)

    def stop(self) -> None:
        """Stop logging, except for the end of a loss of contact."""
        self._alarm.cancel()
        if self._check is not None:
            self._check.cancel()
        if self._contact.lost is None:
            self._report_contact()
        self._lost.discard(self)

    def _report_contact(self) -> None:
        self._check = None
        if line := self._wait.contact_line(self._contact.lost, time.time()):
            self._report_line(*line)
        (self._lost.add if self._wait.is_lost else self._lost.discard)(self)

    def _speak(self) -> None:
        now = time.time()
        self._report_line(logging.INFO, self._progress.line(now, is_lost=self._contact.lost is not None))
        self._alarm = asyncio.get_running_loop().call_later(self._progress.due - now, self._speak)


#: Context manager for the shared run poller of a connection on the running event loop.
shared_run_poller = PerLoop(lambda conn_id, read: RunPoller(read, f"the Airflow connection `{conn_id}`"))
