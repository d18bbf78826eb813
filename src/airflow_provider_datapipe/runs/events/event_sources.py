"""Event sources. Each one polls a resource for all its subscribers at once. Pure: flows."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from typing_extensions import override

from airflow_provider_datapipe.api import paging
from airflow_provider_datapipe.api.endpoints import (
    elt_stream_runs,
    elt_streams,
    orchestration_runs,
    reverse_etl_failed_records,
    reverse_etl_sync_runs,
    transforms,
)
from airflow_provider_datapipe.api.errors import ApiError, DatapipeError, NotFoundError, ProtocolError, one_line
from airflow_provider_datapipe.api.models.common import Answer, Page, format_timestamp
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncRun
from airflow_provider_datapipe.api.models.transforms import TransformStatus
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import Flow, list_all, send
from airflow_provider_datapipe.runs.backoff import is_of_connection
from airflow_provider_datapipe.runs.events.cursors import (
    CLOCK_SKEW,
    GIVE_UP_AFTER,
    LATE_START,
    OVERLAP,
    EventCursor,
    SeenRun,
    needs_more_at_first,
    reaches,
    renamed,
    take,
    timestamp_at,
)
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.missing_runs import is_missing
from airflow_provider_datapipe.runs.models import RunRef, RunState
from airflow_provider_datapipe.runs.names import near_matches
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.bulk_status import StatusFingerprint, SyncStatus
from airflow_provider_datapipe.runs.run_history import FIRST_TIME

if TYPE_CHECKING:
    import pendulum

log = logging.getLogger(__name__)

#: Model of the runs in a list, by kind.
_MODELS: dict[str, type[Answer]] = {
    "elt_stream": EltStreamRun,
    "orchestration": OrchestrationRun,
    "reverse_etl": ReverseEtlSyncRun,
}
#: The most runs and streams that are logged as unreadable.
_MOST_UNREADABLE = 1000
#: Page size if few runs are expected.
_FEW = 10
#: The most pages that are read to find a run whose ID the service does not know.
_MOST_PAGES_BACK = 10
#: Seconds for which the cursor of a stream is kept that its sync does not list: a replica can lag behind.
_KEEP_ABSENT = 86_400.0
#: Number of polls of a sync's status after which all its streams are polled, also without a change.
_ALL_EVERY = 20


@dataclass(frozen=True, slots=True)
class Subscription:
    """
    Subscription of one subscriber.

    :param cursor: position up to which events were reported (JSON); None to begin now.
    :param options: options of the event source, such as ``threshold``.
    """

    cursor: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


#: New events for a subscriber, and its new cursor.
NewEvents: TypeAlias = tuple[list[dict[str, Any]], dict[str, Any]]


class EventSource(ABC):
    """
    Event source: polls a resource for all subscribers, with as few requests as possible.

    :param key: key of the resource.
    """

    #: Name of the kind of event.
    kind: ClassVar[str]
    #: Seconds before the newest run in which other runs may still appear in the list.
    overlap: ClassVar[float] = OVERLAP

    def __init__(self, key: str) -> None:
        self.key = key
        self._has_warned = False
        #: Runs and streams with invalid answers that were logged.
        self._unreadable: set[str] = set()

    @abstractmethod
    def poll(self, subscriptions: Sequence[Subscription], now: float) -> Flow[list[NewEvents]]:
        """
        Poll once, and return the new events of each subscriber.

        :param subscriptions: subscriptions of all subscribers.
        :param now: current time in seconds since the epoch.
        """

    def renew(self) -> None:
        """Reset the cached state, because a new subscriber joined."""
        return

    def _warn_if_renamed(self, cursors: Sequence[EventCursor | None], seen: Sequence[SeenRun]) -> None:
        """Log once if the service has changed its run IDs."""
        if not self._has_warned and any(cursor and renamed(cursor, seen) for cursor in cursors):
            self._has_warned = True
            log.warning(
                "%s %s: the service has changed the IDs of its runs. The watchers distinguish the runs by their times.",
                self.kind,
                self.key,
            )

    async def _poll_runs(
        self, listing: Request[Page[Any]], cursors: Sequence[EventCursor | None], now: float, *, name: str | None = None
    ) -> tuple[list[SeenRun], frozenset[str]]:
        """
        Read a list of runs as far back as the cursors need, and the cursors' unfinished runs that it does not show.

        An invalid run is left out, so that it does not block the events of the other runs.

        :return: the runs, and the IDs that the service does not know.
        """
        # The runs are validated one by one, in _read().
        listing = listing.read_as(Page[Any])
        seen: list[SeenRun] = []
        noted = max((len(cursor.reported) + len(cursor.going) for cursor in cursors if cursor), default=0)
        size = LARGEST_PAGE if None in cursors or noted >= _FEW else _FEW
        following: Request[Page[Any]] | None = listing.with_query(limit=size)
        pages = paging.SeenPages()

        async def read(request: Request[Page[Any]]) -> tuple[bool, list[SeenRun]]:
            nonlocal following
            page = await send(request)
            shown = [run for item in page.data if (run := self._read(item, name)) is not None]
            seen.extend(shown)
            more = pages.after(request, page)
            following = more and more.with_query(limit=LARGEST_PAGE)
            return not page.data, shown

        while following is not None:
            is_empty, shown = await read(following)
            needs_more = (
                not shown
                or (not reaches(shown, each.since) if each else needs_more_at_first(seen, shown, now, self.overlap))
                for each in cursors
            )
            if is_empty or not any(needs_more):
                break
        absent = {run_id: at for cursor in cursors if cursor for run_id, at in cursor.absent(seen, now).items()}
        unknown: set[str] = set()
        for run_id in sorted(absent):
            poll = KINDS[self.kind].poll_request(RunRef(self.kind, "", "", run_id=run_id))
            try:
                run = _seen(self.kind, await send(poll), name)
            except ApiError as error:
                if not is_missing(error):
                    raise
                unknown.add(run_id)
            except ProtocolError as error:
                # The cursor keeps the run as unfinished.
                self._log_unreadable(f"Run {run_id}", error)
            else:
                # The service may return another ID than the requested one.
                seen.append(run._replace(run_id=run_id, is_listed=False))
        # The service may have changed the IDs of the unknown runs: read on, to match them by their times.
        oldest = min((absent[run_id] for run_id in unknown), default="")
        for _ in range(_MOST_PAGES_BACK):
            if following is None or not oldest or reaches([run for run in seen if run.is_listed], oldest):
                break
            await read(following)
        return seen, frozenset(unknown)

    def _read(self, item: Any, name: str | None) -> SeenRun | None:
        """Return a run of a list. If it is invalid, log it once and return None."""
        try:
            return _seen(self.kind, _MODELS[self.kind].model_validate(item), name)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
            run_id = item.get("id") if isinstance(item, dict) else None
            self._log_unreadable(f"Run {run_id}", error)
            return None

    def _log_unreadable(self, what: str, error: Exception) -> None:
        if what not in self._unreadable and len(self._unreadable) < _MOST_UNREADABLE:
            self._unreadable.add(what)
            reason = error if isinstance(error, DatapipeError) else type(error).__name__
            log.warning("%s cannot be read, so no event is sent for it: %s", one_line(what), reason)


class _RunEventSource(EventSource):
    """Event source for runs in a list that begins with the newest run."""

    @override
    async def poll(self, subscriptions: Sequence[Subscription], now: float) -> list[NewEvents]:
        cursors = [_cursor_of(subscription.cursor) for subscription in subscriptions]
        seen, unknown = await self._poll_runs(self._listing(), cursors, now)
        self._warn_if_renamed(cursors, seen)
        new_events: list[NewEvents] = []
        for cursor in cursors:
            ends, following = take(cursor, seen, now=now, unknown=unknown, overlap=self.overlap)
            new_events.append((ends, following.as_dict()))
        return new_events

    @abstractmethod
    def _listing(self) -> Request[Page[Any]]:
        """Return the request that lists the runs."""


class StreamEventSource(_RunEventSource):
    """Runs of one stream, by its ID."""

    kind = "elt_stream"

    @override
    def _listing(self) -> Request[Page[Any]]:
        return elt_stream_runs.list_(self.key, sort_direction="desc")


class ReverseEtlEventSource(_RunEventSource):
    """Runs of one reverse ETL sync, by its ID."""

    kind = "reverse_etl"

    @override
    def _listing(self) -> Request[Page[Any]]:
        return reverse_etl_sync_runs.list_(self.key, sort_direction="desc")


class OrchestrationEventSource(_RunEventSource):
    """Runs of one orchestration, by its ID."""

    kind = "orchestration"
    overlap = LATE_START

    @override
    def _listing(self) -> Request[Page[Any]]:
        return orchestration_runs.list_(orchestration_id=self.key)


class AllOrchestrationsEventSource(OrchestrationEventSource):
    """Runs of all orchestrations."""

    @override
    def _listing(self) -> Request[Page[Any]]:
        return orchestration_runs.list_()


class SyncEventSource(EventSource):
    """
    Runs of the streams of an ELT sync, by its ID.

    The status of the sync has no run IDs, but shows which streams need a poll. The cursor of a subscriber holds a
    cursor for each stream (``streams``), the time of the subscription (``began``), and for each stream that the sync no
    longer lists, the time since when (``absent``).
    """

    kind = "elt_stream"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._names: dict[str, str] = {}
        self._shown: frozenset[str] = frozenset()
        self._polls = 0
        #: Watched streams that the sync does not list, which was logged.
        self._unlisted: frozenset[str] = frozenset()
        #: Last status of each stream, and True if the stream was polled twice with this status.
        self._fingerprints: dict[str, tuple[StatusFingerprint | None, bool]] = {}

    @override
    def renew(self) -> None:
        self._fingerprints = {}

    @override
    async def poll(self, subscriptions: Sequence[Subscription], now: float) -> list[NewEvents]:
        status = SyncStatus(self.key)
        shown = status.index(await send(status.request()))
        if self._polls % _ALL_EVERY == 0 or self._shown != frozenset(shown):
            streams = await list_all(elt_streams.list_(elt_sync_id=self.key))
            self._names = {stream.id: stream.name for stream in streams}
            self._shown = frozenset(shown)
            self.renew()
        self._polls += 1
        self._warn_of_unlisted(subscriptions)
        ends: list[list[dict[str, Any]]] = [[] for _ in subscriptions]
        cursors: list[dict[str, Any]] = [
            dict((subscription.cursor or {}).get("streams", {})) for subscription in subscriptions
        ]
        began = [
            (subscription.cursor or {}).get("began") or timestamp_at(now - CLOCK_SKEW) for subscription in subscriptions
        ]
        # Work on a copy: after a failure, these changes must be detected again.
        fingerprints = dict(self._fingerprints)
        for stream_id, name in self._names.items():
            numbers = [
                number for number, one in enumerate(subscriptions) if one.options.get("stream_id") in (None, stream_id)
            ]
            known = [_cursor_of(cursors[number].get(stream_id)) for number in numbers]
            item = shown.get(name)
            fingerprint = None if item is None else status.fingerprint(item)
            before, is_confirmed = fingerprints.get(stream_id, (None, False))
            is_same = fingerprint is not None and fingerprint == before
            # Poll the stream once more after a change, because the list of runs may lag behind the status.
            if not numbers or (is_same and is_confirmed and not _may_have_ended(fingerprint, known)):
                continue
            # A stream that appears later may have been missing by mistake: runs before the subscription are not new.
            report_from = [
                one or (None if subscriptions[number].cursor is None else EventCursor(began[number]))
                for one, number in zip(known, numbers, strict=True)
            ]
            try:
                listing = elt_stream_runs.list_(stream_id, sort_direction="desc")
                seen, unknown = await self._poll_runs(listing, report_from, now, name=name)
            except NotFoundError:
                # The stream was deleted after the streams of the sync were listed.
                continue
            except DatapipeError as error:
                if is_of_connection(error):
                    raise
                # Do not fail the other streams. This stream is polled again next time.
                self._log_unreadable(f"ELT stream {stream_id}", error)
                for number, cursor in zip(numbers, report_from, strict=True):
                    if cursor is None:
                        # Only runs that end from now on are new for this subscriber.
                        cursors[number][stream_id] = EventCursor(timestamp_at(now), is_unread=True).as_dict()
                continue
            self._unreadable.discard(f"ELT stream {stream_id}")
            self._warn_if_renamed(report_from, seen)
            fingerprints[stream_id] = (fingerprint, is_same)
            for number, cursor in zip(numbers, report_from, strict=True):
                reported, following = take(cursor, seen, now=now, unknown=unknown)
                ends[number] += [payload | {"sync_id": self.key} for payload in reported]
                cursors[number][stream_id] = following.as_dict()
        self._fingerprints = fingerprints
        new_events: list[NewEvents] = []
        for number, subscription in enumerate(subscriptions):
            before = (subscription.cursor or {}).get("absent", {})
            absent = {each: before.get(each, now) for each in cursors[number] if each not in self._names}
            absent = {each: since for each, since in absent.items() if now - since < _KEEP_ABSENT}
            kept = {each: one for each, one in cursors[number].items() if each in self._names or each in absent}
            new_events.append((ends[number], {"streams": kept, "began": began[number], "absent": absent}))
        return new_events

    def _warn_of_unlisted(self, subscriptions: Sequence[Subscription]) -> None:
        """Log once that a watched stream does not belong to the sync: the watcher never sends an event."""
        watched = {stream_id for one in subscriptions if (stream_id := one.options.get("stream_id"))}
        unlisted = watched - self._names.keys()
        for stream_id in sorted(unlisted - self._unlisted):
            by_name = {name: each for each, name in self._names.items()} | {each: each for each in self._names}
            near = dict.fromkeys(by_name[match] for match in near_matches(stream_id, by_name))
            hint = f"Did you mean {' or '.join(near)}?" if near else "Check stream_id and sync_id."
            log.warning(
                "ELT sync %s has no stream with the ID %s, so a watcher sends no events. %s", self.key, stream_id, hint
            )
        self._unlisted = frozenset(unlisted)


class TransformEventSource(EventSource):
    """Materializations of one transform, by its ID. They have no IDs, and only the last one is visible."""

    kind = "transform"

    @override
    async def poll(self, subscriptions: Sequence[Subscription], now: float) -> list[NewEvents]:
        transform = await send(transforms.get(self.key))
        seen: RunState = KINDS[self.kind].read(RunRef(self.kind, self.key, self.key), transform)
        changed_at = _text(transform.updated_at)
        cursor = {"changed_at": changed_at, "status": transform.materialization_status or str(transform.status)}
        is_over = seen.outcome.is_over and transform.status == TransformStatus.PUBLISHED
        payload = _payload(seen) | {"finished_at": changed_at}
        new_events: list[NewEvents] = []
        for subscription in subscriptions:
            before = subscription.cursor or {}
            behind_since = before.get("behind_since", now)
            if changed_at < before.get("changed_at", "") and now - behind_since < GIVE_UP_AFTER:
                # A lagging replica shows the state before.
                new_events.append(([], before | {"behind_since": behind_since}))
                continue
            last = {name: before[name] for name in cursor if name in before}
            new_events.append(([payload] if is_over and last and last != cursor else [], cursor))
        return new_events


class FailedRecordsEventSource(EventSource):
    """Number of failed records of one reverse ETL sync, by its ID. Option: ``threshold``."""

    kind = "failed_records"

    @override
    async def poll(self, subscriptions: Sequence[Subscription], now: float) -> list[NewEvents]:
        count = (await send(reverse_etl_failed_records.count(self.key))).count
        new_events: list[NewEvents] = []
        for subscription in subscriptions:
            threshold = subscription.options["threshold"]
            is_above = count >= threshold
            was_above = bool((subscription.cursor or {}).get("is_above"))
            payload = {
                "kind": self.kind,
                "resource_id": self.key,
                "rows_failed": count,
                "threshold": threshold,
                "outcome": str(Outcome.PARTIAL),
            }
            new_events.append(([payload] if is_above and not was_above else [], {"is_above": is_above}))
        return new_events


#: Event sources by name.
EVENT_SOURCES: dict[str, type[EventSource]] = {
    "elt_stream": StreamEventSource,
    "elt_sync": SyncEventSource,
    "orchestration": OrchestrationEventSource,
    "all_orchestrations": AllOrchestrationsEventSource,
    "reverse_etl": ReverseEtlEventSource,
    "transform": TransformEventSource,
    "failed_records": FailedRecordsEventSource,
}


def _seen(kind: str, run: Any, name: str | None) -> SeenRun:
    resource_id = getattr(run, KINDS[kind].owner_field)
    observed = KINDS[kind].read(RunRef(kind, resource_id, name or resource_id), run)
    result = observed.result
    is_slice = result is not None and result["status"] == "CHUNK_COMPLETED"
    started = _text(run.started_at)
    listed_by = _text(run.due_at) if kind == "orchestration" else started
    return SeenRun(
        run_id=run.id,
        moment=listed_by or started or _text(run.finished_at),
        started="" if observed.outcome is Outcome.SCHEDULED else started,
        is_over=observed.outcome.is_over or is_slice,
        is_slice=is_slice,
        payload=_payload(observed),
    )


def _text(time: pendulum.DateTime | None) -> str:
    """Return a time of the service as sortable text, empty if there is none."""
    return "" if time is None or time < FIRST_TIME else format_timestamp(time)


def _payload(observed: RunState) -> dict[str, Any]:
    if observed.result is None:
        raise AssertionError("a run that is shown has a result")
    return {name: value for name, value in observed.result.items() if name != "attached"}


def _cursor_of(stored: dict[str, Any] | None) -> EventCursor | None:
    return None if stored is None else EventCursor.from_dict(stored)


def _may_have_ended(fingerprint: StatusFingerprint | None, cursors: Sequence[EventCursor | None]) -> bool:
    """Return True if a cursor has more unfinished runs than the status shows, or if a subscriber has no cursor yet."""
    active = int(fingerprint is not None and fingerprint[0] is not None)
    return any(cursor is None or len(cursor.going) > active for cursor in cursors)
