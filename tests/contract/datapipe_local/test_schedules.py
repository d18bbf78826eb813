"""
Tests of schedules in a real process.

To avoid waits of a minute, the tests set due times to now while the service is stopped.
tests/unit/datapipe_local/test_schedules.py tests the computation of schedules with a simulated clock.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.clock import Clock
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import journalled, seed
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
    wanted["elt_syncs"].append(
        {
            "id": "apart",
            "connection_id": "data",
            "destination_schema_name": "apart",
            "sync_interval": YEARLY,
            "source_streams": [{"id": "apart_rows", "name": "people", "file": "people.csv"}],
        }
    )
    wanted["transforms"].append(
        {
            "id": "hourly",
            "name": "hourly",
            "sql_template": "SELECT 1 AS x",
            "materialization": "table",
            "publish": True,
            "cron_expression": YEARLY,
        }
    )
    wanted["reverse_etl_syncs"][0]["sync_interval"] = YEARLY
    return wanted


def noted(service: LocalService) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(service.home / "state.sqlite")) as state:
        return set(state.execute("SELECT kind, subject_id FROM schedules"))


def all_due(service: LocalService) -> None:
    """Make every schedule due, and restart the service."""
    service.stop()
    now = Clock().now()
    with closing(sqlite3.connect(service.home / "state.sqlite")) as state, state:
        state.execute("UPDATE schedules SET due_at = ?", [now])
    service.start()


@pytest.mark.slow
def test_everything_that_has_a_schedule_runs_by_it(data: Path) -> None:
    with LocalService(with_schedules(data), control=True, schedules=True) as service:
        api = Api(service)
        wait_for("the schedules are computed", lambda: noted(service) == SUBJECTS, limit=10, interval=0.01)
        api.until("/transforms/hourly", lambda body: body["materialization_status"] == "completed")
        all_due(service)
        for resource in ("apart_rows", "hourly", "nightly", "export"):
            (run,) = journalled(service, resource, 1)
            assert (run["trigger"], run["request"]) == ("schedule", None), run
            assert run["status"] in ("COMPLETED", "completed"), run
        # What is a part of an orchestration ran as its part, and once.
        (load,) = journalled(service, "orders", 1)
        assert load["trigger"] == "orchestration"
        # To callers they are runs as any other.
        (run,) = api.get("/orchestration_runs")["data"]
        assert (run["orchestration_id"], run["status"]) == ("nightly", "COMPLETED")
        assert run["due_at"] <= run["started_at"]
        (run,) = api.get("/elt_stream_runs?elt_stream_id=apart_rows")["data"]
        assert (run["status"], run["rows_synced"]) == ("COMPLETED", 3)
        assert api.get("/transforms/hourly")["materialization_status"] == "completed"
        # It is a year until the next.
        service.restart()
        api.run_stream("people")
        assert len(service.journal_runs("apart_rows")) == 1
        assert "Traceback" not in service.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedules", "environment", "runs"),
    [(False, {}, {}), (True, {"DATAPIPE_LOCAL_SCHEDULES": "0"}, {}), (True, {}, {"schedules": False})],
    ids=["option", "environment", "seed"],
)
def test_they_can_be_off(data: Path, schedules: bool, environment: Mapping[str, str], runs: dict[str, Any]) -> None:
    wanted = with_schedules(data, **runs)
    with LocalService(wanted, control=True, schedules=schedules, environment=environment) as service:
        service.stop()
        with closing(sqlite3.connect(service.home / "state.sqlite")) as state, state:
            for subject in SUBJECTS:
                state.execute("INSERT OR REPLACE INTO schedules VALUES (?, ?, ?, ?)", [*subject, YEARLY, Clock().now()])
        service.start()
        # By then what was due before would have begun.
        Api(service).run_stream("people")
        assert {run["trigger"] for run in service.journal_runs()} <= {"request", "seed"}
        assert [run["resource_id"] for run in service.journal_runs() if run["trigger"] == "request"] == ["people"]


def test_a_change_by_a_request_counts(data: Path) -> None:
    with LocalService(with_schedules(data), control=True, schedules=True) as service:
        api = Api(service)
        wait_for("the schedules are computed", lambda: noted(service) == SUBJECTS, limit=10, interval=0.01)
        api.post("/elt_syncs/apart/disable", status=204)
        api.post("/elt_streams/orders/set_sync_interval", {"sync_interval": YEARLY})
        expected = SUBJECTS - {("elt_stream_run", "apart_rows")} | {("elt_stream_run", "orders")}
        wait_for("orders is scheduled", lambda: noted(service) == expected, limit=10, interval=0.01)
        assert api.client.delete(f"/orchestrations/nightly?cron_schedule={YEARLY}").status_code == 204
        expected = expected - {("orchestration", "nightly")} | {("elt_stream_run", "people")}
        wait_for("people is scheduled", lambda: noted(service) == expected, limit=10, interval=0.01)
        service.reset()
        wait_for("all is as at first", lambda: noted(service) == SUBJECTS, limit=10, interval=0.01)


@pytest.mark.parametrize("value", ["no", "2", "x" * 1000])
def test_a_switch_is_on_or_off(value: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "datapipe_local", "serve", "--home", str(tmp_path)]
    done = subprocess.run(  # noqa: S603 - our own program
        command, env={"DATAPIPE_LOCAL_SCHEDULES": value}, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("datapipe-local: DATAPIPE_LOCAL_SCHEDULES is ")
    assert done.stderr.count("\n") == 1
