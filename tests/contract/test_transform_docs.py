"""Tests of the transform, query and check examples on the page about changes, against the local service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.tasks import run

ROWS = "id,ordered_on\n0,2025-12-31\n1,2026-01-01\n2,2026-01-02\n3,2026-01-03\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the orders of the page."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "orders.csv").write_text(ROWS)
    seed: dict[str, Any] = {
        "connections": [
            {"id": "shop", "integration_id": "files", "label": "Shop", "settings": {"path": str(folder)}},
        ],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "shop",
                "destination_schema_name": "shop",
                "sync_interval": "0 3 * * *",
                "enabled": True,
                "source_streams": [{"id": "orders", "name": "orders", "file": "orders.csv"}],
            }
        ],
    }
    with LocalService(seed) as running:
        yield running


def tasks_of(begin: str, folder: Path, ds: str = "2026-01-02") -> dict[str, Any]:
    (block,) = [block for block in blocks() if block.page == "docs/changes.md" and block.first_line.startswith(begin)]
    names: dict[str, Any] = {}
    with DAG("page", schedule=None, template_searchpath=[str(folder)]) as dag:
        exec(block.text, names)  # noqa: S102 - our own docs
    for task in dag.tasks:
        context: Any = {"ds": ds, "params": dict(task.params)}
        task.render_template_fields(context, dag.get_template_env())
    return {task.task_id: task for task in dag.tasks}


def test_the_tasks_of_the_page_do_as_it_says(
    service: LocalService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection | {"extra": {"poll_interval": 0.2}}))
    run(EltStreamRunOperator(task_id="load", stream_id="orders"))
    (tmp_path / "models" / "sales").mkdir(parents=True)
    (tmp_path / "models" / "sales" / "orders.sql").write_text("SELECT * FROM {{model.sales.daily_orders}}")

    page = "from airflow_provider_datapipe.operators.transform_changes import"
    transforms = tasks_of(page, tmp_path)
    daily = run(transforms["daily"])
    assert (daily["name"], daily["action"], daily["published"]) == ("sales/daily_orders", "created", True)
    assert (daily["kind"], daily["status"], daily["outcome"]) == ("transform", "completed", "succeeded")
    again = run(transforms["daily"])
    assert (again["action"], again["changed"], again["published"]) == ("none", False, False)
    # A run of an earlier day that is cleared, or a backfill, leaves it as it is.
    earlier = run(tasks_of(page, tmp_path, ds="2026-01-01")["daily"])
    assert (earlier["action"], earlier["published"]) == ("none", False)
    models = run(transforms["models"])
    assert models["transforms"]["sales/orders"]["result"] == "created"

    queries = tasks_of("from airflow_provider_datapipe.operators.query import", tmp_path)
    newest = run(queries["newest"])
    assert [row["id"] for row in newest["rows"]] == [3, 2, 1]
    assert newest["is_complete"]
    assert all(run(queries[check])["passed"] for check in ("no_holes", "one_each", "as_many"))
