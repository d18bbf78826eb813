"""
Shared event poller, one per event loop and connection, for all kinds of events.

One asyncio task per resource polls it for all subscribers. New events go out as a batch to all subscribers that share
the stream of the poller, and each subscriber takes its own part.
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

#: The longest pause after failed polls, in seconds.
_LONGEST_PAUSE = 300.0
#: Seconds between two warnings about the same error.
_WARN_EVERY = 600.0
#: Seconds after which a cursor is stored without new events, so that a poller has fewer runs to read after a restart.
_STORE_EVERY = 600.0
#: Seconds after which Airflow should have stored an event, if it does not confirm this.
_STORED_WITHIN = 10.0
#: Seconds in which Airflow starts a DAG run for an event. Airflow does not pass events to this run that arrive before
#: it has started, and starts no other run for them: they wait for the next event (seen with Airflow 3.3.2).
_STARTED_WITHIN = 5.0
#: Time limit for storing a cursor, in seconds: Airflow does not answer requests that it does not know.
_STORE_LIMIT = 30.0


#: Events for a subscriber, and the cursor to store afterwards; None if the cursor covers events that were not sent yet.
Part: TypeAlias = tuple[list[dict[str, Any]], dict[str, Any] | None]


class Member:
    """
    A subscriber.

    :param feed: name of the event source.
    :param key: key of the resource in the event source.
    :param interest: subscription with the cursor of the subscriber.
    :param outcomes: outcomes of runs for which the subscriber gets events.
    :param poll_interval: seconds between two polls.
    :param store: function that stores a cursor for the next start; None if cursors are not stored.
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
        #: Cursors of events that were sent, but that Airflow may not have stored yet.
        self._unsure: list[tuple[float, dict[str, Any] | None]] = []
        self._sent = 0
        #: The last of several events, which is held back, and the cursor that covers it.
        self._held: Part | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gave_at = -_STARTED_WITHIN

    @property
    def interest(self) -> Interest:
        """Subscription with the current cursor."""
        return Interest(self.resource_id, self.cursor, self.options)

    def wanted(self, payloads: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the events whose outcomes the subscriber wants."""
        return [payload for payload in payloads if payload["outcome"] in self._outcomes]

    def give(
        self, payloads: list[dict[str, Any]], cursor: dict[str, Any], put: Callable[[Report], None]
    ) -> Part | None:
        """
        Return the events to send now and the cursor that covers them, None if there are no events to send.

        The last of several events in a short time is held back until Airflow has started a DAG run for the others. Then
        it starts another DAG run, which also gets the events that the first run missed. If further events arrive
        before, the event is sent with them.

        :param payloads: new events.
        :param cursor: the cursor that covers them.
        :param put: function that sends the event that is held back, when its time has come.
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
        """Count the events as sent: no later cursor may be stored before theirs."""
        self._sent += 1
        self._gave_at = time.monotonic()
        return payloads, cursor

    def leave(self) -> None:
        """Unsubscribe. Drop the event that is held back: its cursor is not stored, so the next subscriber gets it."""
        self._forget()

    def _forget(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._held = self._timer = None

    async def confirmed(self, cursor: dict[str, Any] | None) -> None:
        """Store the cursor of events that Airflow has stored."""
        self._sent -= 1
        await self._keep(cursor)

    def told(self, cursor: dict[str, Any] | None) -> None:
        """Remember the cursor of sent events, for an Airflow that does not confirm when it has stored them."""
        self._unsure.append((time.monotonic(), cursor))

    async def looked(self) -> None:
        """Store the cursors that are due, after a poll."""
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
        except Exception as error:  # noqa: BLE001 - any error of Airflow: without the cursor, events may be repeated
            log.warning("The cursor can't be stored, so that events may come twice: %s", error)
        else:
            self._stored_at = time.monotonic()


class Report:
    """
    New events for some subscribers.

    :param news: events of each subscriber, and the cursor to store afterwards.
    """

    def __init__(self, news: dict[Member, Part]) -> None:
        self._news = news
        self._taken: list[Member] = []

    def of(self, member: Member) -> list[dict[str, Any]]:
        """Return the events of a subscriber."""
        return self._news[member][0] if member in self._news else []

    def take(self, member: Member) -> None:
        """Mark the events of a subscriber as sent."""
        if member in self._news:
            self._taken.append(member)

    async def confirm(self) -> None:
        """Store the cursors of the sent events, because Airflow has stored these events."""
        for member in self._taken:
            await member.confirmed(self._news[member][1])

    def told(self, member: Member) -> None:
        """Mark the events of a subscriber as sent, for an Airflow that does not confirm when it has stored them."""
        if member in self._news:
            member.told(self._news[member][1])


class _Unit:
    """
    A resource that is polled, and its subscribers.

    :param desk: the event poller of the connection.
    :param feed: event source of the resource.
    """

    def __init__(self, desk: Desk, feed: Feed) -> None:
        self._desk = desk
        self._feed = feed
        self._failures = 0
        self._trouble: tuple[str, float] | None = None
        self._wake = asyncio.Event()
        self.members: dict[Member, float] = {}
        # An own context, because its log lines do not belong to a single trigger.
        self.task = asyncio.create_task(self._run(), context=contextvars.Context())

    def join(self, member: Member) -> None:
        """Add a subscriber, and poll immediately."""
        self.members[member] = 0.0
        self._feed.renew()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            await self._sleep(min(self.members.values(), default=time.monotonic()) - time.monotonic())
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - Airflow would restart a trigger that raises every few seconds
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
            # The backoff of the connection applies.
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
    Event poller of one connection. :func:`desk_of` creates and closes the shared ones.

    :param read: function that reads the Airflow connection.
    :param name: name of the connection in messages.
    """

    def __init__(self, read: Reader, name: str = "the Airflow connection") -> None:
        self._clients = Clients(read, name)
        self._contact = Contact(1)
        self._one_at_a_time = asyncio.Lock()
        self._units: dict[tuple[str, str], _Unit] = {}
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        #: Number of users.
        self.users = 0

    async def reports(self) -> AsyncIterator[Report]:
        """Yield new events, without end."""
        while True:
            yield await self._reports.get()

    def put(self, report: Report) -> None:
        """Add events to the stream."""
        self._reports.put_nowait(report)

    @property
    def is_usable(self) -> bool:
        """True, because subscribers can always join."""
        return True

    @asynccontextmanager
    async def joined(self, member: Member) -> AsyncIterator[None]:
        """Subscribe for the duration of the context. A resource is polled as long as it has subscribers."""
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
                # Remove it before the first await, so that a new subscriber creates another one.
                del self._units[member.unit]
                await _cancel(unit.task)

    @asynccontextmanager
    async def turn(self, *, in_doubt: bool) -> AsyncIterator[None]:
        """
        Wait until a request may be sent. While the service fails, only one resource is polled at a time.

        :param in_doubt: True if the last poll failed, so that the Airflow connection may have changed.
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
        """Cancel all tasks, and close the HTTP connections."""
        for unit in list(self._units.values()):
            await _cancel(unit.task)
        await self._clients.close()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


_DESKS: PerLoop[Desk] = WeakKeyDictionary()


def desk_of(conn_id: str, read: Reader) -> AbstractAsyncContextManager[Desk]:
    """
    Return a context manager for the shared event poller of a connection on the running event loop.

    :param conn_id: ID of the Airflow connection.
    :param read: function that reads it.
    """
    return shared(_DESKS, conn_id, lambda: Desk(read, f"the Airflow connection `{conn_id}`"))
