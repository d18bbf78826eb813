"""Condition for all streams of an ELT sync, which one request polls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.common import parse_optional_timestamp
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.conditions.base import Check, Condition, ServicePage
from airflow_provider_datapipe.runs.conditions.runs import FreshCondition, RunCondition
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.polling.bulk_status import StatusFingerprint, SyncStatus
from airflow_provider_datapipe.runs.run_history import RunTime
from airflow_provider_datapipe.runs.sync import error_of_sync, result_of_sync, streams_of_sync
from airflow_provider_datapipe.runs.targets import required

#: Number of polls of a sync's status after which its streams are polled directly in any case.
_CONFIRM = 10
#: The most names in a message.
_LISTED = 5


@dataclass(slots=True)
class _Stream:
    """State of one stream of a sync."""

    target: RunTarget
    condition: RunCondition | FreshCondition
    #: Status of the stream at its last direct poll, and the result of this poll.
    fingerprint: StatusFingerprint | None = None
    check: Check | None = None

    @property
    def is_settled(self) -> bool:
        """True if the stream needs no further polls. A freshness condition can become unmet again."""
        return self.check is not None and self.check.is_met and isinstance(self.condition, RunCondition)

    def needs_direct_poll(self, fingerprint: StatusFingerprint | None) -> bool:
        """Return True if a direct poll may show a change."""
        if self.check is None or self.check.is_met:
            return not self.is_settled
        return fingerprint is None or fingerprint != self.fingerprint


class SyncCondition(Condition):
    """
    Condition that all streams of an ELT sync, or the selected ones, meet a condition.

    One request polls all streams. Only if all of them may meet the condition, each one is polled directly, because the
    status has no run IDs, and no status for a load that continues in slices.

    Fields: ``sync_id``, ``streams`` (names or IDs, by default all), and those of :class:`RunCondition` or, with
    ``max_age``, of :class:`FreshCondition`.
    """

    name = "sync"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._streams: list[_Stream] = []
        self._schedule = 0

    @override
    async def check(self, now: float) -> Check:
        sync_id = required("sync_id", self.fields.get("sync_id"))
        # Raise for an invalid time before the first request.
        bound = self._bound(now)
        if not self._streams:
            targets = await streams_of_sync(sync_id, self.fields.get("streams"), {})
            self._streams = [_Stream(target, self._stream_condition(target)) for target in targets]
        status = SyncStatus(sync_id)
        shown = status.index(await send(status.request()))
        items = [(stream, shown.get(stream.target.name)) for stream in self._streams]
        # The first check confirms as well: with mode="reschedule", each check is the first one of a process.
        confirm = self._schedule % _CONFIRM == 0
        self._schedule += 1
        late = [stream for stream, item in items if not stream.is_settled and item and _is_late(item, *bound)]
        if late and not confirm:
            return self._not_yet(late)
        for stream in late:
            # A single confirmed late stream is sufficient.
            stream.check = await stream.condition.check(now)
            stream.fingerprint = None
            if not stream.check.is_met:
                return self._not_yet(late)
        for stream, item in items:
            if stream in late:
                continue
            fingerprint = None if item is None else status.fingerprint(item)
            if stream.needs_direct_poll(None if confirm else fingerprint):
                stream.check = await stream.condition.check(now)
                stream.fingerprint = fingerprint
        late = [stream for stream in self._streams if stream.check is None or not stream.check.is_met]
        if late:
            return self._not_yet(late)
        ends = tuple(end for stream in self._streams if stream.check for end in stream.check.ends)
        return Check(f"all {len(ends)} streams of ELT sync {sync_id} meet the condition", is_met=True, ends=ends)

    @override
    def page(self, check: Check | None = None) -> ServicePage:
        return ServicePage("elt_sync", self.page_id("sync_id"))

    @override
    def task_result(self, check: Check) -> tuple[Any, DatapipeError | None]:
        sync_id = self.fields["sync_id"]
        return result_of_sync(sync_id, check.ends), error_of_sync(sync_id, check.ends)

    def _stream_condition(self, target: RunTarget) -> RunCondition | FreshCondition:
        condition = FreshCondition if "max_age" in self.fields else RunCondition
        shared = {name: value for name, value in self.fields.items() if name not in ("sync_id", "streams")}
        return condition(target=target, kind="elt_stream", **shared)

    def _bound(self, now: float) -> tuple[datetime, str]:
        """Return the earliest time that satisfies the condition, and the name of the run's time that it applies to."""
        condition = self._stream_condition(RunTarget("", ""))
        if isinstance(condition, FreshCondition):
            return condition.bound(now), "finished_at"
        rule = condition.rule
        return rule.moment, "started_at" if rule.moment_of is RunTime.START else "finished_at"

    def _not_yet(self, late: Sequence[_Stream]) -> Check:
        names = ", ".join(stream.target.name for stream in late[:_LISTED]) + (", ..." if len(late) > _LISTED else "")
        return Check(f"waiting for {len(late)} of {len(self._streams)} streams of the sync: {names}")


def _is_late(item: Mapping[str, Any], bound: datetime, time: str) -> bool:
    """Return True if a stream cannot meet its condition because its newest finished run is too old."""
    latest = item.get("latest_sync")
    if not latest:
        return True
    at = parse_optional_timestamp(latest.get(time))
    return at is not None and at < bound
