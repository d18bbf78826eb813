"""Airflow and datapipe-local with a connection that is saved in Airflow, for tests and pictures of Airflow's pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.processes import Workspace, wait_for
from tests.support.shell import bash
from tests.system import seeds
from tests.system.components import AirflowComponents
from tests.system.conftest import connected

DAG_FILE = Path(__file__).with_name("interface_dags") / "store.py"
CONNECTION = "datapipe_default"
#: Rows of each table.
ROWS = {"orders": 2000, "customers": 300, "products": 40}
#: The DAG ``shop`` and its seed.
_PAGE = "docs/getting_started.md"
_LIMIT = 120.0


@dataclass(frozen=True)
class Installation:
    """Airflow with the DAGs ``store`` and ``report``, and the service that they use."""

    airflow: AirflowComponents
    service: LocalService

    def start_deferred(self, dag_id: str, task_id: str, stream_id: str) -> str:
        """
        Start a DAG run, wait until a task is deferred, and return the ID of the DAG run.

        The run of the stream continues until :meth:`finish`.
        """
        # More polls than any test needs.
        self.service.runs({"resources": {stream_id: {"running_polls": 10_000}}})
        run_id = self.airflow.trigger(dag_id)

        def is_deferred() -> bool:
            return self.airflow.tasks(dag_id, run_id)[task_id].state == "deferred"

        wait_for(f"{task_id} is deferred", is_deferred, limit=_LIMIT, interval=0.5)
        return run_id

    def finish(self, dag_id: str, run_id: str) -> None:
        """Let all runs of the service end, and wait until a DAG run is a success."""
        self.service.runs({})
        self.airflow.ends(dag_id, run_id)


@contextmanager
def installation() -> Iterator[Installation]:
    """Start Airflow with these DAGs and ``shop`` of Getting started, and the service. Stop all at the end."""
    with Workspace("datapipe-interface-") as workspace:
        (dags := workspace.path / "dags").mkdir()
        shutil.copy(DAG_FILE, dags)
        seed = _seed_of_getting_started(workspace.path, dags)
        for section, things in seed_of_store(workspace.path).items():
            seed[section] += things
        with (
            LocalService(seed, control=True) as service,
            AirflowComponents(dags) as airflow,
            connected(airflow, CONNECTION, service, poll_interval=0.5),
        ):
            yield Installation(airflow, service)


@contextmanager
def store_of(airflow: AirflowComponents, dags: Path, folder: Path, conn_id: str) -> Iterator[Installation]:
    """Add the DAGs ``store`` and ``report`` to running components, with a separate service."""
    with (
        LocalService(seed_of_store(folder), control=True) as service,
        connected(airflow, conn_id, service, poll_interval=0.5),
    ):
        file = dags / DAG_FILE.name
        file.write_text(DAG_FILE.read_text(encoding="utf-8").replace(f'"{CONNECTION}"', f'"{conn_id}"'))
        yield Installation(airflow, service)
        file.unlink()


def _seed_of_getting_started(folder: Path, dags: Path) -> dict[str, Any]:
    """Write the files of Getting started, and return its seed."""
    page = [block for block in blocks() if block.page == _PAGE]
    bash(next(block.text for block in page if "shop/people.csv" in block.text), folder, dict(os.environ))
    files = {block.file: block.text for block in page if block.file}
    (dags / "shop.py").write_text(files["shop/dags/shop.py"], encoding="utf-8")
    seed: dict[str, Any] = yaml.safe_load(files["shop/seed.yaml"])
    for connection in seed["connections"]:
        connection["settings"]["path"] = str(folder / "shop")
    return seed


def seed_of_store(folder: Path) -> dict[str, Any]:
    """Write the files of the store, and return its seed."""
    for table, rows in ROWS.items():
        lines = ["id,amount", *(f"{number},{number * 7 % 100}" for number in range(rows))]
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    streams = [seeds.stream(f"store.{table}", table, f"{table}.csv") for table in ROWS]
    query = "SELECT sum(amount) AS revenue FROM {{raw.store.orders}}"
    return {
        "connections": [seeds.connection("store", "files", path=str(folder))],
        "elt_syncs": [seeds.elt_sync("store", "store", streams)],
        "transforms": [seeds.transform("revenue", query, folder_path="reports", publish=False)],
    }
