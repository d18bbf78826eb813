"""Tests of the reverse ETL and custom report examples on the page about changes, against the local service."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, run

OF_REVERSE_ETL = "from airflow_provider_datapipe.operators.reverse_etl_changes import ("
OF_REPORTS = "from airflow_provider_datapipe.operators.custom_report import CustomReportsCreateOperator"


def tasks_of(first_line: str) -> dict[str, Any]:
    (block,) = [block for block in blocks() if (block.page, block.first_line) == ("docs/changes.md", first_line)]
    with DAG("page", schedule=None) as dag:
        exec(block.text, {})  # noqa: S102 - our own docs
    return {task.task_id: task for task in dag.topological_sort()}


def test_the_tasks_of_the_page_do_as_it_says(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "orders.csv").write_text("id,name\n1,x\n200,y\n")
    seed: dict[str, Any] = {
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(folder)}},
            {"id": "crm", "integration_id": "jsonl", "label": "CRM", "settings": {"path": str(folder / "out")}},
        ],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "files",
                "destination_schema_name": "shop",
                "source_streams": [{"id": "orders", "name": "orders", "file": "orders.csv"}],
            }
        ],
        "transforms": [
            {"id": "t", "name": "people", "publish": True, "sql_template": "SELECT 1 AS id, 'Ada' AS name"},
        ],
    }
    with LocalService(seed) as service:
        connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        reverse = tasks_of(OF_REVERSE_ETL)
        assert list(reverse) == ["contacts", "hourly", "again"]
        made = run(reverse["contacts"])
        assert made["action"] == "created"
        for name in ("hourly", "again"):
            reverse[name].reverse_etl_sync_id = made["id"]
        hourly = run(reverse["hourly"])
        assert (hourly["action"], hourly["details"]["sync_interval"]) == ("updated", "0 * * * *")
        assert hourly["details"]["enabled"]
        assert run(reverse["again"])["details"] == {"failed_records": 0, "seen": 0, "requested": 0}

        reports, memory = tasks_of(OF_REPORTS)["reports"], Memory()
        told = run(reports, memory)
        assert [one["action"] for one in told["reports"]] == ["created", "failed"]
        assert told["reports"][0]["source_stream_name"] == "big_orders"
        assert [one["action"] for one in run(reports)["reports"]] == ["none", "failed"]
        # Without that tolerance it is a failure, and told all the same.
        reports.tolerated_errors = []
        with pytest.raises(Exception, match="1 of 2 custom reports were not created: 'Big Orders' of ELT sync gone"):
            run(reports, memory)
        assert memory.pushed["return_value"]["failed"] == 1
