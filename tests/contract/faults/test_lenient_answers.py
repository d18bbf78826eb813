"""Tests of response formats that the interface leaves open, and of less precise times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.transform import TransformPublishOperator
from airflow_provider_datapipe.runs.errors import RunFailedError
from tests.support.responses import elt_stream
from tests.support.routed_server import Route, RoutedServer
from tests.support.scripted_server import Reply, Seen
from tests.support.tasks import run

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
STREAM = elt_stream()
TRANSFORM = {
    "id": "t",
    "name": "vip",
    "folder_path": "shop",
    "status": "published",
    "materialization": "table",
    "sql_template": "SELECT 1",
    "parameters": [],
    "created_at": "2026-03-01T10:00:00.000Z",
}
REASON = "the source closed the connection"


class FailingService:
    """Service whose stream `s` has one failed run. Only the status of its sync has the reason."""

    def __init__(self, run_started_at: str, status_started_at: str) -> None:
        times = {"started_at": run_started_at, "finished_at": "2026-03-01T10:05:00.000Z"}
        self.run = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "status": "FAILED", **times}
        latest = {"bytes_synced": 0, "status": "FAILED", "started_at": status_started_at, "error_message": REASON}
        self.status = {"elt_sync_id": "y", "source_streams": [{"name": "orders", "latest_sync": latest}]}
        self.started = False

    def answer(self, request: Seen) -> Reply | None:
        path = request.path.partition("?")[0]
        if path == "/elt_streams/s/request_run":
            self.started = True
            return Reply(200, {"status_url": "/elt_stream_runs?elt_stream_id=s&limit=1&sort_direction=asc"})
        replies: dict[str, Any] = {
            "/elt_streams/s": STREAM,
            "/elt_stream_runs": {"data": [self.run] if self.started else [], "hasMore": False},
            "/elt_stream_runs/r1": self.run,
            "/elt_syncs/y/status": self.status,
        }
        return Reply(200, replies[path]) if path in replies else None


def connected(route: Route, monkeypatch: pytest.MonkeyPatch) -> RoutedServer:
    server = RoutedServer(route)
    connection = {"conn_type": "datapipe", "host": server.url, "password": "secret-of-the-account"}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    return server


def failure(run_started_at: str, status_started_at: str, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool) -> str:
    with connected(FailingService(run_started_at, status_started_at).answer, monkeypatch):
        task = EltStreamRunOperator(task_id="t", stream_id="s", poll_interval=0.05, timeout=30, deferrable=deferrable)
        with pytest.raises(RunFailedError) as failed:
            run(task)
    return str(failed.value)


@MODES
@pytest.mark.parametrize(
    "status_started_at",
    ["2026-03-01T10:00:00Z", "2026-03-01T10:00:01Z", "2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00.7499Z"],
    ids=["truncated", "rounded", "offset", "more_digits"],
)
def test_failure_reason_survives_times_of_another_precision(
    deferrable: bool, status_started_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert REASON in failure("2026-03-01T10:00:00.750Z", status_started_at, monkeypatch, deferrable=deferrable)


def test_failure_reason_of_another_run_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    said = failure("2026-03-01T10:00:00.750Z", "2026-03-01T10:00:02Z", monkeypatch, deferrable=False)
    assert REASON not in said


@pytest.mark.parametrize(
    ("endpoint", "item"),
    [
        ("connections.list", {"id": "c", "integration_id": "files"}),
        ("connection_bridges.list", {"expires_at": "2026-03-01T10:00:00.000Z"}),
    ],
)
def test_list_without_a_declared_schema_may_be_bare(
    endpoint: str, item: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in ([item], {"data": [item], "hasMore": False}):
        with connected(lambda _, body=body: Reply(200, body), monkeypatch):  # type: ignore[misc]  # a lambda has no types
            items = run(DatapipeOperator(task_id="t", endpoint=endpoint, all_pages=True))
        assert [{name: each[name] for name in item} for each in items] == [item]


@pytest.mark.parametrize(
    "dependencies",
    [{"a": ["b"]}, {"a": {"required": ["b"]}}, {"a": "b"}, {"a": [{"field": "b"}]}, [["a", "b"]], "a", {"a": None}],
)
def test_settings_schema_may_have_dependencies_of_any_shape(dependencies: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"$schema": "x", "title": "t", "type": "object", "properties": {}, "dependencies": dependencies}
    with connected(lambda _: Reply(200, schema), monkeypatch):
        shown = run(DatapipeOperator(task_id="t", endpoint="connections.settings", arguments={"connection_id": "c"}))
    assert shown["dependencies"] == dependencies


@MODES
def test_publication_ends_although_its_answer_had_finer_times(
    deferrable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = False

    def answer(request: Seen) -> Reply | None:
        nonlocal published
        if request.method == "POST":
            published = True
            return Reply(
                200, TRANSFORM | {"updated_at": "2026-03-02T10:00:00.966Z", "materialization_status": "running"}
            )
        updated_at = "2026-03-02T10:00:00Z" if published else "2026-03-01T10:00:00Z"
        return Reply(200, TRANSFORM | {"updated_at": updated_at, "materialization_status": "completed"})

    with RoutedServer(answer) as server:
        connection = {"conn_type": "datapipe", "host": server.url, "password": "secret-of-the-account"}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        task = TransformPublishOperator(
            task_id="t", transform_id="t", poll_interval=0.05, timeout=20, deferrable=deferrable
        )
        assert run(task)["outcome"] == "succeeded"
