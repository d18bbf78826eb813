"""Tests of changes of reverse ETL syncs on the local service: kills, timeouts, refusals and failed records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from airflow_provider_datapipe.api.errors import TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.operators.reverse_etl_failed_records import ReverseEtlRetryFailedRecordsOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlSyncUpdateOperator
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.partner import Partner
from tests.contract.seeds import changes, connect, mapped, reverse_etl_sync, send, transform
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.tasks import Memory, run

pytestmark = pytest.mark.slow


INSERT = mapped("id", mode="insert")
UPDATE = "/reverse_etl_syncs/{id}"
#: Program of a worker. Its task state is a file that each change writes at once.
WORKER = """
import json, sys
from pathlib import Path
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlSyncUpdateOperator
from tests.support.tasks import Memory, context_of

class StoredMemory(Memory):
    def set(self, key, value):
        super().set(key, value)
        self.save()

    def delete(self, key):
        super().delete(key)
        self.save()

    def save(self):
        Path(sys.argv[1]).write_text(json.dumps(self.kept))

file = Path(sys.argv[1])
memory = StoredMemory(json.loads(file.read_text()) if file.exists() else {})
mappings = [{"source_property_id": "id", "destination_property_id": "id", "primary_key": True}]
task = ReverseEtlSyncUpdateOperator(
    task_id="t", reverse_etl_sync_id="out", operation={"mode": "insert", "mappings": mappings}
)
task.execute(context_of(memory))
"""


@pytest.fixture(scope="module")
def partner() -> Iterator[Partner]:
    """Return an endpoint that responds by a rule of the test."""
    with Partner() as running:
        yield running


@pytest.fixture(scope="module")
def running(partner: Partner) -> Iterator[LocalService]:
    """Start a service with one sync to the endpoint."""
    connection = {"id": "partner", "integration_id": "http", "label": "Partner", "settings": {"url": partner.url}}
    seed: dict[str, Any] = {
        "connections": [connection],
        "transforms": [transform("t", "SELECT range AS id FROM range(250)")],
        "reverse_etl_syncs": [reverse_etl_sync("out", "t", destination_connection_id="partner")],
    }
    with LocalService(seed, control=True) as service:
        yield service


@pytest.fixture(autouse=True)
def connected(service: LocalService, partner: Partner, monkeypatch: pytest.MonkeyPatch) -> None:
    partner.reset()
    connect(monkeypatch, service, timeout=30)


def state(service: LocalService) -> tuple[bool, str]:
    shown = send(service, "GET", "/reverse_etl_syncs/out")
    return shown["enabled"], shown["operation"]["mode"]


def update(**arguments: Any) -> ReverseEtlSyncUpdateOperator:
    return ReverseEtlSyncUpdateOperator(task_id="t", reverse_etl_sync_id="out", **arguments)


@pytest.mark.parametrize(("when", "mode"), [("before", "upsert"), ("after", "insert")])
def test_update_with_a_lost_response_leaves_the_sync_active(service: LocalService, when: str, mode: str) -> None:
    service.faults([{"method": "POST", "path": UPDATE, "drop": True, "when": when}])
    memory = Memory()
    with pytest.raises(TransportError):
        run(update(operation=INSERT), memory)
    assert state(service) == (True, mode)
    assert run(update(operation=INSERT), memory)["changed"] == (mode == "upsert")
    assert state(service) == (True, "insert")


@pytest.mark.parametrize(
    ("path", "when"),
    [(f"{UPDATE}/deactivate", "after"), (UPDATE, "before"), (UPDATE, "after"), (f"{UPDATE}/activate", "before")],
)
def test_retry_of_a_killed_worker_restores_the_activation(
    service: LocalService, tmp_path: Path, path: str, when: str
) -> None:
    service.faults([{"method": "POST", "path": path, "delay": 60, "when": when}])
    kept = tmp_path / "state.json"
    command = [sys.executable, "-c", WORKER, str(kept)]
    with subprocess.Popen(command, env=os.environ) as worker:  # noqa: S603 - program of this test
        try:
            asked = f"POST {path.format(id='out')}"
            wait_for("the request is under way", lambda: asked in changes(service), limit=30, interval=0.05)
        finally:
            worker.kill()
    # The service completes the request of the killed worker.
    service.faults([])
    memory = Memory(json.loads(kept.read_text()))
    run(update(operation=INSERT), memory)
    wait_for("it is active and changed", lambda: state(service) == (True, "insert"), limit=60, interval=0.05)
    assert memory.kept == {}


def test_execution_timeout_leaves_the_sync_active(service: LocalService) -> None:
    service.faults([{"method": "POST", "path": UPDATE, "delay": 60}])
    task = update(operation=INSERT)
    with pytest.raises(AirflowTaskTimeout), timeout(2):
        run(task)
    assert state(service)[0]
    # Airflow also calls on_kill after a timeout.
    task.on_kill()
    assert state(service)[0]


def test_on_kill_activates_the_sync(service: LocalService) -> None:
    stopped: list[tuple[bool, str]] = []
    task = update(operation=INSERT)
    service.faults([{"method": "POST", "path": UPDATE, "status": 500}])
    activate = task._activate

    def activate_and_record(flow: Any) -> None:
        activate(flow)
        stopped.append(state(service))

    task._activate = activate_and_record  # type: ignore[method-assign]  # the test observes the call
    original_change = ReverseEtlSyncUpdateOperator._change

    def change_with_kill(self: Any) -> Any:
        work = original_change(self)
        step = work.send(None)
        while True:
            if isinstance(step, Request) and step.endpoint.name == "reverse_etl_syncs.update":
                # Airflow calls on_kill from a signal handler, between any two instructions.
                assert not state(service)[0]
                task.on_kill()
            answer = yield step
            step = work.send(answer)

    task._change = lambda: change_with_kill(task)  # type: ignore[method-assign]  # calls on_kill before the update
    with pytest.raises(Exception, match="500"):
        run(task)
    assert stopped == [(True, "upsert")]


def test_update_waits_for_an_active_run(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.resources.reverse_etl_syncs._PAUSE", 1)
    service.runs({"minimum_duration": 3})
    api = Api(service)
    api.post("/reverse_etl_syncs/out/request_run")
    wait_for("it runs", lambda: bool(api.get("/reverse_etl_sync_runs", reverse_etl_sync_id="out")["data"]), limit=60)
    assert run(update(operation=INSERT))["changed"]
    assert state(service) == (True, "insert")
    (ended,) = api.get("/reverse_etl_sync_runs", reverse_etl_sync_id="out")["data"]
    assert ended["status"] == "COMPLETED"


def test_failed_records_are_retried_by_reason(service: LocalService, partner: Partner) -> None:
    busy, wrong = {"message": "try later"}, {"message": "no such person"}
    partner.rule = lambda record: (422, wrong if record["id"] % 2 else busy)
    api = Api(service)
    first = api.run_reverse("out")
    assert (first.total_rows, first.failed_rows) == (250, 250)

    def retry(**how: Any) -> Any:
        return run(ReverseEtlRetryFailedRecordsOperator(task_id="t", reverse_etl_sync_id="out", **how))

    def failed() -> int:
        return int(api.get("/reverse_etl_failed_records/count", reverse_etl_sync_id="out")["count"])

    nothing = retry(reason="no such reason")
    assert (nothing["changed"], nothing["details"]) == (False, {"failed_records": 250, "seen": 100, "requested": 0})
    reported = retry(reason_pattern="try (it )?later")["details"]
    assert (reported["failed_records"], reported["requested"]) == (250, 250 - failed())
    assert reported["requested"] > 50
    partner.reset()
    assert api.run_reverse("out").failed_rows == 0
    assert all(record["id"] % 2 == 0 for record in partner.records)
    assert len(partner.records) == reported["requested"]
    left = failed()
    assert retry(record_ids="all")["details"]["requested"] == left
    api.run_reverse("out")
    assert failed() == 0
