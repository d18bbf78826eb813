"""Webhooks on real components: from tasks, mapped, and after the kill of a worker."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.webhook_gateway import Trouble, WebhookGateway
from tests.system import seeds
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import saved

SECRET = "canary-s3cret"
SEED = seeds.webhook("hooks", "events", authentication={"method": "hmac", "header": "X-Signature", "secret": SECRET})
EXTRA = {"authentication": "hmac", "header": "X-Signature", "retry_budget": 30}
#: IDs that each task of the DAG sends.
EXPECTED = {
    "given": [1],
    "made": [0, 1, 2, 3, 4],
    "each": [1, 2, 3],
    "mapped_0": [1],
    "mapped_1": [1, 2],
    "list_0": [0, 1, 2],
    "list_1": [0, 1, 2],
}


@pytest.fixture(scope="module")
def webhooks() -> Iterator[LocalService]:
    with LocalService(SEED, control=True) as running:
        yield running


@pytest.fixture(autouse=True)
def clean(webhooks: LocalService) -> None:
    webhooks.reset()


def webhook(base_url: str) -> dict[str, Any]:
    """Return the fields of a connection to the webhook."""
    host = f"{base_url}/webhooks/hooks"
    return {"conn_type": "datapipe_webhook", "host": host, "password": SECRET, "extra": json.dumps(EXTRA)}


def loaded(webhooks: LocalService) -> list[dict[str, Any]]:
    assert Api(webhooks).run_stream("events").status == "COMPLETED"
    answer = httpx.post(
        f"{webhooks.base_url}/_local/query", json={"sql": "SELECT * FROM hooks.events"}, headers=webhooks.headers
    )
    rows: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
    return rows


def by_how(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    return {how: sorted(row["id"] for row in rows if row["how"] == how) for how in {row["how"] for row in rows}}


def test_webhook_tasks_on_components(airflow: AirflowComponents, webhooks: LocalService) -> None:
    with saved(airflow, "webhook_dag", **webhook(webhooks.base_url)):
        run_id = airflow.run("webhook")
    rows = loaded(webhooks)
    assert by_how(rows) == EXPECTED
    assert [row["run"] for row in rows if row["how"] == "given"] == [run_id]
    result = airflow.api.xcom("webhook", run_id, "made")
    assert (result["records"], result["batches"], result["maybe_twice"]) == (5, 3, 0)
    assert [each["first"] for each in result["results"]] == [0, 2, 4]
    mapped = [airflow.api.xcom("webhook", run_id, "mapped", map_index=index)["records"] for index in range(2)]
    assert mapped == [1, 2]
    logs = [path.read_text(errors="replace") for path in airflow.log_files()]
    assert any("Accepted: 5 records in 3 batches" in log for log in logs)
    assert not any(SECRET in log for log in logs)


@since("3.3", "task state")
def test_retry_after_a_killed_worker_continues(
    airflow: AirflowComponents, webhooks: LocalService, tmp_path: Path
) -> None:
    total, held = 100, 4
    file = tmp_path / "records.jsonl"
    file.write_text("".join(f'{{"id": {number}, "how": "file"}}\n' for number in range(total)))
    released, killed = threading.Event(), list[int]()

    def watch(instances: list[TaskInstance]) -> None:
        (one,) = instances
        # The task waits for the response to an executed request.
        if gateway.requests > held and not killed and one.pid is not None:
            airflow.kill_task(one)
            killed.append(one.pid)
            released.set()

    try:
        with (
            WebhookGateway(webhooks.base_url, {held: Trouble(after=True, until=released)}) as gateway,
            saved(airflow, "webhook_held", **webhook(gateway.url)),
        ):
            run_id = airflow.trigger("webhook_file", {"file": str(file)})
            airflow.wait("webhook_file", run_id, limit=300, watch=watch)
    finally:
        released.set()
    (one,) = airflow.api.task_instances("webhook_file", run_id)
    assert (one.state, one.try_number) == ("success", 2), airflow.log_tail("webhook_file", run_id, one)
    assert len(killed) == 1
    result = airflow.api.xcom("webhook_file", run_id, "file")
    assert (result["resumed_from"], result["records"], result["batches"]) == (10 * held, total, 10)
    # Acknowledged batches were not repeated. The batch without a response is duplicated, and the result reports it.
    assert gateway.requests == 11
    assert result["maybe_twice"] == 10
    times = Counter(row["id"] for row in loaded(webhooks))
    assert set(times) == set(range(total))
    assert sorted(number for number, count in times.items() if count > 1) == list(range(10 * held, 10 * held + 10))


@pytest.mark.parametrize(("password", "healthy"), [(SECRET, True), ("wrong-canary", False)])
def test_test_connection(airflow: AirflowComponents, webhooks: LocalService, password: str, healthy: bool) -> None:
    made = webhook(webhooks.base_url)
    body = made | {"connection_id": "tried", "password": password, "host": f"{made['host']}/events"}
    answer = airflow.api.request("POST", "/connections/test", json=body)
    assert answer["status"] == healthy, answer
    said = "accepts the credentials" if healthy else "does not accept the credentials"
    assert said in answer["message"]
    assert password not in answer["message"]
    assert Api(webhooks).run_stream("events").rows_synced == 0
