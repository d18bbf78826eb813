"""Requests that show where many runs stand, so that the waits for them need not ask one by one. Pure."""

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
from airflow_provider_datapipe.runs.reference import Observation, Reference

#: What a shared answer last showed of a run, to be compared with what it shows next.
Mark: TypeAlias = tuple[Any, ...]


class Unclear(Enum):
    """A shared answer does not tell where a run stands: the run itself has to be looked at."""

    UNCLEAR = auto()


class Shared(ABC):
    """
    One request that shows many runs.

    :param key: what it shows, such as the id of a sync; equal things are asked for once.
    """

    #: From how many waits on it costs less than looking at each run.
    WORTHWHILE: ClassVar[int] = 2
    #: Whether what it shows is the run itself. Otherwise it only tells that something has changed.
    IS_COMPLETE: ClassVar[bool]

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and type(self) is type(other) and self.key == other.key

    @override
    def __hash__(self) -> int:
        return hash((type(self), self.key))

    @abstractmethod
    def request(self) -> Request[Any]:
        """Give the request."""

    @abstractmethod
    def index(self, answer: Any) -> Mapping[str, Any]:
        """Give what an answer shows, by what :meth:`find` looks for."""

    @abstractmethod
    def find(self, reference: Reference, shown: Mapping[str, Any]) -> Any | None:
        """Find a run in what an answer shows."""

    @abstractmethod
    def mark(self, item: Any) -> Mark:
        """Give the part of what is shown that changes when the run gets on."""

    def is_going(self, item: Any) -> bool:
        """Tell whether a run that has begun is shown as going."""
        return True

    def read(self, reference: Reference, item: Any) -> Observation | Unclear:
        """Read where the run stands, when its mark has changed."""
        return Unclear.UNCLEAR

    def following(self, answer: Any, *, missing: int, pages: int) -> Request[Any] | None:
        """
        Give the request for more, or None when looking at each run that is missing costs no more.

        :param missing: how many runs were not shown so far.
        :param pages: how many answers there were so far.
        """
        return None


class _Glance(TypedDict, total=False):
    status: str | None
    started_at: str | None
    finished_at: str | None


class _Glances(TypedDict, total=False):
    name: str
    active_sync: _Glance | None
    latest_sync: _Glance | None


class _Status(TypedDict):
    """The status of a sync, as far as it tells of changes: reading all of it is thirty times the work."""

    source_streams: list[_Glances]


class SyncStatus(Shared):
    """
    The status of an ELT sync, which shows all its streams.

    It has no run ids, and no word for a load that goes on in slices, so it tells only that something has changed.
    """

    IS_COMPLETE = False

    __slots__ = ()

    @override
    def request(self) -> Request[Any]:
        return replace(elt_syncs.status(self.key).read_as(_Status), once=True)

    @override
    def index(self, answer: _Status) -> Mapping[str, Any]:
        shown: dict[str, _Glances | None] = {}
        for stream in answer["source_streams"]:
            name = stream.get("name", "")
            # Streams of one name can't be told apart.
            shown[name] = None if name in shown else stream
        return shown

    @override
    def find(self, reference: Reference, shown: Mapping[str, Any]) -> Any | None:
        return shown.get(reference.name)

    @override
    def mark(self, item: _Glances) -> Mark:
        active, latest = item.get("active_sync") or {}, item.get("latest_sync") or {}
        return (
            active.get("status"),
            active.get("started_at"),
            latest.get("status"),
            latest.get("started_at"),
            latest.get("finished_at"),
        )

    @override
    def is_going(self, item: _Glances) -> bool:
        active = item.get("active_sync")
        # One that is only due has not begun.
        return bool(active and active.get("started_at"))


class _RunPage(TypedDict, total=False):
    data: list[dict[str, Any]]
    has_more: bool
    hasMore: bool
    next_cursor: str | None
    nextCursor: str | None


class OrchestrationRuns(Shared):
    """The newest runs of all orchestrations; those of the list are complete."""

    IS_COMPLETE = True
    #: Runs for which one more page is asked for at the least.
    _WORTH_A_PAGE = 2

    __slots__ = ()

    @override
    def request(self) -> Request[Any]:
        return replace(orchestration_runs.list_(limit=LARGEST_PAGE).read_as(_RunPage), once=True)

    @override
    def index(self, answer: _RunPage) -> Mapping[str, Any]:
        return {str(run.get("id")): run for run in answer.get("data", [])}

    @override
    def find(self, reference: Reference, shown: Mapping[str, Any]) -> Any | None:
        return None if reference.run_id is None else shown.get(reference.run_id)

    @override
    def mark(self, item: dict[str, Any]) -> Mark:
        return (item.get("status"), item.get("started_at"), item.get("finished_at"))

    @override
    def read(self, reference: Reference, item: dict[str, Any]) -> Observation | Unclear:
        try:
            run = OrchestrationRun.model_validate(item)
        except ValidationError:
            # Looked at alone, it makes the error that says what is wrong.
            return Unclear.UNCLEAR
        return KINDS[reference.kind].read(reference, run)

    @override
    def following(self, answer: _RunPage, *, missing: int, pages: int) -> Request[Any] | None:
        cursor = answer.get("next_cursor") or answer.get("nextCursor")
        more = answer.get("has_more") or answer.get("hasMore")
        if not more or not cursor or missing < max(self._WORTH_A_PAGE, pages):
            return None
        return self.request().with_query(starting_after=cursor)


def shared_by(reference: Reference) -> Shared | None:
    """Give the request that shows a run beside others, where there is one."""
    if reference.kind == "elt_stream" and reference.sync_id is not None:
        return SyncStatus(reference.sync_id)
    if reference.kind == "orchestration" and reference.run_id is not None:
        return OrchestrationRuns("all")
    return None
