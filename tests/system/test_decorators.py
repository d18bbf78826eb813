"""Decorated functions on real components, and those of the docs with ``dag.test()``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.system import seeds
from tests.system.components import AirflowComponents
from tests.system.conftest import connected, saved
from tests.system.dag_test import DagTest

ORDERS = "SELECT * FROM (VALUES (1, 10.0), (2, 20.0), (3, 30.0)) AS orders(id, amount)"
SEED: dict[str, Any] = {
    **seeds.webhook("hooks", "marks"),
    "transforms": [seeds.transform("orders", ORDERS, folder_path="sales")],
}


@pytest.fixture(scope="module")
def shop() -> Iterator[LocalService]:
    """Return a service with orders and a webhook."""
    with LocalService(SEED, control=True) as running:
        yield running


def hooks_of(service: LocalService) -> str:
    return f"{service.base_url}/webhooks/hooks/marks"


def test_decorated_functions_on_components(airflow: AirflowComponents, shop: LocalService) -> None:
    hooks = {"conn_type": "datapipe_webhook", "host": hooks_of(shop)}
    with connected(airflow, "datapipe_decorators", shop), saved(airflow, "datapipe_decorators_hooks", **hooks):
        run_id = airflow.run("decorators", "failed")
    tasks = airflow.tasks("decorators", run_id)
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
        # The message contains the SQL, even if the task was deferred and its function is not called again.
        log = airflow.api.log("decorators", run_id, f"failing_{how}", tasks[f"failing_{how}"].try_number)
        assert "The check failed: is_empty = False of SELECT count(*) = 0" in log
    assert result("threshold")["min_threshold"] == 3
    assert result("value")["passed"]
    assert result("call", key="name") == "orders"
    assert result("push")["records"] == 1
    log = airflow.api.log("decorators", run_id, "nothing", tasks["nothing"].try_number)
    assert "nothing must return SQL as text, not nothing" in log

    # Airflow shows the computed values.
    one = airflow.api.request("GET", f"/dags/decorators/dagRuns/{run_id}/taskInstances/value")
    assert one["rendered_fields"]["sql_template"] == "SELECT count(*) FROM {{model.sales.orders}}"


def test_dag_of_the_decorators_page(shop: LocalService, dag_test: DagTest, tmp_path: Path) -> None:
    (block,) = [each for each in blocks() if each.page == "docs/decorators.md"]
    file = tmp_path / "shop_checks.py"
    file.write_text(block.text)
    connections = {
        "datapipe_default": shop.connection(poll_interval=0.2),
        "datapipe_webhook_default": json.dumps({"conn_type": "datapipe_webhook", "host": hooks_of(shop)}),
    }
    tested = dag_test.run("shop_checks", file, connections)
    assert tested.states == dict.fromkeys(
        ["newest", "complete", "total_matches", "row_count", "published", "report"], "success"
    ), tested.output[-5000:]
    assert [row["id"] for row in tested.results["newest"]["rows"]] == [3, 2, 1]
    assert tested.results["report"]["records"] == 3
    assert [each["name"] for each in tested.results["published"]] == ["orders"]
