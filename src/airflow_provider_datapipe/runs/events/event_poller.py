"""
Shared event poller, one per event loop and connection, for all kinds of events.

One asyncio task per resource polls it for all subscribers. New events go out as a batch to all subscribers that share
the stream of the poller, and each subscriber takes its own part.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeAlias

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import requested_delay
from airflow_provider_datapipe.flows import run_async
from airflow_provider_datapipe.runs.backoff import delay_after, is_of_connection
from airflow_provider_datapipe.runs.events.event_sources import EVENT_SOURCES, EventSource, Subscription
from airflow_provider_datapipe.runs.polling.per_loop import PerLoop
from airflow_provider_datapipe.runs.polling.run_poller import RunPoller, shared_run_poller
from airflow_provider_datapipe.runs.polling.shared_client import Reader

log = logging.getLogger(__name__)

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
SubscriberEvents: TypeAlias = tuple[list[dict[str, Any]], dict[str, Any] | None]


class Subscriber:
    """
    A subscriber.

    :param source: name of the event source.
    :param key: key of the resource in the event source.
    :param subscription: subscription with the cursor of the subscriber.
    :param outcomes: outcomes of runs for which the subscriber gets events.
    :param poll_interval: seconds between two polls.
    :param store: function that stores a cursor for the next start; None if cursors are not stored.
    """

    def __init__(
        self,
        source: str,
        key: str,
        subscription: Subscription,
        *,
        outcomes: Sequence[str],
        poll_interval: float,
        store: Callable[[dict[str, Any]], Awaitable[None]] | None,
    ) -> None:
        self.resource = (source, key)
        self.options = subscription.options
        self.cursor = subscription.cursor
        self.poll_interval = poll_interval
        self._outcomes = frozenset(outcomes)
        self._store = store
        self._stored_at: float | None = None if subscription.cursor is None else time.monotonic()
        #: Cursors of events that were sent, but that Airflow may not have stored yet.
        self._unconfirmed: list[tuple[float, dict[str, Any] | None]] = []
        self._sent = 0
        #: The last of several events, which is held back, and the cursor that covers it.
        self._held: SubscriberEvents | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at = -_STARTED_WITHIN

    @property
    def subscription(self) -> Subscription:
        """Subscription with the current cursor."""
        return Subscription(self.cursor, self.options)

    def select(self, payloads: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the events whose outcomes the subscriber wants."""
        return [payload for payload in payloads if payload["outcome"] in self._outcomes]

    def take_due(
        self, payloads: list[dict[str, Any]], cursor: dict[str, Any], put: Callable[[EventBatch], None]
    ) -> SubscriberEvents | None:
        """
        Return the events to send now and the cursor that covers them; None if there are no events to send now.

        The last of several events in a short time is held back until Airflow has started a DAG run for the others. Then
        it starts another DAG run, which also gets the events that the first run missed. If further events arrive
        before, the event is sent with them.

        :param payloads: new events.
        :param cursor: the cursor that covers them.
        :param put: function that sends the event that is held back, when its time has come.
        """
        if not payloads:
            return None
        now, cursor_of_held = time.monotonic(), None
        if self._held:
            (kept, cursor_of_held) = self._held
            payloads = [*kept, *payloads]
        self.drop_held()
        *first, last = payloads
        began = now if first else self._sent_at
        if began + _STARTED_WITHIN <= now:
            return self._sending([last], cursor)
        self._held = ([last], cursor)
        self._timer = asyncio.get_running_loop().call_later(began + _STARTED_WITHIN - now, self._release, put)
        return self._sending(first, cursor_of_held) if first else None

    def _release(self, put: Callable[[EventBatch], None]) -> None:
        if self._held:
            payloads, cursor = self._held
            self.drop_held()
            put(EventBatch({self: self._sending(payloads, cursor)}))

    def _sending(self, payloads: list[dict[str, Any]], cursor: dict[str, Any] | None) -> SubscriberEvents:
        """Count the events as sent: no later cursor may be stored before theirs."""
        self._sent += 1
        self._sent_at = time.monotonic()
        return payloads, cursor

    def drop_held(self) -> None:
        """Drop the event that is held back. Its cursor is not stored, so a later subscriber gets the event."""
        if self._timer:
            self._timer.cancel()
        self._held = self._timer = None

    async def store_confirmed(self, cursor: dict[str, Any] | None) -> None:
        """Store the cursor of events that Airflow has stored."""
        self._sent -= 1
        await self._store_cursor(cursor)

    def sent_unconfirmed(self, cursor: dict[str, Any] | None) -> None:
        """Remember the cursor of sent events. Airflow before 3.3 does not confirm that it has stored them."""
        self._unconfirmed.append((time.monotonic(), cursor))

    async def store_due(self) -> None:
        """Store the cursors that are due, after a poll."""
        now = time.monotonic()
        stored = [cursor for at, cursor in self._unconfirmed if now - at >= _STORED_WITHIN]
        if stored:
            del self._unconfirmed[: len(stored)]
            self._sent -= len(stored)
            await self._store_cursor(next((cursor for cursor in reversed(stored) if cursor), None))
        is_due = self._stored_at is None or now - self._stored_at >= _STORE_EVERY
        if not self._sent and not self._held and is_due:
            await self._store_cursor(self.cursor)

    async def _store_cursor(self, cursor: dict[str, Any] | None) -> None:
        if self._store is None or cursor is None:
            return
        try:
            async with asyncio.timeout(_STORE_LIMIT):
                await self._store(cursor)
        except Exception as error:  # noqa: BLE001 - any error of Airflow: without the cursor, events may be repeated
            log.warning("The cursor cannot be stored, so that events may be repeated: %s", error)
        else:
            self._stored_at = time.monotonic()


class EventBatch:
    """
    New events for some subscribers.

    :param events: events of each subscriber, and the cursor to store afterwards.
    """

    def __init__(self, events: dict[Subscriber, SubscriberEvents]) -> None:
        self._events = events
        self._sent_to: list[Subscriber] = []

    def of(self, subscriber: Subscriber) -> list[dict[str, Any]]:
        """Return the events of a subscriber."""
        return self._events[subscriber][0] if subscriber in self._events else []

    def mark_sent(self, subscriber: Subscriber) -> None:
        """Mark the events of a subscriber as sent. :meth:`confirm` follows when Airflow has stored them."""
        if subscriber in self._events:
            self._sent_to.append(subscriber)

    async def confirm(self) -> None:
        """Store the cursors of the sent events, because Airflow has stored these events."""
        for subscriber in self._sent_to:
            await subscriber.store_confirmed(self._events[subscriber][1])

    def mark_sent_unconfirmed(self, subscriber: Subscriber) -> None:
        """Mark the events of a subscriber as sent. Airflow before 3.3 does not confirm that it has stored them."""
        if subscriber in self._events:
            subscriber.sent_unconfirmed(self._events[subscriber][1])


class _PolledResource:
    """
    A resource that is polled, and its subscribers.

    :param poller: the event poller of the connection.
    :param source: event source of the resource.
    """

    def __init__(self, poller: EventPoller, source: EventSource) -> None:
        self._poller = poller
        self._source = source
        self._failures = 0
        self._last_warning: tuple[str, float] | None = None
        self._wake = asyncio.Event()
        self.subscribers: dict[Subscriber, float] = {}
        # An own context, because its log lines do not belong to a single trigger.
        self.task = asyncio.create_task(self._run(), context=contextvars.Context())

    def join(self, subscriber: Subscriber) -> None:
        """Add a subscriber, and poll immediately."""
        self.subscribers[subscriber] = 0.0
        self._source.renew()
        self._wake.set()

    async def _run(self) -> None:
        async with self._poller.run_poller() as run_poller:
            while True:
                self._wake.clear()
                await self._sleep(min(self.subscribers.values(), default=time.monotonic()) - time.monotonic())
                try:
                    await self._poll_once(run_poller)
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

    async def _poll_once(self, run_poller: RunPoller) -> None:
        async def send(request: Request[Any]) -> Any:
            # The poller repeats the request. Retries of the client would delay other polls.
            return await run_poller.send(replace(request, once=True), after_failure=self._failures > 0)

        subscribers = list(self.subscribers)
        subscriptions = [subscriber.subscription for subscriber in subscribers]
        now = time.time()
        async with self._poller.one_at_a_time if run_poller.is_failing else nullcontext():
            new_events = await run_async(self._source.poll(subscriptions, now), send, asyncio.sleep)
        sent: dict[Subscriber, SubscriberEvents] = {}
        for subscriber, (payloads, cursor) in zip(subscribers, new_events, strict=True):
            if subscriber not in self.subscribers:
                continue
            self.subscribers[subscriber] = time.monotonic() + subscriber.poll_interval
            subscriber.cursor = cursor
            if due := subscriber.take_due(subscriber.select(payloads), cursor, self._poller.put):
                sent[subscriber] = due
        if sent:
            self._poller.put(EventBatch(sent))
        for subscriber in subscribers:
            if subscriber in self.subscribers:
                await subscriber.store_due()

    async def _back_off(self, error: Exception) -> None:
        what, now = str(error) or type(error).__name__, time.monotonic()
        if self._last_warning is None or self._last_warning[0] != what or now - self._last_warning[1] >= _WARN_EVERY:
            self._last_warning = (what, now)
            log.warning("%s %s cannot be polled for events: %s", self._source.kind, self._source.key, what)
        self._failures += 1
        pause = min((subscriber.poll_interval for subscriber in self.subscribers), default=1.0)
        retry_after = None
        if isinstance(error, DatapipeError):
            retry_after = requested_delay(error)
        if not (isinstance(error, DatapipeError) and is_of_connection(error)):
            # Otherwise the backoff of the connection applies.
            pause = delay_after(self._failures, pause)
        await asyncio.sleep(max(pause, retry_after or 0.0))

    def _recover(self) -> None:
        if self._last_warning is not None:
            log.info("%s %s is polled for events again.", self._source.kind, self._source.key)
        self._failures = 0
        self._last_warning = None


class EventPoller:
    """
    Event poller of one connection. :data:`shared_event_poller` creates and closes the shared ones.

    Its requests share the backoff and the HTTP connections of the run poller.

    :param conn_id: ID of the Airflow connection.
    :param read: function that reads it.
    """

    def __init__(self, conn_id: str, read: Reader) -> None:
        self._conn_id = conn_id
        self._read = read
        self._resources: dict[tuple[str, str], _PolledResource] = {}
        self._batches: asyncio.Queue[EventBatch] = asyncio.Queue()
        #: Held during a poll while the service fails, so that only one resource is polled at a time.
        self.one_at_a_time = asyncio.Lock()
        #: Number of users.
        self.users = 0

    async def batches(self) -> AsyncIterator[EventBatch]:
        """Yield new events, without end."""
        while True:
            yield await self._batches.get()

    def put(self, batch: EventBatch) -> None:
        """Add events to the stream."""
        self._batches.put_nowait(batch)

    def run_poller(self) -> AbstractAsyncContextManager[RunPoller]:
        """Return a context manager for the run poller of the connection, which sends the requests."""
        return shared_run_poller(self._conn_id, self._read)

    @property
    def is_usable(self) -> bool:
        """True, because subscribers can always join."""
        return True

    @asynccontextmanager
    async def joined(self, subscriber: Subscriber) -> AsyncIterator[None]:
        """Subscribe for the duration of the context. A resource is polled as long as it has subscribers."""
        resource = self._resources.get(subscriber.resource)
        if resource is None:
            source, key = subscriber.resource
            resource = self._resources[subscriber.resource] = _PolledResource(self, EVENT_SOURCES[source](key))
        resource.join(subscriber)
        try:
            yield
        finally:
            del resource.subscribers[subscriber]
            subscriber.drop_held()
            if not resource.subscribers:
                # Remove it before the first await, so that a new subscriber creates another one.
                del self._resources[subscriber.resource]
                await _cancel(resource.task)

    async def close(self) -> None:
        """Cancel all tasks."""
        for resource in list(self._resources.values()):
            await _cancel(resource.task)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


#: Context manager for the shared event poller of a connection on the running event loop.
shared_event_poller = PerLoop(EventPoller)
