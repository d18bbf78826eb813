"""Tests of the page about runs, against the local service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.tasks import run


def seed(folder: Path) -> dict[str, Any]:
    def settings(name: str) -> dict[str, str]:
        return {"path": str(folder / name)}

    mappings = [{"source_property_id": "id", "destination_property_id": "id", "primary_key": True}]
    return {
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": settings("in")},
            {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": settings("out")},
        ],
        "orchestrations": [{"id": "n", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "files",
                "destination_schema_name": "shop",
                "source_streams": [
                    {"id": f"shop.{name}", "name": name, "file": f"{name}.csv"} for name in ("orders", "people", "gone")
                ],
            }
        ],
        "transforms": [
            {
                "id": "adults",
                "name": "adults",
                "folder_path": "reports",
                "publish": True,
                "sql_template": "SELECT 1 AS id, 'Ada' AS name",
            }
        ],
        "reverse_etl_syncs": [
            {
                "id": "crm",
                "source_id": "adults",
                "destination_connection_id": "out",
                "object_type_id": "adults",
                "operation": {"mode": "upsert", "mappings": mappings},
            }
        ],
    }


@pytest.mark.slow
def test_the_tasks_of_the_page_do_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    for name in ("orders", "people"):
        (tmp_path / "in" / f"{name}.csv").write_text("id,name\n1,Ada\n")
    with DAG("page", schedule=None) as dag:
        for block in blocks():
            if (block.page, block.language) == ("docs/running.md", "python"):
                exec(block.text, {})  # noqa: S102 - our own docs
    with LocalService(seed(tmp_path), control=True) as service:
        connection = {
            "conn_type": "datapipe",
            "host": service.base_url,
            "password": service.api_key,
            "extra": {"poll_interval": 0.05},
        }
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        done = {task.task_id: run(task) for task in dag.topological_sort()}
        runs = service.journal_runs("shop.orders")
    for name in ("orders", "by_name", "anew", "nightly", "publish", "again", "send"):
        assert (name, done[name]["outcome"]) == (name, "succeeded")
    streams = {name: each["outcome"] for name, each in done["whole"]["streams"].items()}
    assert streams == {"orders": "succeeded", "people": "succeeded", "gone": "failed"}
    assert done["some"]["streams"].keys() == {"orders", "people"}
    # One for each of the tasks that load it: orders, by_name, anew, whole, some.
    assert len([each for each in runs if each["trigger"] == "request"]) == 5
    assert done["ask_again"]["details"]["failed_records"] == 0
    assert json.loads((tmp_path / "out" / "adults.jsonl").read_text()) == {"id": 1}
