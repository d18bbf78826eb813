"""Tests of accepted runs whose status URL is broken: the list of runs contains them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from tests.support.responses import elt_stream
from tests.support.routed_server import RoutedServer
from tests.support.scripted_server import Reply, Seen
from tests.support.tasks import run

SYNC_RUN = {"id": "r1", "reverse_etl_sync_id": "s", "status": "COMPLETED", "synced_rows": 3, "failed_rows": 0}
STREAM_RUN = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "status": "COMPLETED", "rows_synced": 3}
STREAM = elt_stream()
KINDS: dict[str, tuple[str, str, dict[str, Any], Any]] = {
    "stream": ("elt_streams", "elt_stream_runs", STREAM_RUN, EltStreamRunOperator),
    "reverse_etl": ("reverse_etl_syncs", "reverse_etl_sync_runs", SYNC_RUN, ReverseEtlRunOperator),
}


class Service:
    """Service with one stream or reverse ETL sync, `s`, whose run starts with the first request for it."""

    def __init__(self, kind: str, status_url: str) -> None:
        self.resources, self.runs, run, operator = KINDS[kind]
        # A run that started long before it was requested would be another one.
        started = datetime.now(UTC)
        times = {"started_at": started.isoformat(), "finished_at": (started + timedelta(hours=1)).isoformat()}
        self.run = run | times
        self.operator = operator
        self.status_url = status_url.replace("RUNS", self.runs)
        self.started = False

    def answer(self, request: Seen) -> Reply | None:
        path = request.path.partition("?")[0]
        if request.method == "POST" and path == f"/{self.resources}/s/request_run":
            self.started = True
            return Reply(200, {"status_url": self.status_url})
        if path == f"/{self.runs}":
            return Reply(200, {"data": [self.run] if self.started else [], "hasMore": False})
        if path == "/elt_streams/s":
            return Reply(200, STREAM)
        return Reply(200, self.run) if path == f"/{self.runs}/r1" else None


@pytest.mark.slow
@pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "status_url",
    [
        "https://api.example.com:port/RUNS?limit=1",
        "https://api.example.com:99999/RUNS?limit=1",
        "https://api.example.com:-1/RUNS?limit=1",
        "https://[::1/RUNS",
        "https://\u2603..example/RUNS",
        "https:/RUNS?limit=1",
        "//127.0.0.1:port/RUNS",
        "/RUNS?starting_after=" + "\u2603" * 20_000,
    ],
    ids=["word", "large", "negative", "bracket", "name", "no_host", "no_scheme", "long"],
)
def test_unusable_status_url_is_replaced_by_the_list(
    kind: str, deferrable: bool, status_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(kind, status_url)
    with RoutedServer(service.answer) as server:
        connection = {"conn_type": "datapipe", "host": server.url, "password": "secret-of-the-account"}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        argument = "stream_id" if kind == "stream" else "reverse_etl_sync_id"
        task = service.operator(task_id="t", poll_interval=0.05, deferrable=deferrable, timeout=30, **{argument: "s"})
        result = run(task)
        assert (result["outcome"], result["run_id"], result["attached"]) == ("succeeded", "r1", False)
        assert server.count("POST", f"/{service.resources}/s/request_run") == 1
