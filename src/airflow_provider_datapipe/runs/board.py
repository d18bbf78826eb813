"""
One poller for each event loop and connection: the waits of a triggerer share its requests and its connections.

A trigger says what it waits for, and sleeps until that is over. Nothing of it runs in between.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import Any
from weakref import WeakKeyDictionary

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.batch import Batch, BatchWait
from airflow_provider_datapipe.runs.clients import Clients, Reader, until_welcome
from airflow_provider_datapipe.runs.looks import Ends, Look, Looks
from airflow_provider_datapipe.runs.per_loop import PerLoop, shared
from airflow_provider_datapipe.runs.progress import Progress, Tell
from airflow_provider_datapipe.runs.wait import WaitPolicy, Watch

log = logging.getLogger(__name__)

#: How many waits end at a time. Airflow has work with each end, on the event loop and in threads that hold it up: a
#: thousand at once would block all that runs there.
_AT_A_TIME = 25
#: Seconds until the next ones end, at the least.
_BREATH = 0.002


class Board:
    """
    The poller of one connection on one event loop; :func:`joined` makes and closes it.

    :param read: reads the connection.
    """

    def __init__(self, read: Reader) -> None:
        self._clients = Clients(read)
        self._looks = Looks()
        self._waits: dict[Watch, tuple[BatchWait, asyncio.Future[None]]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self._asked: dict[Request[Any], asyncio.Task[Any]] = {}
        self._wake = asyncio.Event()
        #: Whose waits are over, but not yet told so.
        self._over: deque[asyncio.Future[None]] = deque()
        self._telling: asyncio.TimerHandle | None = None
        #: How many wait on it.
        self.users = 0
        #: The defect that has ended its waits: nobody is to join it any more.
        self.broken: Exception | None = None

    async def wait(self, batch: Batch, policy: WaitPolicy, tell: Tell | None = None) -> None:
        """
        Wait as :func:`~airflow_provider_datapipe.runs.batch.wait_for_some` does.

        :param batch: is changed in place.
        :param policy: how patient to be.
        :param tell: is told now and then how far it is, in the context of whoever waits.
        :raises Exception: whatever reading the connection raises.
        """
        limit = time.time() + policy.contact_limit
        await self._clients.open_until(limit if policy.deadline is None else min(limit, policy.deadline))
        if self.broken is not None:
            raise self.broken
        self._looks.contact.widen(self._clients.most)
        wait = BatchWait(batch, policy, time.time())
        watches = wait.watches
        over = asyncio.get_running_loop().create_future()
        teller = None if tell is None else _Teller(wait, tell)
        try:
            for watch in watches:
                self._waits[watch] = (wait, over)
                self._looks.add(watch)
            if self._poller is None:
                # In a context of its own: what it logs belongs to no trigger.
                self._poller = asyncio.create_task(self._poll(), context=contextvars.Context())
            self._wake.set()
            if not wait.is_over:
                await over
        finally:
            if teller is not None:
                teller.stop()
            self._let_go(watches)
            wait.settle()

    async def ask(self, request: Request[Any]) -> Any:
        """
        Send a request that is about no wait, with the patience and the connections of all.

        :param request: what to ask; an equal one that is under way is not sent again.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        asked = self._asked.get(request)
        if asked is None:
            asked = self._asked[request] = asyncio.create_task(self._ask(request), context=contextvars.Context())
            self._under_way.add(asked)
            asked.add_done_callback(lambda task: self._answered(request, task))
        # Whoever leaves does not take the answer from others.
        return await asyncio.shield(asked)

    async def close(self) -> None:
        """Stop what is under way, and close the connections."""
        tasks = [*self._under_way, *([self._poller] if self._poller else [])]
        for task in tasks:
            task.cancel()
        if self._telling is not None:
            self._telling.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._clients.close()

    async def _ask(self, request: Request[Any]) -> Any:
        await self._clients.open()
        contact = self._looks.contact
        await until_welcome(contact)
        await self._clients.refresh(in_doubt=contact.error is not None)
        return await self._clients.ask(request, contact)

    def _answered(self, request: Request[Any], task: asyncio.Task[Any]) -> None:
        self._asked.pop(request, None)
        self._under_way.discard(task)
        if not task.cancelled():
            # Where all who asked have left, nobody else hears of it.
            task.exception()

    @property
    def is_usable(self) -> bool:
        """Whether waits can join it: a defect ends all that do."""
        return self.broken is None

    def _let_go(self, watches: list[Watch]) -> None:
        for watch in watches:
            self._looks.discard(watch)
            self._waits.pop(watch, None)

    async def _poll(self) -> None:
        try:
            while True:
                await self._step()
        except Exception as error:  # noqa: BLE001 - a defect: whoever waits hears of it, instead of waiting for ever
            self._fail(error)

    async def _step(self) -> None:
        """Send what is due, then sleep until there is something to do."""
        self._wake.clear()
        self._take(self._looks.overdue(time.time()))
        if self._looks.is_due(time.time()):
            await self._clients.refresh(in_doubt=self._looks.contact.error is not None)
            self._looks.contact.widen(self._clients.most)
        while (look := self._looks.next(time.time())) is not None:
            task = asyncio.create_task(self._look(look))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        now = time.time()
        alarm = asyncio.get_running_loop().call_later(max(self._looks.wake_at(now) - now, 0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _look(self, look: Look) -> None:
        try:
            try:
                answer = await self._clients.send(look.request)
            except DatapipeError as error:
                ends = self._looks.failed(look, error, time.time())
            else:
                ends = self._looks.answered(look, answer, time.time())
            self._take(ends)
        except Exception as error:  # noqa: BLE001 - as in _poll
            self._fail(error)
        self._wake.set()

    def _take(self, ends: Ends) -> None:
        for watch, end in ends:
            if watch not in self._waits:
                # Given up with another of its batch.
                continue
            wait, over = self._waits.pop(watch)
            self._let_go(wait.take(watch, end))
            if wait.is_over:
                self._over.append(over)
        if self._over and self._telling is None:
            self._tell(0)

    def _tell(self, late: float) -> None:
        """Tell some that their waits are over; the more the loop is late, the more slowly."""
        for _ in range(min(_AT_A_TIME, len(self._over))):
            over = self._over.popleft()
            if not over.done():
                over.set_result(None)
        loop = asyncio.get_running_loop()
        at = loop.time() + _BREATH + late
        self._telling = loop.call_at(at, self._told, at)

    def _told(self, due: float) -> None:
        self._telling = None
        if self._over:
            self._tell(asyncio.get_running_loop().time() - due)

    def _fail(self, error: Exception) -> None:
        log.error("Waiting on the board broke: all of its waits end with this error.", exc_info=error)
        self.broken = error
        for _, over in self._waits.values():
            if not over.done():
                over.set_exception(error)


class _Teller:
    """
    Tells how far a wait is. Nobody wakes up for it: a timer has what is known, and what logs need of the context.

    :param wait: the wait.
    :param tell: takes a line.
    """

    __slots__ = ("_alarm", "_progress", "_tell")

    def __init__(self, wait: BatchWait, tell: Tell) -> None:
        self._tell = tell
        now = time.time()
        self._progress = Progress(wait, now, random.random())  # noqa: S311 - no secret
        self._alarm = asyncio.get_running_loop().call_later(self._progress.due - now, self._speak)

    def stop(self) -> None:
        """Say nothing more."""
        self._alarm.cancel()

    def _speak(self) -> None:
        now = time.time()
        self._tell(self._progress.line(now))
        self._alarm = asyncio.get_running_loop().call_later(self._progress.due - now, self._speak)


_BOARDS: PerLoop[Board] = WeakKeyDictionary()


def joined(conn_id: str, read: Reader) -> AbstractAsyncContextManager[Board]:
    """
    Give the board of a connection and the running event loop, which is there while anybody uses it.

    :param conn_id: the connection.
    :param read: reads it.
    """
    return shared(_BOARDS, conn_id, lambda: Board(read))


async def wait_on_board(conn_id: str, read: Reader, batch: Batch, policy: WaitPolicy, tell: Tell | None = None) -> None:
    """
    Wait on the board of a connection and the running event loop.

    :param conn_id: the connection.
    :param read: reads it.
    :param batch: is changed in place.
    :param policy: how patient to be.
    :param tell: is told now and then how far it is.
    :raises Exception: whatever reading the connection raises.
    """
    async with joined(conn_id, read) as board:
        await board.wait(batch, policy, tell)
