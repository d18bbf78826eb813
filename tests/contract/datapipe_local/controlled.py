"""Seed with every kind of resource, for tests of the control plane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes import wait_for

if TYPE_CHECKING:
    from tests.support.local_service import LocalService

ORDERS = "/elt_streams/orders/request_run"
ANY_STREAM = "/elt_streams/*/request_run"


def seed(folder: Path, **runs: float) -> dict[str, Any]:
    mapping = {"source_property_id": "x", "destination_property_id": "x", "primary_key": True}
    files = {"orders": "orders.jsonl", "people": "people.csv"}
    return {
        "runs": runs,
        "connections": [
            {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(folder)}},
            {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": str(folder / "out")}},
        ],
        "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "data",
                "destination_schema_name": "shop",
                "orchestration_workflow_id": "nightly",
                "source_streams": [{"id": name, "name": name, "file": file} for name, file in files.items()],
            }
        ],
        "transforms": [
            {"id": "view", "name": "v", "sql_template": "SELECT 1 AS x", "publish": True},
            {"id": "table", "name": "t", "sql_template": "SELECT 1 AS x", "materialization": "table"},
        ],
        "reverse_etl_syncs": [
            {
                "id": "export",
                "source_id": "view",
                "destination_connection_id": "out",
                "object_type_id": "ones",
                "operation": {"mode": "upsert", "mappings": [mapping]},
            }
        ],
    }


def journalled(service: LocalService, resource_id: str, number: int) -> list[dict[str, Any]]:
    """Wait until a number of runs of a resource have finished, and return all of its runs."""

    def finished() -> bool:
        return len([run for run in service.journal_runs(resource_id) if run["finished_at"]]) >= number

    wait_for(f"{number} finished runs of {resource_id}", finished, limit=60, interval=0.01)
    return service.journal_runs(resource_id)
