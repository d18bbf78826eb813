"""Plans of the DAGs, and their connection."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.hostile import HostileServer
from tests.system.distributed.cases import CONN_ID
from tests.system.distributed.deployment import Deployment

DAG_FILE = Path(__file__).with_name("dag.py")


def write_plan(dags: Path, dag_id: str, tasks: Sequence[dict[str, Any]], *, max_active_runs: int = 16) -> None:
    """Add a DAG to the folder of the DAG files."""
    folder = dags / "distributed_plans"
    folder.mkdir(exist_ok=True)
    plan = {"dag_id": dag_id, "conn_id": CONN_ID, "tasks": list(tasks), "max_active_runs": max_active_runs}
    (folder / f"{dag_id}.json").write_text(json.dumps(plan), encoding="utf-8")
    # A DAG file is read again at once only if it is new itself.
    shutil.copy(DAG_FILE, dags / "distributed.py")


def add_connection(deployment: Deployment, server: HostileServer) -> None:
    """Store the connection to the service in the metadata database."""
    fields = {"connection_id": CONN_ID, "conn_type": "datapipe", "host": server.url, "password": server.api_key}
    extra = json.dumps({"timeout": 30, "retry_budget": 30})
    deployment.api.request("POST", "/connections", json={**fields, "extra": extra})
