"""What a sensor waits for of all streams of an ELT sync, at one request for a look at them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.common import parse_optional_timestamp
from airflow_provider_datapipe.runs.condition import Check, Condition, Page
from airflow_provider_datapipe.runs.moments import MomentOf
from airflow_provider_datapipe.runs.reference import Target
from airflow_provider_datapipe.runs.run_conditions import FreshCondition, RunCondition
from airflow_provider_datapipe.runs.sharing import Mark, SyncStatus
from airflow_provider_datapipe.runs.steps import Steps, ask
from airflow_provider_datapipe.runs.sync import error_of_sync, result_of_sync, streams_of_sync
from airflow_provider_datapipe.runs.targets import required

#: After how many looks at the status of a sync its streams are looked at, whatever it says.
_CONFIRM = 10
#: The most names in a message.
_LISTED = 5


@dataclass(slots=True)
class _Stream:
    """What is known of one stream of a sync."""

    target: Target
    condition: RunCondition | FreshCondition
    #: What the status showed when it was last looked at, and what that look showed.
    mark: Mark | None = None
    check: Check | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is done for good: what is fresh does not stay so."""
        return self.check is not None and self.check.is_met and isinstance(self.condition, RunCondition)

    def needs_look(self, mark: Mark | None) -> bool:
        """Tell whether a look may show something new."""
        if self.check is None or self.check.is_met:
            return not self.is_settled
        return mark is None or mark != self.mark


class SyncCondition(Condition):
    """
    All streams of an ELT sync, or those that are chosen, meet a condition.

    One request shows them all at each look; when it says that all may have met it, each is looked at itself, since the
    status has no run ids, and no word for a load that goes on in slices.

    Fields: ``sync_id``, ``streams`` (names or ids; left out, all), and those of :class:`RunCondition` or, with
    ``max_age``, of :class:`FreshCondition`.
    """

    name = "sync"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._streams: list[_Stream] = []
        self._looks = 0

    @override
    def check(self, now: float) -> Steps[Check]:
        sync_id = required("sync_id", self.fields.get("sync_id"))
        # Before anything is asked: a wrong moment is said at once.
        bound = self._bound(now)
        if not self._streams:
            targets = yield from streams_of_sync(sync_id, self.fields.get("streams"), {})
            self._streams = [_Stream(target, self._part(target)) for target in targets]
        status = SyncStatus(sync_id)
        shown = status.index((yield from ask(status.request())))
        items = [(stream, shown.get(stream.target.name)) for stream in self._streams]
        # Also the first time: with mode="reschedule" each look is the first one of a process.
        confirm = self._looks % _CONFIRM == 0
        self._looks += 1
        late = [stream for stream, item in items if not stream.is_settled and item and _is_late(item, *bound)]
        if late and not confirm:
            return self._not_yet(late)
        for stream in late:
            # One that is late indeed is enough: the status is right.
            stream.check = yield from stream.condition.check(now)
            stream.mark = None
            if not stream.check.is_met:
                return self._not_yet(late)
        for stream, item in items:
            if stream in late:
                continue
            mark = None if item is None else status.mark(item)
            if stream.needs_look(None if confirm else mark):
                stream.check = yield from stream.condition.check(now)
                stream.mark = mark
        late = [stream for stream in self._streams if stream.check is None or not stream.check.is_met]
        if late:
            return self._not_yet(late)
        ends = tuple(end for stream in self._streams if stream.check for end in stream.check.ends)
        return Check(f"all {len(ends)} streams of ELT sync {sync_id} are there", is_met=True, ends=ends)

    @override
    def page(self, check: Check | None = None) -> Page:
        return Page("elt_sync", self.given("sync_id"))

    @override
    def verdict(self, check: Check) -> tuple[Any, DatapipeError | None]:
        sync_id = self.fields["sync_id"]
        return result_of_sync(sync_id, check.ends), error_of_sync(sync_id, check.ends)

    def _part(self, target: Target) -> RunCondition | FreshCondition:
        part = FreshCondition if "max_age" in self.fields else RunCondition
        shared = {name: value for name, value in self.fields.items() if name not in ("sync_id", "streams")}
        return part(target=target, kind="elt_stream", **shared)

    def _bound(self, now: float) -> tuple[datetime, str]:
        """Give what the newest run of each stream has to reach, and by which of its times."""
        part = self._part(Target("", ""))
        if isinstance(part, FreshCondition):
            return part.bound(now), "finished_at"
        rule = part.rule
        return rule.moment, "started_at" if rule.moment_of is MomentOf.START else "finished_at"

    def _not_yet(self, late: Sequence[_Stream]) -> Check:
        names = ", ".join(stream.target.name for stream in late[:_LISTED]) + (", ..." if len(late) > _LISTED else "")
        return Check(f"{len(late)} of {len(self._streams)} streams of the sync are waited for: {names}")


def _is_late(item: Mapping[str, Any], bound: datetime, time: str) -> bool:
    """Tell whether a stream can't have met its condition: its newest run that is over is too old."""
    latest = item.get("latest_sync")
    if not latest:
        return True
    at = parse_optional_timestamp(latest.get(time))
    return at is not None and at < bound
