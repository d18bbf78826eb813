"""
One desk for each event loop and connection, where watchers of any kind of run are told what is new.

Each thing that is watched is looked at in turn by a task of its own, once for all its watchers. What is new to some of
them goes out as a report, which all get that share the desk's stream; each takes its own part.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import honored
from airflow_provider_datapipe.runs.clients import Clients, Reader, until_welcome
from airflow_provider_datapipe.runs.contact import Contact, is_of_connection
from airflow_provider_datapipe.runs.feeds import FEEDS, Feed, Interest, once
from airflow_provider_datapipe.runs.per_loop import PerLoop, shared
from airflow_provider_datapipe.runs.steps import adrive

log = logging.getLogger(__name__)

#: The most seconds between two looks at something that can't be looked at.
_LONGEST_PAUSE = 300.0
#: Seconds between two warnings of the same trouble.
_WARN_EVERY = 600.0
#: Seconds after which a cursor is stored though nothing was told: a restart then has less to look through.
_STORE_EVERY = 600.0
#: Seconds in which Airflow has stored an event, where it does not say so.
_STORED_WITHIN = 10.0
#: Seconds in which Airflow starts a DAG for an event. It gives that run no event that comes before it has started, and
#: starts no other for it: such an event waits for the next one, which may come tomorrow (seen with Airflow 3.3.2).
_STARTED_WITHIN = 5.0
#: Seconds for storing a cursor: Airflow never answers what it does not know.
_STORE_LIMIT = 30.0


#: What a watcher is told, and the cursor that may be stored then; None if that covers more than was told so far.
Part: TypeAlias = tuple[list[dict[str, Any]], dict[str, Any] | None]


class Member:
    """
    A watcher.

    :param feed: the name of the feed that it watches.
    :param key: which thing of that kind.
    :param interest: what it wants to know of that, and up to where it was told.
    :param outcomes: of which ends it wants to be told.
    :param poll_interval: seconds between two looks.
    :param store: keeps a cursor for the next start; None where nothing does.
    """

    def __init__(
        self,
        feed: str,
        key: str,
        interest: Interest,
        *,
        outcomes: Sequence[str],
        poll_interval: float,
        store: Callable[[dict[str, Any]], Awaitable[None]] | None,
    ) -> None:
        self.unit = (feed, key)
        self.resource_id = interest.resource_id
        self.options = interest.options
        self.cursor = interest.cursor
        self.poll_interval = poll_interval
        self._outcomes = frozenset(outcomes)
        self._store = store
        self._stored_at: float | None = None if interest.cursor is None else time.monotonic()
        #: Cursors of reports that were sent out, and are not known to be with Airflow for good.
        self._unsure: list[tuple[float, dict[str, Any] | None]] = []
        self._sent = 0
        #: The last of several events, which is kept back, and the cursor that covers it.
        self._held: Part | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gave_at = -_STARTED_WITHIN

    @property
    def interest(self) -> Interest:
        """What it wants to know next."""
        return Interest(self.resource_id, self.cursor, self.options)

    def wanted(self, payloads: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Leave out what it does not want to be told."""
        return [payload for payload in payloads if payload["outcome"] in self._outcomes]

    def give(
        self, payloads: list[dict[str, Any]], cursor: dict[str, Any], put: Callable[[Report], None]
    ) -> Part | None:
        """
        Tell what is to be told now, and the cursor that is covered by that; None if there is nothing.

        The last of several events comes so late that Airflow starts the DAG for it, and gives it those before; but not
        later than further events, which do the same.

        :param payloads: what is new.
        :param cursor: the cursor that covers it.
        :param put: sends out what is kept back, in its time.
        """
        if not payloads:
            return None
        now, sure = time.monotonic(), None
        if self._held:
            (kept, sure) = self._held
            payloads = [*kept, *payloads]
        self._forget()
        *first, last = payloads
        began = now if first else self._gave_at
        if began + _STARTED_WITHIN <= now:
            return self._sending([last], cursor)
        self._held = ([last], cursor)
        self._timer = asyncio.get_running_loop().call_later(began + _STARTED_WITHIN - now, self._release, put)
        return self._sending(first, sure) if first else None

    def _release(self, put: Callable[[Report], None]) -> None:
        if self._held:
            payloads, cursor = self._held
            self._forget()
            put(Report({self: self._sending(payloads, cursor)}))

    def _sending(self, payloads: list[dict[str, Any]], cursor: dict[str, Any] | None) -> Part:
        """Note that a report is on its way: no later cursor may be stored before this one."""
        self._sent += 1
        self._gave_at = time.monotonic()
        return payloads, cursor

    def leave(self) -> None:
        """Take word that it is told no more: what is kept back is told to whoever comes after it."""
        self._forget()

    def _forget(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._held = self._timer = None

    async def confirmed(self, cursor: dict[str, Any] | None) -> None:
        """Store the cursor of a report whose events Airflow has stored."""
        self._sent -= 1
        await self._keep(cursor)

    def told(self, cursor: dict[str, Any] | None) -> None:
        """Note the cursor of a report whose events Airflow was given, where it does not say when it has stored them."""
        self._unsure.append((time.monotonic(), cursor))

    async def looked(self) -> None:
        """Store what is due, after a look."""
        now = time.monotonic()
        sure = [cursor for at, cursor in self._unsure if now - at >= _STORED_WITHIN]
        if sure:
            del self._unsure[: len(sure)]
            self._sent -= len(sure)
            await self._keep(next((cursor for cursor in reversed(sure) if cursor), None))
        is_due = self._stored_at is None or now - self._stored_at >= _STORE_EVERY
        if not self._sent and not self._held and is_due:
            await self._keep(self.cursor)

    async def _keep(self, cursor: dict[str, Any] | None) -> None:
        if self._store is None or cursor is None:
            return
        try:
            async with asyncio.timeout(_STORE_LIMIT):
                await self._store(cursor)
        except Exception as error:  # noqa: BLE001 - whatever Airflow raises: what is not stored is told twice at worst
            log.warning("The cursor can't be stored, so that events may come twice: %s", error)
        else:
            self._stored_at = time.monotonic()


class Report:
    """
    What is new to some watchers.

    :param news: what each is to be told, and the cursor that may then be stored.
    """

    def __init__(self, news: dict[Member, Part]) -> None:
        self._news = news
        self._taken: list[Member] = []

    def of(self, member: Member) -> list[dict[str, Any]]:
        """Give what a watcher is to be told."""
        return self._news[member][0] if member in self._news else []

    def take(self, member: Member) -> None:
        """Take word that a watcher has passed on all of it."""
        if member in self._news:
            self._taken.append(member)

    async def confirm(self) -> None:
        """Take word that Airflow has stored all that was passed on."""
        for member in self._taken:
            await member.confirmed(self._news[member][1])

    def told(self, member: Member) -> None:
        """Take word that a watcher has passed on all of it, and that nobody will say when that is stored."""
        if member in self._news:
            member.told(self._news[member][1])


class _Unit:
    """
    One thing that is looked at, and its watchers.

    :param desk: where it belongs.
    :param feed: how it is looked at.
    """

    def __init__(self, desk: Desk, feed: Feed) -> None:
        self._desk = desk
        self._feed = feed
        self._failures = 0
        self._trouble: tuple[str, float] | None = None
        self._wake = asyncio.Event()
        self.members: dict[Member, float] = {}
        # In a context of its own: what it logs belongs to no single trigger.
        self.task = asyncio.create_task(self._run(), context=contextvars.Context())

    def join(self, member: Member) -> None:
        """Take a watcher in: it is told what is new at once."""
        self.members[member] = 0.0
        self._feed.renew()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            await self._sleep(min(self.members.values(), default=time.monotonic()) - time.monotonic())
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - a trigger that raises is restarted every other second for ever
                await self._back_off(error)
            else:
                self._recover()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _look(self) -> None:
        members = list(self.members)
        steps = self._feed.look([member.interest for member in members], time.time())
        async with self._desk.turn(in_doubt=self._failures > 0):
            news = await adrive(steps, self._desk.send, asyncio.sleep)
        parts: dict[Member, Part] = {}
        for member, (payloads, cursor) in zip(members, news, strict=True):
            if member not in self.members:
                continue
            self.members[member] = time.monotonic() + member.poll_interval
            member.cursor = cursor
            if part := member.give(member.wanted(payloads), cursor, self._desk.put):
                parts[member] = part
        if parts:
            self._desk.put(Report(parts))
        for member in members:
            if member in self.members:
                await member.looked()

    async def _back_off(self, error: Exception) -> None:
        what, now = str(error) or type(error).__name__, time.monotonic()
        if self._trouble is None or self._trouble[0] != what or now - self._trouble[1] >= _WARN_EVERY:
            self._trouble = (what, now)
            log.warning("%s %s can't be watched just now: %s", self._feed.kind, self._feed.key, what)
        self._failures += 1
        shortest = min((member.poll_interval for member in self.members), default=1.0)
        pause = min(_LONGEST_PAUSE, shortest * 2.0 ** min(self._failures - 1, 10))
        if isinstance(error, DatapipeError) and is_of_connection(error):
            # The connection itself says when it is tried again.
            pause = min(pause, shortest)
        asked = honored(error) if isinstance(error, DatapipeError) else None
        await asyncio.sleep(max(pause * random.uniform(0.5, 1), asked or 0))  # noqa: S311 - no secret

    def _recover(self) -> None:
        if self._trouble is not None:
            log.info("%s %s is watched again.", self._feed.kind, self._feed.key)
        self._failures = 0
        self._trouble = None


class Desk:
    """
    The desk of one connection; :func:`desk_of` makes and closes those that are shared.

    :param read: reads the connection.
    """

    def __init__(self, read: Reader) -> None:
        self._clients = Clients(read)
        self._contact = Contact(1)
        self._one_at_a_time = asyncio.Lock()
        self._units: dict[tuple[str, str], _Unit] = {}
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        #: How many use it.
        self.users = 0

    async def reports(self) -> AsyncIterator[Report]:
        """Give what is new, for ever."""
        while True:
            yield await self._reports.get()

    def put(self, report: Report) -> None:
        """Have a report sent out."""
        self._reports.put_nowait(report)

    @property
    def is_usable(self) -> bool:
        """Whether watchers can join it."""
        return True

    @asynccontextmanager
    async def joined(self, member: Member) -> AsyncIterator[None]:
        """Have something looked at while there are watchers of it."""
        unit = self._units.get(member.unit)
        if unit is None:
            feed, key = member.unit
            unit = self._units[member.unit] = _Unit(self, FEEDS[feed](key))
        unit.join(member)
        try:
            yield
        finally:
            del unit.members[member]
            member.leave()
            if not unit.members:
                # Before anything is awaited: whoever comes now makes a new one.
                del self._units[member.unit]
                await _cancel(unit.task)

    @asynccontextmanager
    async def turn(self, *, in_doubt: bool) -> AsyncIterator[None]:
        """
        Wait until the service can be asked: all stand back while it fails, and one goes ahead.

        :param in_doubt: the last answer was not as it should be: perhaps the connection has been changed.
        """
        async with self._one_at_a_time if self._contact.error else nullcontext():
            await until_welcome(self._contact)
            await self._clients.open()
            await self._clients.refresh(in_doubt=in_doubt or self._contact.error is not None)
            yield

    async def send(self, request: Request[Any]) -> Any:
        """
        Send a request.

        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        return await self._clients.ask(once(request), self._contact)

    async def close(self) -> None:
        """Stop what is under way, and close the connections."""
        for unit in list(self._units.values()):
            await _cancel(unit.task)
        await self._clients.close()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


_DESKS: PerLoop[Desk] = WeakKeyDictionary()


def desk_of(conn_id: str, read: Reader) -> AbstractAsyncContextManager[Desk]:
    """
    Give the desk of a connection and the running event loop, which is there while anybody uses it.

    :param conn_id: the connection.
    :param read: reads it.
    """
    return shared(_DESKS, conn_id, lambda: Desk(read))
