"""A service that knows nothing but histories of runs: lists them in pages, and counts what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_streams import EltStream, EltStreamRun
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.request import Request

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: float) -> datetime:
    return ZERO + timedelta(minutes=minute)


def stamp(minute: float) -> str:
    return at(minute).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@dataclass(frozen=True)
class Past:
    """A run: when it began and ended, in minutes, and how."""

    id: str
    start: float | None
    end: float | None
    status: str = "COMPLETED"

    @property
    def is_slice(self) -> bool:
        return self.status == "CHUNK_COMPLETED"


@dataclass
class HistoryService:
    """
    Lists runs by their start.

    :param runs: by stream or orchestration, oldest first.
    :param page_size: the most runs on a page, whatever is asked for.
    """

    runs: dict[str, list[Past]]
    page_size: int = 100
    asked: list[Request[Any]] = field(default_factory=list)

    def send(self, request: Request[Any]) -> Any:
        self.asked.append(request)
        query = dict(request.query)
        resource, _, action = request.endpoint.name.partition(".")
        if resource == "elt_syncs":
            return self._status()
        if resource == "elt_streams" and action == "list":
            return Page(data=tuple(_stream(name) for name in self.runs), has_more=False)
        if resource == "elt_streams":
            return _stream(request.path.rpartition("/")[2])
        if action == "get":
            run_id = request.path.rpartition("/")[2]
            return self._shown(resource, *self._find(run_id))
        owner = query["elt_stream_id" if resource == "elt_stream_runs" else "orchestration_id"]
        runs = self.runs[owner]
        if query.get("sort_direction") != "asc":
            runs = runs[::-1]
        if after := query.get("starting_after"):
            runs = runs[[run.id for run in runs].index(after) + 1 :]
        shown = runs[: min(self.page_size, int(query.get("limit", 10)))]
        has_more = len(shown) < len(runs)
        data = tuple(self._shown(resource, owner, run) for run in shown)
        return Page(data=data, has_more=has_more, next_cursor=shown[-1].id if has_more else None)

    def _find(self, run_id: str) -> tuple[str, Past]:
        for owner, runs in self.runs.items():
            for run in runs:
                if run.id == run_id:
                    return owner, run
        raise NotFoundError(run_id, status=404)

    def _shown(self, resource: str, owner: str, run: Past) -> Any:
        fields: dict[str, Any] = {"id": run.id, "status": run.status}
        fields |= {"started_at": stamp(run.start)} if run.start is not None else {}
        fields |= {"finished_at": stamp(run.end)} if run.end is not None else {}
        if resource == "orchestration_runs":
            due = stamp(run.start if run.start is not None else 1e6)
            return OrchestrationRun.model_validate(fields | {"orchestration_id": owner, "due_at": due})
        return EltStreamRun.model_validate(fields | {"elt_stream_id": owner, "elt_sync_id": "y"})

    def _status(self) -> dict[str, Any]:
        return {"source_streams": [{"name": name, **self._snapshots(runs)} for name, runs in self.runs.items()]}

    def _snapshots(self, runs: Sequence[Past]) -> dict[str, Any]:
        def snapshot(run: Past) -> dict[str, Any]:
            # A slice is COMPLETED there.
            status = "COMPLETED" if run.is_slice else run.status
            end = {} if run.end is None else {"finished_at": stamp(run.end)}
            return {"status": status, "started_at": stamp(run.start or 0), **end}

        over = [run for run in runs if run.end is not None]
        going = [run for run in runs if run.end is None]
        return {
            "latest_sync": snapshot(over[-1]) if over else None,
            "active_sync": snapshot(going[-1]) if going else None,
        }


def _stream(name: str) -> EltStream:
    return EltStream.model_validate(
        {
            "id": name,
            "elt_sync_id": "y",
            "name": name,
            "full_sync_at_midnight": False,
            "full_sync_always": False,
            "protected_from_full_sync": False,
            "created_at": stamp(0),
            "updated_at": stamp(0),
            "excluded_substreams": [],
            "enabled_history_table": False,
        }
    )
