"""Tests of the examples on the page about changes, against the local service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.tasks import run

OF_ELT = "from airflow_provider_datapipe.operators.elt_changes import"
OF_ORCHESTRATIONS = "from airflow_provider_datapipe.operators.orchestration_changes import"
OF_ANY = "from airflow_provider_datapipe.operators.datapipe import"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the connection that the page reads."""
    folder = tmp_path_factory.mktemp("shop")
    for name in ("orders", "customers"):
        (folder / f"{name}.csv").write_text("id,name\n1,x\n")
    connection = {"id": "shop", "integration_id": "files", "label": "Shop files", "settings": {"path": str(folder)}}
    with LocalService({"connections": [connection]}) as running:
        yield running


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))


def tasks_of(begin: str) -> dict[str, Any]:
    (block,) = [
        block for block in blocks() if block.page == "docs/changes.md" and block.first_line.startswith(f"{begin} ")
    ]
    names: dict[str, Any] = {}
    with DAG("page", schedule=None) as dag:
        exec(block.text, names)  # noqa: S102 - our own docs
    return {task.task_id: task for task in dag.topological_sort()}


def test_the_tasks_of_the_page_do_as_it_says() -> None:
    elt = tasks_of(OF_ELT)
    assert list(elt) == ["sync", "streams"]
    sync, streams = run(elt["sync"]), run(elt["streams"])
    assert (sync["action"], sync["name"]) == ("created", "raw_shop")
    assert streams["details"]["added"] == ["orders", "customers"]
    assert streams["details"]["stream_ids"].keys() == {"orders", "customers"}
    assert (run(elt["sync"])["id"], run(elt["sync"])["action"]) == (sync["id"], "none")
    assert run(elt["streams"])["details"]["unchanged"] == ["orders", "customers"]

    orchestrations = tasks_of(OF_ORCHESTRATIONS)
    assert run(orchestrations["nightly"])["action"] == "created"

    offered = tasks_of(OF_ANY)["offered"]
    offered.render_template_fields({"params": {"sync_id": sync["id"]}})
    assert [each["name"] for each in run(offered)] == ["customers", "orders"]
