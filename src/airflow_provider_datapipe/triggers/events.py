"""Triggers for an ``AssetWatcher``: an event for each finished run, including runs that Airflow did not start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_datapipe.arguments import Duration, check_range, checked, seconds
from airflow_provider_datapipe.triggers import load

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

    from airflow_provider_datapipe.runs.events.event_poller import EventBatch, Subscriber
    from airflow_provider_datapipe.runs.polling.shared_client import Reader

#: Outcomes of a run (:class:`airflow_provider_datapipe.runs.outcome.Outcome`).
OUTCOMES = frozenset({"succeeded", "partial", "failed", "canceled", "unknown"})
_SUCCEEDED = ("succeeded",)
#: The first and the longest pause between two attempts to read the cursor, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

_NEEDED = (
    "airflow_provider_datapipe.hooks.datapipe",
    "airflow_provider_datapipe.runs.events.event_poller",
    "airflow_provider_datapipe.triggers.cursors",
)


class _EventTrigger(BaseEventTrigger):
    """
    Base class of the event triggers.

    One poller serves all watchers of a connection (Airflow 3.3 or later). The cursor of each watcher is kept in
    Airflow's state store of the asset.
    """

    #: Name of the event source.
    _source: ClassVar[str]
    #: Argument with the ID of the watched resource.
    _argument: ClassVar[str]

    def __init__(self, datapipe_conn_id: str, outcomes: Sequence[str], poll_interval: Duration) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own signature has no types
        if not outcomes or isinstance(outcomes, str):
            raise ValueError("outcomes must be a list of at least one outcome")
        if unknown := sorted(set(outcomes) - OUTCOMES):
            raise ValueError(f"outcomes must be of {', '.join(sorted(OUTCOMES))}, not {', '.join(unknown)}")
        check_range("poll_interval", poll_interval)
        _check_not_empty(datapipe_conn_id=datapipe_conn_id)
        self.datapipe_conn_id = datapipe_conn_id
        # Sorted, because Airflow identifies triggers by their arguments.
        self.outcomes = sorted(set(outcomes))
        # Numbers keep their type, because Airflow identifies triggers by their arguments.
        self.poll_interval = (
            poll_interval if isinstance(poll_interval, int | float) else _number(seconds(poll_interval))
        )

    def _key(self) -> str:
        """Return the key of the watched resource in the event source."""
        key: str = getattr(self, self._argument)
        return key

    def _options(self) -> dict[str, Any]:
        """Return further options of the event source."""
        return {}

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that select the watched resources."""
        return {self._argument: getattr(self, self._argument)}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        shared = {
            "datapipe_conn_id": self.datapipe_conn_id,
            "outcomes": self.outcomes,
            "poll_interval": self.poll_interval,
        }
        arguments = {name: value for name, value in self._arguments().items() if value is not None}
        return f"{type(self).__module__}.{type(self).__qualname__}", shared | arguments

    def shared_stream_key(self) -> Hashable | None:
        """Return a key that all watchers of a connection share, so that one poller serves them."""
        # Without this module, Airflow does not confirm stored events. Then a poller per watcher is more reliable.
        confirms = find_spec("airflow.triggers.shared_stream") is not None
        return (__name__, self.datapipe_conn_id) if confirms else None

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Create the poller. Airflow confirms stored events to it, so that it stores cursors after their events."""
        return _producer(kwargs["datapipe_conn_id"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[EventBatch]) -> AsyncIterator[TriggerEvent]:
        """Yield the events of the shared poller that belong to this watcher."""
        await load(*_NEEDED)
        from airflow_provider_datapipe.runs.events.event_poller import shared_event_poller

        async with shared_event_poller(self.datapipe_conn_id, _reader(self.datapipe_conn_id)) as poller:
            subscriber = await self._subscriber()
            async with poller.joined(subscriber):
                async for batch in shared_stream:
                    for payload in batch.of(subscriber):
                        yield TriggerEvent(payload)
                    batch.mark_sent(subscriber)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the events of a poller for this watcher only, because Airflow before 3.3 has no shared streams."""
        await load(*_NEEDED)
        from airflow_provider_datapipe.runs.events.event_poller import EventPoller

        poller = EventPoller(self.datapipe_conn_id, _reader(self.datapipe_conn_id))
        try:
            subscriber = await self._subscriber()
            async with poller.joined(subscriber):
                async for batch in poller.batches():
                    for payload in batch.of(subscriber):
                        yield TriggerEvent(payload)
                    batch.mark_sent_unconfirmed(subscriber)
        finally:
            await poller.close()

    async def _subscriber(self) -> Subscriber:
        from airflow_provider_datapipe.runs.events.event_poller import Subscriber
        from airflow_provider_datapipe.runs.events.event_sources import Subscription
        from airflow_provider_datapipe.triggers.cursors import CursorStore

        path, arguments = self.serialize()
        # A watcher with another poll interval keeps its cursor.
        identity = {"path": path} | {name: value for name, value in arguments.items() if name != "poll_interval"}
        accessors = getattr(self, "asset_state_store", None)
        store = CursorStore(accessors, identity) if accessors is not None else None
        cursor = await self._read(store) if store else None
        return Subscriber(
            self._source,
            self._key(),
            Subscription(cursor, self._options()),
            outcomes=self.outcomes,
            poll_interval=self.poll_interval,
            store=store.set if store else None,
        )

    async def _read(self, store: Any) -> dict[str, Any] | None:
        """Read the cursor. Repeat until this succeeds, because without a cursor runs would be missed."""
        from airflow_provider_datapipe.api.retry import backoff_delay

        failures = 0
        while True:
            try:
                cursor: dict[str, Any] | None = await store.get()
            except Exception as error:  # noqa: BLE001 - any error of Airflow, which restarts a trigger that raises
                self.log.warning("The cursor cannot be read: %s", error)
                failures += 1
                await asyncio.sleep(backoff_delay(failures, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE))
            else:
                return cursor


def _check_not_empty(**given: str | None) -> None:
    """
    Check the IDs of a trigger. None is allowed.

    :raises ValueError: if an ID is empty: without it, a trigger would watch other resources, or none.
    """
    for name, value in given.items():
        if value is not None and not value.strip():
            raise ValueError(f"{name} is empty: set an ID, or omit it")


def _number(value: float) -> float:
    """Return a whole number as an int, as DAG files write it."""
    return int(value) if value.is_integer() else value


def _reader(conn_id: str) -> Reader:
    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

    return DatapipeHook(conn_id).aget_settings


def _producer(conn_id: str) -> SharedStreamProducer:
    # Exists in Airflow 3.3 or later, which alone calls this.
    from airflow.triggers.shared_stream import SharedStreamProducer

    class Producer(SharedStreamProducer):
        """Poller of one connection."""

        async def open_stream(self) -> AsyncIterator[tuple[EventBatch, EventBatch]]:
            """Yield new events, without end."""
            await load(*_NEEDED)
            from airflow_provider_datapipe.runs.events.event_poller import shared_event_poller

            async with shared_event_poller(conn_id, _reader(conn_id)) as poller:
                async for batch in poller.batches():
                    yield batch, batch

        async def advance(self, batch: Sequence[AdvanceItem]) -> None:
            """Store the cursors of watchers whose events are stored."""
            for item in batch:
                if item.outcome.failed:
                    # All watchers restart from their stored cursors, so that no event is missed.
                    raise RuntimeError("Airflow has not stored an event in time: the watchers restart")
                await item.broker_payload.confirm()

    return Producer()


class EltStreamRunEventTrigger(_EventTrigger):
    """
    Event for each finished run of an ELT stream, or of all streams of an ELT sync.

    A first load in slices counts as one run. Its event follows the last slice, and has the rows of all slices.

    :param stream_id: ID of the stream; None for all streams of the sync. With ``sync_id`` as well, the watchers of the
        streams of one sync share a request.
    :param sync_id: ID of the ELT sync.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`.
    :param outcomes: outcomes of runs that send an event.
    :param poll_interval: time between two polls, as a duration.
    """

    @checked
    def __init__(
        self,
        stream_id: str | None = None,
        sync_id: str | None = None,
        *,
        datapipe_conn_id: str = "datapipe_default",
        outcomes: Sequence[str] = _SUCCEEDED,
        poll_interval: Duration = 30,
    ) -> None:
        super().__init__(datapipe_conn_id, outcomes, poll_interval)
        if stream_id is None and sync_id is None:
            raise ValueError("stream_id or sync_id is needed")
        _check_not_empty(stream_id=stream_id, sync_id=sync_id)
        self.stream_id = stream_id
        self.sync_id = sync_id

    @property
    def _source(self) -> str:  # type: ignore[override]  # here it depends on the arguments
        return "elt_stream" if self.sync_id is None else "elt_sync"

    def _key(self) -> str:
        return self.sync_id or self.stream_id or ""

    def _options(self) -> dict[str, Any]:
        return {"stream_id": self.stream_id} if self.stream_id else {}

    def _arguments(self) -> dict[str, Any]:
        return {"stream_id": self.stream_id, "sync_id": self.sync_id}


class OrchestrationRunEventTrigger(_EventTrigger):
    """
    Event for each finished run of an orchestration, or of all orchestrations.

    :param orchestration_id: ID of the orchestration; None for all.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`.
    :param outcomes: outcomes of runs that send an event.
    :param poll_interval: time between two polls, as a duration.
    """

    _argument = "orchestration_id"

    @checked
    def __init__(
        self,
        orchestration_id: str | None = None,
        *,
        datapipe_conn_id: str = "datapipe_default",
        outcomes: Sequence[str] = _SUCCEEDED,
        poll_interval: Duration = 30,
    ) -> None:
        super().__init__(datapipe_conn_id, outcomes, poll_interval)
        _check_not_empty(orchestration_id=orchestration_id)
        self.orchestration_id = orchestration_id

    @property
    def _source(self) -> str:  # type: ignore[override]  # here it depends on the arguments
        return "all_orchestrations" if self.orchestration_id is None else "orchestration"

    def _key(self) -> str:
        return "all" if self.orchestration_id is None else self.orchestration_id


class ReverseEtlRunEventTrigger(_EventTrigger):
    """
    Event for each finished run of a reverse ETL sync.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`.
    :param outcomes: outcomes of runs that send an event. A run with failed rows is ``partial``.
    :param poll_interval: time between two polls, as a duration.
    """

    _source = "reverse_etl"
    _argument = "reverse_etl_sync_id"

    @checked
    def __init__(
        self,
        reverse_etl_sync_id: str,
        *,
        datapipe_conn_id: str = "datapipe_default",
        outcomes: Sequence[str] = _SUCCEEDED,
        poll_interval: Duration = 30,
    ) -> None:
        super().__init__(datapipe_conn_id, outcomes, poll_interval)
        _check_not_empty(reverse_etl_sync_id=reverse_etl_sync_id)
        self.reverse_etl_sync_id = reverse_etl_sync_id


class TransformMaterializationEventTrigger(_EventTrigger):
    """
    Event for each finished materialization of a published transform.

    Materializations have no IDs. Of several between two polls, only the last one has an event. A change of the
    transform without a materialization also causes an event.

    :param transform_id: ID of the transform.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`.
    :param outcomes: outcomes of materializations that send an event.
    :param poll_interval: time between two polls, as a duration.
    """

    _source = "transform"
    _argument = "transform_id"

    @checked
    def __init__(
        self,
        transform_id: str,
        *,
        datapipe_conn_id: str = "datapipe_default",
        outcomes: Sequence[str] = _SUCCEEDED,
        poll_interval: Duration = 30,
    ) -> None:
        super().__init__(datapipe_conn_id, outcomes, poll_interval)
        _check_not_empty(transform_id=transform_id)
        self.transform_id = transform_id


class FailedRecordsEventTrigger(_EventTrigger):
    """
    Event when the number of failed records of a reverse ETL sync reaches a threshold.

    The next event follows only after the number has been below the threshold.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param threshold: number of failed records that sends an event, at least 1.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`.
    :param poll_interval: time between two polls, as a duration.
    """

    _source = "failed_records"
    _argument = "reverse_etl_sync_id"

    @checked
    def __init__(
        self,
        reverse_etl_sync_id: str,
        threshold: int = 1,
        *,
        datapipe_conn_id: str = "datapipe_default",
        poll_interval: Duration = 60,
    ) -> None:
        super().__init__(datapipe_conn_id, ("partial",), poll_interval)
        _check_not_empty(reverse_etl_sync_id=reverse_etl_sync_id)
        if threshold < 1:
            raise ValueError("threshold: must be at least 1")
        self.reverse_etl_sync_id = reverse_etl_sync_id
        self.threshold = threshold

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        path, arguments = super().serialize()
        del arguments["outcomes"]
        return path, arguments

    def _options(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | self._options()
