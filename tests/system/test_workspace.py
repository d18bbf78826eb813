"""Workspace file on real components: the task that applies it is killed midway, and retried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.operator_examples import seed
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import connected, saved

DAG = "workspace"
TOKEN = "s3cret-of-the-workspace"
#: Active sync without ``enabled`` in the file.
SYNC = "workspace.to_changed"


@pytest.fixture
def service_of_workspace(
    airflow: AirflowComponents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalService]:
    """Return a service, and add a connection to it to the shared components."""
    with (
        LocalService(seed(tmp_path_factory.mktemp("workspace")), control=True) as running,
        connected(airflow, f"datapipe_{DAG}", running),
        saved(airflow, "workspace_token", conn_type="generic", password=TOKEN),
    ):
        yield running


@since("3.3", "task state")
def test_a_task_killed_between_changes_continues(
    airflow: AirflowComponents, service_of_workspace: LocalService
) -> None:
    killed: list[bool] = []
    # The task deactivates the sync for a change, whose response is delayed.
    service_of_workspace.faults([{"method": "POST", "path": "/reverse_etl_syncs/*", "resource_id": SYNC, "delay": 60}])

    def sync() -> dict[str, Any]:
        there: dict[str, Any] = service_of_workspace.request("GET", f"/reverse_etl_syncs/{SYNC}")
        return there

    def kill(instances: list[TaskInstance]) -> None:
        (apply,) = (one for one in instances if one.label == "apply")
        if not killed and apply.state == "running" and not sync()["enabled"]:
            airflow.kill_task(apply)
            killed.append(True)
            service_of_workspace.faults([])

    run_id = airflow.trigger(DAG)
    airflow.ends(DAG, run_id, watch=kill)
    tasks = airflow.tasks(DAG, run_id)
    assert (sync()["enabled"], sync()["sync_interval"]) == (True, "0 6 * * *")
    syncs = service_of_workspace.request("GET", "/elt_syncs", params={"limit": 100})["data"]
    assert [each["config"] for each in syncs if each["destination_schema_name"] == "workspace_made"] == [
        {"token": TOKEN}
    ]
    assert killed
    assert tasks["apply"].try_number > 1
    results = {label: airflow.api.xcom(DAG, run_id, label) for label in tasks}
    assert (results["drift"]["counts"]["create"], results["drift"]["counts"]["update"]) == (4, 6)
    # The retry does not repeat the changes of the first try.
    assert results["apply"]["failed"] is False
    assert results["apply"]["counts"]["created"] < 4
    assert results["same"]["changed"] is False
    logs = [log.read_text() for label in tasks for log in airflow.task_logs(DAG, run_id, label)]
    assert "workspace_made" in "".join(logs)
    assert not [text for text in [*logs, repr(results)] if TOKEN in text]
