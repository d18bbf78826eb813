"""Tests of runs whose phases last for a number of polls."""

from __future__ import annotations

from typing import Any

import pytest

from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.client import RefusedError
from tests.support.processes import wait_for


def polled(service: DatapipeLocal, url: str, number: int, field: str = "status") -> list[Any]:
    """Poll a URL a number of times without a pause, and return a field of each response."""
    seen = []
    for _ in range(number):
        answer = service.api.get(url).raise_for_status().json()
        runs = answer.get("data", [answer])
        seen.append(runs[0].get(field) if runs else None)
    return seen


@pytest.mark.parametrize(
    ("resource", "request_path", "list_path"),
    [
        ("orders", "/elt_streams/orders/request_run", "/elt_stream_runs?elt_stream_id=orders"),
        ("export", "/reverse_etl_syncs/export/request_run", "/reverse_etl_sync_runs?reverse_etl_sync_id=export"),
    ],
)
def test_polls_advance_a_run(shop: DatapipeLocal, resource: str, request_path: str, list_path: str) -> None:
    shop.runs(resource, scheduling_polls=2, running_polls=3)
    for _ in range(2):
        shop.api.post(request_path).raise_for_status()
        url = f"{list_path}&limit=1"
        before = polled(shop, url, 2)
        assert before[0] == before[1] != "RUNNING"
        assert polled(shop, url, 5) == ["RUNNING"] * 4 + ["COMPLETED"]
    assert {run["status"] for run in shop.journal.runs(resource)} == {"COMPLETED"}


def test_polls_advance_a_run_of_an_orchestration(shop: DatapipeLocal) -> None:
    shop.runs("nightly", scheduling_polls=1, running_polls=2)
    run = shop.api.post("/orchestrations/nightly/request_run").raise_for_status().json()
    seen = polled(shop, f"/orchestration_runs/{run['id']}", 5)
    assert seen == ["NOT_STARTED", "RUNNING", "RUNNING", "RUNNING", "COMPLETED"]


def test_polls_advance_a_materialization(shop: DatapipeLocal) -> None:
    shop.runs("table", running_polls=2)
    shop.api.post("/transforms/table/publish", json={"name": "t", "materialization": "table"}).raise_for_status()
    seen = polled(shop, "/transforms/table", 3, "materialization_status")
    assert seen == ["running", "running", "completed"]


def test_polls_advance_a_build_of_an_orchestration(shop: DatapipeLocal) -> None:
    shop.api.post("/transforms/table/publish", json={"materialization": "table"}).raise_for_status()
    shop.journal.wait_for_runs("table")
    attached = {"orchestration_workflow_id": "nightly"}
    shop.api.post("/transforms/table/orchestration", json=attached).raise_for_status()
    shop.runs("table", running_polls=2)
    shop.api.post("/orchestrations/nightly/request_run").raise_for_status()
    wait_for("the build", lambda: bool(shop.journal.runs("table", status="running")), limit=10, interval=0.01)
    assert polled(shop, "/transforms/table", 3, "materialization_status") == ["running", "running", "completed"]


def test_waiting_runs_proceed_after_the_behavior_is_removed(shop: DatapipeLocal) -> None:
    shop.runs("orders", scheduling_polls=100)
    shop.runs("nightly", scheduling_polls=100)
    shop.api.post("/elt_streams/orders/request_run").raise_for_status()
    shop.api.post("/orchestrations/nightly/request_run").raise_for_status()
    assert polled(shop, "/elt_stream_runs?elt_stream_id=orders", 3) == [None] * 3
    shop.control.request("DELETE", "runs")
    shop.journal.wait_for_runs("orders")
    shop.journal.wait_for_runs("nightly")


def test_a_phase_has_a_duration_or_a_number_of_polls(shop: DatapipeLocal) -> None:
    for wrong in (
        {"scheduling_polls": 1, "scheduling_delay": 1},
        {"running_polls": 1, "minimum_duration": 1},
        {"running_polls": 0},
        {"scheduling_polls": 1.5},
    ):
        with pytest.raises(RefusedError, match="400"):
            shop.runs("orders", **wrong)
