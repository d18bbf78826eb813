"""Service that lists run histories in pages, and records the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request
from tests.unit.runs.model_service import listed, page, run_of, stream

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: float) -> datetime:
    return ZERO + timedelta(minutes=minute)


def stamp(minute: float) -> str:
    return at(minute).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@dataclass(frozen=True)
class PastRun:
    """Run with its start and end in minutes, and its status."""

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
    :param page_size: limit of runs per page, also if a request asks for more.
    """

    runs: dict[str, list[PastRun]]
    page_size: int = 100
    asked: list[Request[Any]] = field(default_factory=list)

    def send(self, request: Request[Any]) -> Any:
        self.asked.append(request)
        resource, _, action = request.endpoint.name.partition(".")
        last = request.path.rpartition("/")[2]
        if resource == "elt_syncs":
            return {"source_streams": [{"name": name, **self._snapshots(runs)} for name, runs in self.runs.items()]}
        if resource == "elt_streams":
            return page(*(stream(name, name) for name in self.runs)) if action == "list" else stream(last, last)
        kind = resource.removesuffix("_runs")
        if action == "get":
            return self._found(kind, last)
        query = dict(request.query)
        owner = query[f"{kind}_id"]
        runs = {run.id: run for run in self.runs[owner]}
        ids = listed(request, list(runs))
        size = min(self.page_size, int(query.get("limit", 10)))
        shown = tuple(_shown(kind, owner, runs[run_id]) for run_id in ids[:size])
        has_more = size < len(ids)
        return Page(data=shown, has_more=has_more, next_cursor=shown[-1].id if has_more else None)

    def _found(self, kind: str, run_id: str) -> Any:
        for owner, runs in self.runs.items():
            for run in runs:
                if run.id == run_id:
                    return _shown(kind, owner, run)
        raise NotFoundError(run_id, status=404)

    def _snapshots(self, runs: Sequence[PastRun]) -> dict[str, Any]:
        def snapshot(run: PastRun) -> dict[str, Any]:
            # In the status of a sync, a slice is COMPLETED.
            status = "COMPLETED" if run.is_slice else run.status
            end = {} if run.end is None else {"finished_at": stamp(run.end)}
            return {"status": status, "started_at": stamp(run.start or 0), **end}

        over = [run for run in runs if run.end is not None]
        going = [run for run in runs if run.end is None]
        return {
            "latest_sync": snapshot(over[-1]) if over else None,
            "active_sync": snapshot(going[-1]) if going else None,
        }


def _shown(kind: str, owner: str, run: PastRun) -> Any:
    times = {"started_at": run.start, "finished_at": run.end}
    fields = {name: None if minute is None else stamp(minute) for name, minute in times.items()}
    if kind == "orchestration":
        fields["due_at"] = fields["started_at"] or stamp(1e6)
    return run_of(kind, run.id, run.status, of=owner, **fields)
