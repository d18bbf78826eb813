"""Bulk status requests. One request shows the state of many runs. Pure: no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Any, ClassVar, TypeAlias

from pydantic import ValidationError
from typing_extensions import TypedDict, override

from airflow_provider_datapipe.api.endpoints import elt_syncs, orchestration_runs
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef, RunState

#: Fingerprint of a run's state in a bulk status, to detect changes.
StatusFingerprint: TypeAlias = tuple[Any, ...]


class NeedsDirectPoll(Enum):
    """Marker for a bulk status that does not show the state of a run, so that the run needs a direct poll."""

    UNCLEAR = auto()


class BulkStatusRequest(ABC):
    """
    Bulk status request.

    :param key: key of the request, such as the ID of a sync. Requests with equal keys are sent once.
    """

    #: Number of waits from which the request costs less than a direct poll of each run.
    WORTHWHILE: ClassVar[int] = 2
    #: True if the answer contains complete runs. False if it only shows that a run has changed.
    IS_COMPLETE: ClassVar[bool]

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, BulkStatusRequest) and type(self) is type(other) and self.key == other.key

    @override
    def __hash__(self) -> int:
        return hash((type(self), self.key))

    @abstractmethod
    def request(self) -> Request[Any]:
        """Return the request."""

    @abstractmethod
    def index(self, answer: Any) -> Mapping[str, Any]:
        """Return the items of an answer, by the keys that :meth:`find` uses."""

    @abstractmethod
    def find(self, reference: RunRef, shown: Mapping[str, Any]) -> Any | None:
        """Return the item of a run, None if there is none."""

    @abstractmethod
    def fingerprint(self, item: Any) -> StatusFingerprint:
        """Return the fingerprint of an item, which changes when the state of the run changes."""

    def is_active(self, item: Any) -> bool:
        """Return True if an item shows an active run that has started."""
        return True

    def read(self, reference: RunRef, item: Any) -> RunState | NeedsDirectPoll:
        """Return the state of a run whose fingerprint has changed."""
        return NeedsDirectPoll.UNCLEAR

    def following(self, answer: Any, *, missing: int, pages: int) -> Request[Any] | None:
        """
        Return the request for the next page, or None if direct polls of the missing runs do not cost more.

        :param missing: number of runs that were not shown so far.
        :param pages: number of pages so far.
        """
        return None


class _StreamSnapshot(TypedDict, total=False):
    status: str | None
    started_at: str | None
    finished_at: str | None


class _StreamSnapshots(TypedDict, total=False):
    name: str
    active_sync: _StreamSnapshot | None
    latest_sync: _StreamSnapshot | None


class _Status(TypedDict):
    """The fields of a sync's status that show changes. Validating all fields takes thirty times as long."""

    source_streams: list[_StreamSnapshots]


class SyncStatus(BulkStatusRequest):
    """
    Status of an ELT sync, which shows all its streams.

    It has no run IDs, and no status for a load that continues in slices, so it shows only that a run has changed.
    """

    IS_COMPLETE = False

    __slots__ = ()

    @override
    def request(self) -> Request[Any]:
        return replace(elt_syncs.status(self.key).read_as(_Status), once=True)

    @override
    def index(self, answer: _Status) -> Mapping[str, Any]:
        shown: dict[str, _StreamSnapshots | None] = {}
        for stream in answer["source_streams"]:
            name = stream.get("name", "")
            # Streams with the same name are ambiguous.
            shown[name] = None if name in shown else stream
        return shown

    @override
    def find(self, reference: RunRef, shown: Mapping[str, Any]) -> Any | None:
        return shown.get(reference.name)

    @override
    def fingerprint(self, item: _StreamSnapshots) -> StatusFingerprint:
        active, latest = item.get("active_sync") or {}, item.get("latest_sync") or {}
        return (
            active.get("status"),
            active.get("started_at"),
            latest.get("status"),
            latest.get("started_at"),
            latest.get("finished_at"),
        )

    @override
    def is_active(self, item: _StreamSnapshots) -> bool:
        active = item.get("active_sync")
        # A run that is only scheduled has no start time.
        return bool(active and active.get("started_at"))


class _RunPage(TypedDict, total=False):
    data: list[dict[str, Any]]
    has_more: bool
    hasMore: bool
    next_cursor: str | None
    nextCursor: str | None


class OrchestrationRuns(BulkStatusRequest):
    """The newest runs of all orchestrations. The list contains complete runs."""

    IS_COMPLETE = True
    #: The fewest missing runs for which a further page is requested.
    _WORTH_A_PAGE = 2

    __slots__ = ()

    @override
    def request(self) -> Request[Any]:
        return replace(orchestration_runs.list_(limit=LARGEST_PAGE).read_as(_RunPage), once=True)

    @override
    def index(self, answer: _RunPage) -> Mapping[str, Any]:
        return {str(run.get("id")): run for run in answer.get("data", [])}

    @override
    def find(self, reference: RunRef, shown: Mapping[str, Any]) -> Any | None:
        return None if reference.run_id is None else shown.get(reference.run_id)

    @override
    def fingerprint(self, item: dict[str, Any]) -> StatusFingerprint:
        return (item.get("status"), item.get("started_at"), item.get("finished_at"))

    @override
    def read(self, reference: RunRef, item: dict[str, Any]) -> RunState | NeedsDirectPoll:
        try:
            run = OrchestrationRun.model_validate(item)
        except ValidationError:
            # The direct poll raises an error with the details.
            return NeedsDirectPoll.UNCLEAR
        return KINDS[reference.kind].read(reference, run)

    @override
    def following(self, answer: _RunPage, *, missing: int, pages: int) -> Request[Any] | None:
        cursor = answer.get("next_cursor") or answer.get("nextCursor")
        more = answer.get("has_more") or answer.get("hasMore")
        if not more or not cursor or missing < max(self._WORTH_A_PAGE, pages):
            return None
        return self.request().with_query(starting_after=cursor)


def bulk_status_for(reference: RunRef) -> BulkStatusRequest | None:
    """Return the bulk status request that shows a run, None if there is none."""
    if reference.kind == "elt_stream" and reference.sync_id is not None:
        return SyncStatus(reference.sync_id)
    if reference.kind == "orchestration" and reference.run_id is not None:
        return OrchestrationRuns("all")
    return None
