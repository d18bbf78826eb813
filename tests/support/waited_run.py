"""Service with one resource of each kind, each of which can run once. Tests disturb its responses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transform import TransformPublishOperator
from tests.support.responses import elt_stream
from tests.support.scripted_server import Reply, ScriptedServer, Seen

NOT_FOUND = {"error_code": "not_found", "message": "There is no such thing."}
#: Makes the operator of each kind of run.
OPERATORS: dict[str, Callable[..., Any]] = {
    "elt_stream": lambda **more: EltStreamRunOperator(stream_id="s", **more),
    "reverse_etl": lambda **more: ReverseEtlRunOperator(reverse_etl_sync_id="s", **more),
    "orchestration": lambda **more: OrchestrationRunOperator(orchestration_id="s", **more),
    "transform": lambda **more: TransformPublishOperator(transform_id="s", **more),
}
STREAM = elt_stream()
_LISTS = {
    "/elt_stream_runs": "elt_stream",
    "/reverse_etl_sync_runs": "reverse_etl",
    "/orchestration_runs": "orchestration",
}


def operator(kind: str, *, deferrable: bool, **more: Any) -> Any:
    """Return the operator of a kind of run."""
    return OPERATORS[kind](task_id="t", deferrable=deferrable, **({"poll_interval": 0.05} | more))


def connection(url: str, **extra: Any) -> str:
    """Return the Airflow connection of a service as JSON."""
    return json.dumps(
        {"conn_type": "datapipe", "host": url, "password": "key-of-the-test", "extra": {"retry_budget": 0} | extra}
    )


class WaitedRun(ScriptedServer):
    """
    Service whose started runs end after some polls.

    :param polls: number of polls at which the run is still active.
    :param disturb: gets the number of polls of the run so far, and may return its own response to this poll.
    :param times: fields of runs that replace the usual ones.
    :param disturb_lists: disturb also the list that shows the run at first.
    :param changed: ``updated_at`` of the transform before and after it was published.
    """

    def __init__(
        self,
        polls: int = 3,
        disturb: Callable[[int], Reply | None] | None = None,
        times: dict[str, Any] | None = None,
        changed: tuple[Any, Any] = ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z"),
        *,
        disturb_lists: bool = False,
    ) -> None:
        super().__init__([Reply(404, NOT_FOUND)])
        self._polls = polls
        self._disturb = disturb or (lambda _: None)
        self._disturb_lists = disturb_lists
        self._times = times or {}
        self._changed = changed
        self._began = datetime.now(UTC)
        self._polled: Counter[str] = Counter()
        #: Kinds of the runs that were started.
        self.started: list[str] = []

    @override
    def _next(self, request: Seen) -> Reply:
        with self._lock:
            self.seen.append(request)
            path = urlsplit(request.path).path
            if request.method == "POST":
                return self._start(path)
            if path == "/elt_streams/s":
                return Reply(body=STREAM)
            if path in _LISTS:
                return self._list(_LISTS[path], request)
            kind = _LISTS.get(path.rpartition("/")[0], "transform" if path == "/transforms/s" else "")
            if not kind:
                return Reply(404, NOT_FOUND)
            if kind not in self.started:
                return Reply(body=self._transform()) if kind == "transform" else Reply(404, NOT_FOUND)
            self._polled[kind] += 1
            disturbed = self._disturb(self._polled[kind])
            return disturbed or Reply(body=self._transform() if kind == "transform" else self._run(kind))

    def _list(self, kind: str, request: Seen) -> Reply:
        if kind in self.started and "limit=1&" in request.path and self._disturb_lists:
            self._polled[kind] += 1
            if disturbed := self._disturb(self._polled[kind]):
                return disturbed
        return Reply(body={"data": [self._run(kind)] if kind in self.started else [], "has_more": False})

    def _start(self, path: str) -> Reply:
        if path == "/reverse_etl_syncs/s/deactivate":
            return Reply(204, b"")
        kind = {
            "/elt_streams/s/request_run": "elt_stream",
            "/reverse_etl_syncs/s/request_run": "reverse_etl",
            "/orchestrations/s/request_run": "orchestration",
            "/transforms/s/publish": "transform",
        }.get(path)
        if kind is None:
            return Reply(404, NOT_FOUND)
        self.started.append(kind)
        if kind == "transform":
            return Reply(body=self._transform())
        if kind == "orchestration":
            return Reply(body=self._run(kind))
        url = {
            "elt_stream": "/elt_stream_runs?elt_stream_id=s&limit=1&sort_direction=asc",
            "reverse_etl": "/reverse_etl_sync_runs?reverse_etl_sync_id=s&limit=1&sort_direction=asc",
        }[kind]
        return Reply(body={"status_url": url})

    def _run(self, kind: str) -> dict[str, Any]:
        over = self._polled[kind] > self._polls
        run = {"id": f"{kind}-run", "started_at": self._began.isoformat(), "status": "COMPLETED" if over else "RUNNING"}
        if over:
            run["finished_at"] = self._began.isoformat()
        of = {
            "elt_stream": {"elt_sync_id": "y", "elt_stream_id": "s"},
            "reverse_etl": {"reverse_etl_sync_id": "s"},
            "orchestration": {"orchestration_id": "s", "due_at": self._began.isoformat()},
        }
        times = {name: value for name, value in self._times.items() if name in run or name in of[kind]}
        return run | of[kind] | times

    def _transform(self) -> dict[str, Any]:
        over = self._polled["transform"] > self._polls
        published = "transform" in self.started
        return {
            "id": "s",
            "name": "t",
            "folder_path": "",
            "status": "published" if published else "draft",
            "materialization": "table",
            "sql_template": "SELECT 1",
            "parameters": [],
            "materialization_status": ("completed" if over else "running") if published else None,
            "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": self._changed[published],
        }
