"""Each operator that changes a resource, on real components, mapped, and with ``dag.test()``: the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.links import DatapipeLink, address_of
from tests.support.airflow_versions import IMPORT_DAG_BAG
from tests.support.local_service import LocalService
from tests.support.operator_examples import EXAMPLES, Example, seed
from tests.support.process_table import working_in
from tests.system.components import AirflowComponents
from tests.system.conftest import DAGS, connection

CONNECTION = "datapipe_changes"
LINK = "https://app.example.com/{resource}/{id}"
ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from airflow.utils.db import initdb
initdb()
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
run = bag.dags["changes"].test()
ended = {one.task_id: one.state for one in run.get_task_instances()}
with open(sys.argv[2], "w") as file:
    json.dump({"state": run.state, "tasks": ended}, file)
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the resources of the examples."""
    with LocalService(seed(tmp_path_factory.mktemp("examples")), control=True) as running:
        yield running


@pytest.fixture(autouse=True)
def clean(changed: LocalService) -> None:
    """Reset the service to its seed."""
    changed.reset()


@pytest.fixture
def connected(airflow: AirflowComponents, changed: LocalService) -> Iterator[None]:
    """Add the connection of the DAGs to the shared components."""
    body = {
        "connection_id": CONNECTION,
        "conn_type": "datapipe",
        "host": changed.base_url,
        "password": changed.api_key,
        "extra": json.dumps({"poll_interval": 0.5, "link": LINK}),
    }
    airflow.api.request("POST", "/connections", json=body)
    yield
    airflow.api.request("DELETE", f"/connections/{CONNECTION}")


def fits(example: Example, result: Any, tries: int) -> None:
    """
    Assert that a result has the expected values.

    A scheduler without CPU time for long can run a task twice. The second try finds the changes of the first one.
    """
    allowed = [example.expected, *([example.again] if tries > 1 and example.again is not None else [])]
    assert any(all(result[key] == value for key, value in told.items()) for told in allowed), (example, tries, result)


@pytest.mark.usefixtures("connected")
def test_on_real_components(airflow: AirflowComponents) -> None:
    run_id = airflow.trigger("changes")
    airflow.wait("changes", run_id, limit=300)
    tries = {}
    for one in airflow.api.task_instances("changes", run_id):
        assert one.state == "success", airflow.log_tail("changes", run_id, one)
        tries[one.task_id] = one.try_number
    for example in EXAMPLES:
        result = airflow.api.xcom("changes", run_id, example.name)
        fits(example, result, tries[example.name])
        is_change = isinstance(result, dict) and "resource" in result
        if is_change and (expected := address_of(LINK, result["resource"], result["id"])):
            path = f"/dags/changes/dagRuns/{run_id}/taskInstances/{example.name}/links"
            links = airflow.api.request("GET", path)["extra_links"]
            assert links == {DatapipeLink.name: expected}


@pytest.mark.usefixtures("connected")
def test_mapped(airflow: AirflowComponents) -> None:
    run_id = airflow.trigger("changes_mapped")
    airflow.wait("changes_mapped", run_id, limit=300)
    instances = airflow.api.task_instances("changes_mapped", run_id)
    for one in instances:
        assert one.state == "success", airflow.log_tail("changes_mapped", run_id, one)
    chosen = {example.operator: example for example in EXAMPLES}.values()
    tries = {one.label: one.try_number for one in instances}
    assert tries.keys() == {f"{example.name}[0]" for example in chosen}
    for example in chosen:
        result = airflow.api.xcom("changes_mapped", run_id, example.name, map_index=0)
        fits(example, result, tries[f"{example.name}[0]"])


def test_without_components(changed: LocalService, tmp_path: Path) -> None:
    env: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        f"AIRFLOW_CONN_{CONNECTION.upper()}": connection(changed.base_url, changed.api_key, poll_interval=0.2),
        "PYTHONPATH": str(ROOT),
    }
    answer = tmp_path / "ended.json"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", IMPORT_DAG_BAG + PROGRAM, str(DAGS / "changes.py"), str(answer)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.exists(), done.stderr[-5000:]
    ended = json.loads(answer.read_text())
    assert ended["tasks"] == {example.name: "success" for example in EXAMPLES}, done.stdout[-5000:]
    assert ended["state"] == "success"
    assert working_in(tmp_path) == []
