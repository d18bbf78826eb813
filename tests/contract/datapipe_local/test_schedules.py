"""
Tests of schedules in a real process.

To avoid waits of a minute, the tests set due times to now while the service is stopped.
tests/unit/datapipe_local/test_schedules.py tests the computation of schedules with a simulated clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.storage.clock import Clock
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.controlled import journalled, seed
from tests.contract.datapipe_local.seeds import elt_sync, stream, transform
from tests.contract.datapipe_local.warehouses import changed_state
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

YEARLY = "0 0 1 1 *"
SUBJECTS = {
    ("elt_stream_run", "apart_rows"),
    ("materialization", "hourly"),
    ("orchestration", "nightly"),
    ("reverse_etl_sync_run", "export"),
}


def with_schedules(data: Path, **runs: Any) -> dict[str, Any]:
    wanted = seed(data, **runs)
    people = stream("people", id="apart_rows")
    wanted["elt_syncs"].append(elt_sync("apart", "data", [people], sync_interval=YEARLY))
    table = {"materialization": "table", "publish": True, "cron_expression": YEARLY}
    wanted["transforms"].append(transform("hourly", "SELECT 1 AS x", **table))
    wanted["reverse_etl_syncs"][0]["sync_interval"] = YEARLY
    return wanted


def wait_for_schedules(service: LocalService, expected: set[tuple[str, str]] = SUBJECTS) -> None:
    def are_computed() -> bool:
        with closing(sqlite3.connect(service.home / "state.sqlite")) as state:
            return set(state.execute("SELECT kind, subject_id FROM schedules")) == expected

    wait_for("the schedules", are_computed, limit=60, interval=0.01)


def all_due(service: LocalService) -> None:
    """Make every schedule due, and restart the service."""
    with changed_state(service) as state:
        state.execute("UPDATE schedules SET due_at = ?", [Clock().now()])


@pytest.mark.slow
def test_due_resources_run(data: Path) -> None:
    with served(with_schedules(data), control=True, schedules=True) as (service, api):
        wait_for_schedules(service)
        api.until("/transforms/hourly", lambda body: body["materialization_status"] == "completed")
        all_due(service)
        for resource in ("apart_rows", "hourly", "nightly", "export"):
            (run,) = journalled(service, resource, 1)
            assert (run["trigger"], run["request"]) == ("schedule", None), run
            assert run["status"] in ("COMPLETED", "completed"), run
        # A part of an orchestration ran as its part, and once.
        (load,) = journalled(service, "orders", 1)
        assert load["trigger"] == "orchestration"
        # The interface shows these runs like others.
        (run,) = api.get("/orchestration_runs")["data"]
        assert (run["orchestration_id"], run["status"]) == ("nightly", "COMPLETED")
        assert run["due_at"] <= run["started_at"]
        (run,) = api.get("/elt_stream_runs?elt_stream_id=apart_rows")["data"]
        assert (run["status"], run["rows_synced"]) == ("COMPLETED", 3)
        assert api.get("/transforms/hourly")["materialization_status"] == "completed"
        # The next ones are due in a year.
        service.restart()
        api.run_stream("people")
        assert len(service.journal_runs("apart_rows")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedules", "environment", "runs"),
    [(False, {}, {}), (True, {"DATAPIPE_LOCAL_SCHEDULES": "0"}, {}), (True, {}, {"schedules": False})],
    ids=["option", "environment", "seed"],
)
def test_schedules_can_be_disabled(
    data: Path, schedules: bool, environment: Mapping[str, str], runs: dict[str, Any]
) -> None:
    wanted = with_schedules(data, **runs)
    with LocalService(wanted, control=True, schedules=schedules, environment=environment) as service:
        with changed_state(service) as state:
            for subject in SUBJECTS:
                state.execute("INSERT OR REPLACE INTO schedules VALUES (?, ?, ?, ?)", [*subject, YEARLY, Clock().now()])
        # Due runs would have started before this run.
        Api(service).run_stream("people")
        assert {run["trigger"] for run in service.journal_runs()} <= {"request", "seed"}
        assert [run["resource_id"] for run in service.journal_runs() if run["trigger"] == "request"] == ["people"]


def test_requests_change_the_schedules(data: Path) -> None:
    with served(with_schedules(data), control=True, schedules=True) as (service, api):
        wait_for_schedules(service)
        api.post("/elt_syncs/apart/disable", status=204)
        api.delete("/orchestrations/nightly", cron_schedule=YEARLY)
        removed = {("elt_stream_run", "apart_rows"), ("orchestration", "nightly")}
        wait_for_schedules(service, SUBJECTS - removed | {("elt_stream_run", "orders"), ("elt_stream_run", "people")})
        service.reset()
        wait_for_schedules(service)
