"""Seed with every kind of resource, for tests of the control plane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.datapipe_local.seeds import NIGHTLY, connection, elt_sync, reverse_etl_sync, stream, transform
from tests.support.processes import wait_for

if TYPE_CHECKING:
    from tests.support.local_service import LocalService

ORDERS = "/elt_streams/orders/request_run"
ANY_STREAM = "/elt_streams/*/request_run"


def seed(folder: Path, **runs: float) -> dict[str, Any]:
    streams = [stream("orders", "orders.jsonl"), stream("people")]
    return {
        "runs": runs,
        "connections": [
            connection("data", "files", path=str(folder)),
            connection("out", "jsonl", path=str(folder / "out")),
        ],
        "orchestrations": [NIGHTLY],
        "elt_syncs": [elt_sync("shop", "data", streams, orchestration_workflow_id="nightly")],
        "transforms": [
            transform("view", "SELECT 1 AS x", name="v", publish=True),
            transform("table", "SELECT 1 AS x", name="t", materialization="table"),
        ],
        "reverse_etl_syncs": [reverse_etl_sync("export", "view", "out", "ones", "x")],
    }


def journalled(service: LocalService, resource_id: str, number: int) -> list[dict[str, Any]]:
    """Wait until a number of runs of a resource have finished, and return all of its runs."""

    def finished() -> bool:
        return len([run for run in service.journal_runs(resource_id) if run["finished_at"]]) >= number

    wait_for(f"{number} finished runs of {resource_id}", finished, limit=60, interval=0.01)
    return service.journal_runs(resource_id)
