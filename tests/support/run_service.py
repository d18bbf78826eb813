"""HTTP service on loopback that lists the runs of a test, in the order that the interface declares."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from tests.support.responses import elt_stream
from tests.support.scripted_server import Reply, RoutedServer, Seen

#: Field by which each list of runs is ordered, and field with the ID of the resource.
_LISTS = {
    "elt_stream_runs": ("started_at", "elt_stream_id"),
    "reverse_etl_sync_runs": ("started_at", "reverse_etl_sync_id"),
    "orchestration_runs": ("due_at", "orchestration_id"),
}
SYNC = "sync"


def timestamp(time: datetime) -> str:
    """Return a time in the format of the service."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def ago(**duration: float) -> str:
    """Return the time some hours, minutes or seconds ago. Negative values are in the future."""
    return timestamp(datetime.now(UTC) - timedelta(**duration))


class RunService(RoutedServer):
    """
    Lists of runs, the status of one ELT sync, and transforms.

    A test replaces whole attributes between two requests, so that no request sees a partial change.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        #: Runs by the name of their list, each with the fields of the interface.
        self.runs: dict[str, list[dict[str, Any]]] = {name: [] for name in _LISTS}
        #: Runs that a lagging replica does not show in lists.
        self.unlisted: set[str] = set()
        #: Runs that are not found by their ID.
        self.not_found: set[str] = set()
        #: Names of the streams of the sync; their IDs are the same.
        self.streams: list[str] = ["s"]
        #: The current format of run IDs. IDs in another format are refused.
        self.format: Callable[[str], str] = str
        self.transform: dict[str, Any] = {}
        #: Status of the sync by stream. None: derived from the runs.
        self.status: dict[str, dict[str, Any]] | None = None
        #: Status of the responses to all requests. None: normal responses.
        self.refusal: int | None = None
        #: Retry-After of error responses in seconds.
        self.retry_after: int | None = None
        #: Seconds after which a RUNNING run completes. None: never.
        self.duration: float | None = None
        self.requests: Counter[str] = Counter()

    def _answer(self, request: Seen) -> Reply:
        path = unquote(request.route).strip("/").split("/")
        answer = self._start(path) if request.method == "POST" else self._read(path, request.query)
        if not isinstance(answer, int):
            return Reply(body=answer)
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return Reply(answer, {"error_code": "refused", "message": "refused"}, headers)

    def _read(self, path: list[str], query: dict[str, str]) -> Any:  # noqa: PLR0911 - a route each
        """Return the body of the response, or an error status."""
        self.requests[path[0] if len(path) == 1 else f"{path[0]}/one"] += 1
        if self.refusal:
            return self.refusal
        match path:
            case [name] if name in _LISTS:
                return self._page(name, query)
            case [name, run_id] if name in _LISTS:
                return self._one(name, run_id)
            case ["elt_streams"]:
                return {"data": [elt_stream(name, name=name, sync_id=SYNC) for name in self.streams], "has_more": False}
            case ["elt_streams", stream_id]:
                return elt_stream(stream_id, name=stream_id, sync_id=SYNC)
            case ["elt_syncs", _, "status"]:
                return {"source_streams": [{"name": name, **self._snapshots(name)} for name in self.streams]}
            case ["transforms", _]:
                return self.transform
        return 404

    def _start(self, path: list[str]) -> Any:
        if path[0] != "orchestrations" or path[2:] != ["request_run"]:
            return 404
        now = timestamp(datetime.fromtimestamp(time.time(), UTC))
        run_id = f"new{len(self.runs['orchestration_runs'])}"
        run = orchestration_run(run_id, "RUNNING", due=now, started=now, orchestration_id=path[1])
        self.runs["orchestration_runs"].append(run)
        self.requests["request_run"] += 1
        return self._shown(run)

    def _page(self, name: str, query: dict[str, str]) -> Any:
        order, owner = _LISTS[name]
        wanted = query.get(owner)
        runs = [run for run in self.runs[name] if wanted in (None, run[owner]) and run["id"] not in self.unlisted]
        runs.sort(key=lambda run: run[order], reverse=query.get("sort_direction") != "asc")
        begin = 0
        if after := query.get("starting_after"):
            ids = [self.format(run["id"]) for run in runs]
            if after not in ids:
                return 400
            begin = ids.index(after) + 1
        page = runs[begin : begin + int(query.get("limit", 10))]
        more = begin + len(page) < len(runs)
        shown = [self._shown(run) for run in page]
        return {"data": shown, "has_more": more, "next_cursor": shown[-1]["id"] if more else None}

    def _one(self, name: str, run_id: str) -> Any:
        for run in self.runs[name]:
            if self.format(run["id"]) == run_id and run["id"] not in self.not_found:
                return self._shown(run)
        known = any(run["id"] == run_id for run in self.runs[name]) and run_id not in self.not_found
        # The interface declares no 400 for orchestrations.
        return 400 if known and name != "orchestration_runs" else 404

    def _shown(self, run: dict[str, Any]) -> dict[str, Any]:
        if self.duration is not None and run["status"] == "RUNNING":
            end = datetime.fromisoformat(run["started_at"]).timestamp() + self.duration
            if time.time() >= end:
                run = run | {"status": "COMPLETED", "finished_at": timestamp(datetime.fromtimestamp(end, UTC))}
        return {name: value for name, value in run.items() if value is not None} | {"id": self.format(run["id"])}

    def _snapshots(self, stream: str) -> dict[str, Any]:
        if self.status is not None:
            return self.status.get(stream, {})
        runs = [run for run in self.runs["elt_stream_runs"] if run["elt_stream_id"] == stream]
        going = [run for run in runs if run["status"] == "RUNNING"]
        over = sorted((run for run in runs if run["status"] != "RUNNING"), key=lambda run: run["started_at"])
        return {"active_sync": _snapshot(going[-1:]), "latest_sync": _snapshot(over[-1:])}


def _snapshot(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not runs:
        return None
    (run,) = runs
    return {name: run[name] for name in ("status", "started_at", "finished_at") if run.get(name) is not None}


def _run(run_id: str, status: str, started: str | None, finished: str | None, **fields: Any) -> dict[str, Any]:
    return {"id": run_id, "status": status, "started_at": started, "finished_at": finished, **fields}


def orchestration_run(
    run_id: str,
    status: str,
    *,
    due: str,
    started: str | None = None,
    finished: str | None = None,
    orchestration_id: str = "o",
) -> dict[str, Any]:
    """Return a run of an orchestration without fields that are None."""
    return _run(run_id, status, started, finished, orchestration_id=orchestration_id, due_at=due)


def stream_run(
    run_id: str, status: str, *, started: str, finished: str | None = None, stream_id: str = "s"
) -> dict[str, Any]:
    """Return a run of a stream without fields that are None."""
    return _run(run_id, status, started, finished, elt_sync_id=SYNC, elt_stream_id=stream_id, rows_synced=1)


def reverse_etl_run(
    run_id: str, status: str, *, started: str, finished: str | None = None, sync_id: str = "r"
) -> dict[str, Any]:
    """Return a run of a reverse ETL sync without fields that are None."""
    return _run(run_id, status, started, finished, reverse_etl_sync_id=sync_id)
