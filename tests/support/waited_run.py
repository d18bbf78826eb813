"""Service with one resource of each kind, each with at most one run. Tests can disturb its responses."""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from tests.support.responses import LONG_AGO, elt_stream, transform
from tests.support.scripted_server import Reply, RoutedServer, Seen

NOT_FOUND = {"error_code": "not_found", "message": "There is no such thing."}
#: Operators by kind of run.
OPERATORS: dict[str, Callable[..., Any]] = {
    "elt_stream": lambda **more: EltStreamRunOperator(stream_id="s", **more),
    "reverse_etl": lambda **more: ReverseEtlRunOperator(reverse_etl_sync_id="s", **more),
    "orchestration": lambda **more: OrchestrationRunOperator(orchestration_id="s", **more),
    "transform": lambda **more: TransformPublishOperator(transform_id="s", **more),
}
_LISTS = {
    "/elt_stream_runs": "elt_stream",
    "/reverse_etl_sync_runs": "reverse_etl",
    "/orchestration_runs": "orchestration",
}
_STARTS = {
    "/elt_streams/s/request_run": "elt_stream",
    "/reverse_etl_syncs/s/request_run": "reverse_etl",
    "/orchestrations/s/request_run": "orchestration",
    "/transforms/s/publish": "transform",
}
STATUS_URLS = {
    "elt_stream": "/elt_stream_runs?elt_stream_id=s&limit=1&sort_direction=asc",
    "reverse_etl": "/reverse_etl_sync_runs?reverse_etl_sync_id=s&limit=1&sort_direction=asc",
}

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
KINDS = pytest.mark.parametrize("kind", OPERATORS)


def operator(kind: str, *, deferrable: bool, **more: Any) -> Any:
    """Return the operator of a kind of run."""
    return OPERATORS[kind](task_id="t", deferrable=deferrable, **({"poll_interval": 0.05} | more))


def connection(url: str, **extra: Any) -> str:
    """Return the Airflow connection of a service as JSON."""
    return json.dumps(
        {"conn_type": "datapipe", "host": url, "password": "key-of-the-test", "extra": {"retry_budget": 0} | extra}
    )


class WaitedRun(RoutedServer):
    """
    Service whose started runs end after some polls.

    :param polls: number of polls at which the run is still active; -1 for runs that end at once.
    :param disturb: called with the number of earlier polls of the run. Returns a response to this poll, or None.
    :param fields: fields of runs that are added or replaced.
    :param disturb_lists: disturb also the list that shows the run at first.
    :param changed: ``updated_at`` of the transform before and after it was published.
    :param status_url: status URL of each run in place of the usual one.
    :param started: kinds whose runs have already started.
    :param tls: TLS context; None for plain HTTP.
    """

    def __init__(
        self,
        polls: int = 3,
        disturb: Callable[[int], Reply | None] = lambda _: None,
        fields: dict[str, Any] | None = None,
        changed: tuple[Any, Any] = (LONG_AGO, "2026-01-01T00:00:01.000Z"),
        *,
        disturb_lists: bool = False,
        status_url: str | None = None,
        started: tuple[str, ...] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(self._answer, tls=tls)
        self._polls = polls
        self._disturb = disturb
        self._disturb_lists = disturb_lists
        self._fields = fields or {}
        self._changed = changed
        self._status_url = status_url
        self._began = datetime.now(UTC).isoformat()
        self._polled: Counter[str] = Counter()
        #: Kinds of the runs that were started.
        self.started: list[str] = list(started)

    def _answer(self, request: Seen) -> Reply | None:
        path = request.route
        if request.method == "POST":
            return Reply(204, b"") if path == "/reverse_etl_syncs/s/deactivate" else self._start(path)
        if path == "/elt_streams/s":
            return Reply(body=elt_stream())
        if path in _LISTS:
            return self._list(_LISTS[path], request)
        kind = _LISTS.get(path.rpartition("/")[0], "transform" if path == "/transforms/s" else "")
        if kind not in self.started:
            return Reply(body=self._shown(kind)) if kind == "transform" else None
        return self._disturbed(kind) or Reply(body=self._shown(kind))

    def _disturbed(self, kind: str) -> Reply | None:
        self._polled[kind] += 1
        return self._disturb(self._polled[kind])

    def _list(self, kind: str, request: Seen) -> Reply:
        is_started = kind in self.started
        disturbs = is_started and self._disturb_lists and "limit=1&" in request.path
        listed = Reply(body={"data": [self._shown(kind)] if is_started else [], "has_more": False})
        return (disturbs and self._disturbed(kind)) or listed

    def _start(self, path: str) -> Reply | None:
        if path not in _STARTS:
            return None
        kind = _STARTS[path]
        self.started.append(kind)
        if kind in STATUS_URLS:
            return Reply(body={"status_url": self._status_url or STATUS_URLS[kind]})
        return Reply(body=self._shown(kind))

    def _shown(self, kind: str) -> dict[str, Any]:
        """Return a run, or the transform."""
        over = self._polled[kind] > self._polls
        if kind == "transform":
            return self._transform(over=over)
        run = {"id": f"{kind}-run", "started_at": self._began, "status": "COMPLETED" if over else "RUNNING"}
        run |= {"finished_at": self._began} if over else {}
        of = {
            "elt_stream": {"elt_sync_id": "y", "elt_stream_id": "s"},
            "reverse_etl": {"reverse_etl_sync_id": "s"},
            "orchestration": {"orchestration_id": "s", "due_at": self._began},
        }
        return run | of[kind] | self._fields

    def _transform(self, *, over: bool) -> dict[str, Any]:
        published = "transform" in self.started
        return transform(
            "s",
            status="published" if published else "draft",
            materialization_status=("completed" if over else "running") if published else None,
            updated_at=self._changed[published],
        )
