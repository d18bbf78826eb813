"""Tests of changing operators with lost responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_changes import (
    EltSyncAddStreamsOperator,
    EltSyncDeleteOperator,
    EltSyncDisableOperator,
)
from tests.support.local_service import LocalService
from tests.support.operator_examples import Example, elt, orchestrations, seed
from tests.support.tasks import Memory, run

pytestmark = pytest.mark.slow


EXAMPLES = [*elt.EXAMPLES, *orchestrations.EXAMPLES]
CREATING = {"/elt_syncs", "/orchestrations"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the resources of the examples."""
    with LocalService(seed(tmp_path_factory.mktemp("examples")), control=True) as running:
        yield running


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the service to its seed, and create two connections of the tasks: one does not retry requests."""
    service.reset()
    for name, budget in (("DEFAULT", 10), ("ONCE", 0)):
        extra = {"poll_interval": 0.2, "retry_budget": budget}
        connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_DATAPIPE_{name}", json.dumps(connection))


def retried(task: Any) -> Any:
    """Run a task, and retry it once after a failure, as Airflow does."""
    memory = Memory()
    try:
        return run(task, memory)
    except DatapipeError:
        return run(task, memory)


@pytest.mark.parametrize("conn_id", ["datapipe_default", "datapipe_once"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_change_whose_answer_is_lost_is_made_once(example: Example, conn_id: str, service: LocalService) -> None:
    service.faults(
        [{"method": method, "path": "/**", "drop": True, "when": "after"} for method in ("POST", "PATCH", "DELETE")]
    )
    task = example.operator(task_id="t", datapipe_conn_id=conn_id, **example.arguments)
    result = retried(task)
    lost = [each for each in service.journal_requests() if each["fault"] is not None]
    told = {key: example.expected[key] for key in ("id", "name") if key in example.expected}
    # By name, what is gone has no id any more.
    if result["id"] is not None:
        assert {key: result[key] for key in told} == told
    created = [
        each
        for each in service.journal_requests()
        if each["method"] == "POST" and each["path"] in CREATING and each["committed"]
    ]
    assert len(created) == example.expected["action"].startswith("created")
    assert len(lost) == (example.arguments.get("if_exists") != "keep")
    service.faults([])
    assert example.again is not None
    again = run(example.operator(task_id="t", **example.arguments))
    assert {key: again[key] for key in example.again} == example.again


def test_streams_whose_answer_was_lost_are_told_as_added(service: LocalService) -> None:
    service.faults([{"method": "POST", "path": "/elt_syncs/*/source_streams", "drop": True, "when": "after"}])
    result = run(EltSyncAddStreamsOperator(task_id="t", sync_id="elt.grow", source_streams="rows"))
    assert result["details"]["added"] == ["rows"]
    assert result["details"]["stream_ids"].keys() == {"rows"}


@pytest.mark.parametrize("with_tables", [False, True])
def test_tables_go_with_their_sync_only_if_that_is_said(service: LocalService, *, with_tables: bool) -> None:
    schema = "elt_grow"
    streams = run(EltSyncAddStreamsOperator(task_id="t", sync_id="elt.grow", source_streams=["rows"]))["details"]
    loaded = run(EltStreamRunOperator(task_id="t", stream_id=streams["stream_ids"]["rows"]))
    assert loaded["rows_synced"] == 3
    arguments: dict[str, Any] = {"remove_data_references": True} if with_tables else {}
    run(EltSyncDeleteOperator(task_id="t", sync_id="elt.grow", **arguments))
    service.stop()
    try:
        with duckdb.connect(str(service.warehouse), read_only=True) as warehouse:
            found = warehouse.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = ?", [schema])
            assert found.fetchall() == ([] if with_tables else [("rows",)])
    finally:
        service.start()


def test_generic_operator_calls_endpoints_and_raises_errors(service: LocalService) -> None:
    call: dict[str, Any] = {"task_id": "t", "endpoint": "elt_syncs.enable"}
    assert run(DatapipeOperator(arguments={"sync_id": "elt.enable"}, **call)) is None
    assert run(EltSyncDisableOperator(task_id="t", sync_id="elt.enable"))["changed"]
    with pytest.raises(NotFoundError, match="nowhere"):
        run(DatapipeOperator(arguments={"sync_id": "nowhere"}, **call))
    listed = run(DatapipeOperator(task_id="t", endpoint="elt_syncs.list", limit=3))
    assert len(listed) == 3
    assert "config" not in listed[0]
