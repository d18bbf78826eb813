"""Decorated functions on real components, and those of the documentation by ``dag.test()``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_versions import IMPORT_DAG_BAG
from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import connected, connection

ORDERS = "SELECT * FROM (VALUES (1, 10.0), (2, 20.0), (3, 30.0)) AS orders(id, amount)"
SEED: dict[str, Any] = {
    "connections": [
        {"id": "hooks", "integration_id": "webhook", "label": "Hooks", "settings": {"tables": [{"name": "marks"}]}}
    ],
    "elt_syncs": [
        {
            "id": "hooks",
            "connection_id": "hooks",
            "destination_schema_name": "hooks",
            "source_streams": [{"id": "marks", "name": "marks", "table": "marks"}],
        }
    ],
    "transforms": [
        {"id": "orders", "name": "orders", "folder_path": "sales", "publish": True, "sql_template": ORDERS},
    ],
}
PROGRAM = f"""
import json, sys
from airflow.utils.db import initdb
initdb()
{IMPORT_DAG_BAG}
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
run = bag.dags["shop_checks"].test()
ended = {{one.task_id: [one.state, one.xcom_pull(task_ids=one.task_id)] for one in run.get_task_instances()}}
with open(sys.argv[2], "w") as file:
    json.dump(ended, file, default=str)
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[LocalService]:
    """Return a service with orders and a webhook."""
    with LocalService(SEED, control=True) as running:
        yield running


def hooks_of(service: LocalService) -> str:
    return f"{service.base_url}/webhooks/hooks/marks"


@pytest.fixture(scope="module")
def ended(airflow: AirflowComponents, shop: LocalService) -> Iterator[tuple[str, dict[str, TaskInstance]]]:
    """Return the run of the DAG, and its tasks by their labels."""
    hooks = {"connection_id": "datapipe_decorators_hooks", "conn_type": "datapipe_webhook", "host": hooks_of(shop)}
    with ExitStack() as stack:
        stack.enter_context(connected(airflow, "datapipe_decorators", shop))
        airflow.api.request("POST", "/connections", json=hooks)
        stack.callback(airflow.api.request, "DELETE", "/connections/datapipe_decorators_hooks")
        run_id = airflow.trigger("decorators", limit=300)
        airflow.wait("decorators", run_id, limit=300)
        yield run_id, {one.label: one for one in airflow.api.task_instances("decorators", run_id)}


def test_what_functions_return_is_done(ended: tuple[str, dict[str, TaskInstance]], airflow: AirflowComponents) -> None:
    run_id, tasks = ended
    refused = {"failing_deferred", "failing_blocking", "nothing"}
    for label, one in tasks.items():
        wanted = "failed" if label in refused else "success"
        assert one.state == wanted, (label, one.try_number, airflow.log_tail("decorators", run_id, one))
    assert {"mapped[0]", "mapped[1]"} < tasks.keys()
    assert tasks["push"].operator == "@task.datapipe_webhook"

    def result(task_id: str, **more: Any) -> Any:
        return airflow.api.xcom("decorators", run_id, task_id, **more)

    for how in ("deferred", "blocking"):
        assert result(f"query_{how}")["rows"] == [{"id": number, "same": True} for number in (1, 2, 3)]
        failed = result(f"failing_{how}")
        assert (failed["passed"], failed["row"]) == (False, {"is_empty": False})
        # The message has the SQL, also where the task was deferred and its function is not called again.
        log = airflow.api.log("decorators", run_id, f"failing_{how}", tasks[f"failing_{how}"].try_number)
        assert "The check failed: is_empty = False of SELECT count(*) = 0" in log
    assert result("threshold")["min_threshold"] == 3
    assert result("value")["passed"]
    assert result("call", key="name") == "orders"
    assert result("push")["records"] == 1
    log = airflow.api.log("decorators", run_id, "nothing", tasks["nothing"].try_number)
    assert "nothing must return SQL, as text, and has returned nothing" in log


def test_airflow_shows_what_was_computed(
    ended: tuple[str, dict[str, TaskInstance]], airflow: AirflowComponents
) -> None:
    run_id, _ = ended
    one = airflow.api.request("GET", f"/dags/decorators/dagRuns/{run_id}/taskInstances/value")
    assert one["rendered_fields"]["sql_template"] == "SELECT count(*) FROM {{model.sales.orders}}"


def test_the_dag_of_the_documentation_runs(shop: LocalService, tmp_path: Path) -> None:
    (block,) = [each for each in blocks() if each.page == "docs/decorators.md"]
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "shop_checks.py").write_text(block.text)
    env: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_DATAPIPE_DEFAULT": connection(shop.base_url, shop.api_key, poll_interval=0.2),
        "AIRFLOW_CONN_DATAPIPE_WEBHOOK_DEFAULT": json.dumps({"conn_type": "datapipe_webhook", "host": hooks_of(shop)}),
    }
    answer = tmp_path / "ended.json"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, str(folder / "shop_checks.py"), str(answer)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert answer.exists(), done.stderr[-5000:]
    tasks = json.loads(answer.read_text())
    assert {task_id: state for task_id, (state, _) in tasks.items()} == dict.fromkeys(
        ["newest", "no_holes", "as_reported", "neither_few_nor_many", "published", "report"], "success"
    ), done.stdout[-5000:]
    assert [row["id"] for row in tasks["newest"][1]["rows"]] == [3, 2, 1]
    assert tasks["report"][1]["records"] == 3
    assert [each["name"] for each in tasks["published"][1]] == ["orders"]
