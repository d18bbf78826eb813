"""
Logs, links and notifications on real components, while a task waits and after its failure.

Notifications come from a worker, from the DAG processor and from a triggerer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_datapipe.links import DatapipeLink
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.support.scripted_server import Reply, ScriptedServer
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import connected, saved
from tests.system.resources import Held, seed_of

DAG, LATE = "notifying", "notifying_late"
GOING = ["going_deferred", "going_blocking"]
REFUSED = ["refused_deferred", "refused_blocking"]
UNKNOWN = ["unknown_deferred", "unknown_blocking"]
RECORDS = [{"sync_id": "any", "record_id": f"customer-{number}", "error": f"no e-mail {number}"} for number in range(4)]
LINK = "https://app.example.com/{resource}/{id}"
#: Secret of the chat, which only the connection may contain.
SECRET_PATH = "T0SECRETPART0SECRETPART"


@pytest.fixture(scope="module")
def chat() -> Iterator[ScriptedServer]:
    with ScriptedServer([Reply()]) as running:
        yield running


@pytest.fixture(scope="module")
def notifying_service(
    airflow: AirflowComponents, chat: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalService]:
    """Return a service with reverse ETL syncs that have failed rows, and add the connections of the DAGs."""
    seed = seed_of([*GOING, "going_late"], tmp_path_factory.mktemp("notifying_service"), [*REFUSED, "hidden"])
    with (
        LocalService(seed, control=True) as service,
        connected(airflow, "datapipe_notifying", service, link=LINK),
        saved(airflow, "notifying_chat", conn_type="http", host=f"{chat.url}/{SECRET_PATH}"),
    ):
        yield service


class Scenario:
    """Run of the DAG, in which the long runs end as soon as their tasks have logged that they wait."""

    def __init__(self, airflow: AirflowComponents, chat: ScriptedServer, service: LocalService) -> None:
        failing = {"rewrite": {"failed_rows": len(RECORDS), "total_rows": 9}, "times": "always"}
        records = {"status": 200, "body": {"data": RECORDS}, "times": "always"}
        rules: list[dict[str, Any]] = [
            {"method": "GET", "path": "/reverse_etl_sync_runs/*", **failing},
            {"method": "GET", "path": "/reverse_etl_sync_runs", **failing},
            {"method": "GET", "path": "/reverse_etl_failed_records", **records},
        ]
        self._airflow = airflow
        self._held = Held(service, GOING, others=rules)
        #: Links of each task after its end, and of long tasks also during the wait.
        self.links: dict[str, list[dict[str, Any]]] = {}
        self.run_id = airflow.trigger(DAG)
        airflow.wait(DAG, self.run_id, watch=self._watch)
        wait_for("the notification of the DAG processor", lambda: bool(of_dags(chat)), limit=60)
        self.tasks = airflow.tasks(DAG, self.run_id)
        for task_id in self.tasks:
            self._record_links(task_id)
        #: Messages in the chat.
        self.reported: list[dict[str, Any]] = [json.loads(seen.body) for seen in chat.seen]

    def _watch(self, instances: list[TaskInstance]) -> None:
        for one in instances:
            if one.task_id in GOING and one.state == ("deferred" if "deferred" in one.task_id else "running"):
                logs = self._airflow.task_logs(DAG, self.run_id, one.task_id)
                if any("running for" in path.read_text(errors="replace") for path in logs):
                    self._record_links(one.task_id)
                    self._held.release(one.task_id)

    def _record_links(self, task_id: str) -> None:
        self.links.setdefault(task_id, []).append(self._airflow.links(DAG, self.run_id, task_id))

    def log(self, task_id: str) -> str:
        return self._airflow.logs(DAG, self.run_id, self.tasks[task_id])

    def last_message_about(self, task_id: str) -> str:
        """Return the last message about a task: a scheduler without CPU time for long can run it twice."""
        reported = [str(one["text"]) for one in self.reported if one.get("text", "").startswith(f"Task {task_id} of")]
        from_workers = [text for text in reported if "without a reason" not in text]
        return (from_workers or reported)[-1]


@pytest.fixture(scope="module")
def scenario(airflow: AirflowComponents, chat: ScriptedServer, notifying_service: LocalService) -> Scenario:
    return Scenario(airflow, chat, notifying_service)


def of_dags(chat: ScriptedServer) -> list[str]:
    return [body["dag"] for seen in chat.seen if "dag" in (body := json.loads(seen.body))]


def test_waiting_task_logs_its_progress(scenario: Scenario) -> None:
    for task_id in GOING:
        assert scenario.tasks[task_id].state == "success", scenario.log(task_id)
        assert "ELT stream rows, run " in scenario.log(task_id)
        # One line per minute, not one per poll (two per second).
        assert scenario.log(task_id).count("running for") < 30


def test_links_while_waiting_after_success_and_after_failure(scenario: Scenario) -> None:
    for task_id in GOING:
        shown = {DatapipeLink.name: f"https://app.example.com/elt_streams/{task_id}"}
        assert len(scenario.links[task_id]) >= 2
        assert all(links == shown for links in scenario.links[task_id])
    for task_id in REFUSED:
        assert scenario.links[task_id] == [{DatapipeLink.name: f"https://app.example.com/reverse_etl_syncs/{task_id}"}]
    for task_id in UNKNOWN:
        assert scenario.links[task_id] == [{DatapipeLink.name: "https://app.example.com/elt_streams/nowhere"}]


def test_failed_records_are_logged_before_the_exception(scenario: Scenario) -> None:
    for task_id in REFUSED:
        assert scenario.tasks[task_id].state == "failed"
        log = scenario.log(task_id)
        assert "First 4 failed records" in log, log
        tried = log.count("First 4 failed records")
        assert all(log.count(f"  {one['record_id']}: {one['error']}") == tried for one in RECORDS)
        assert log.index("First 4 failed records") < log.index("Task failed with exception")
        assert ": for example record customer-0" in log


def test_notifications_from_the_worker(scenario: Scenario) -> None:
    for task_id in REFUSED:
        reported = scenario.last_message_about(task_id)
        assert f"reverse ETL sync {task_id}: run " in reported
        assert "4 of 9 rows failed" in reported
        assert "  customer-2: no e-mail 2" in reported
        assert "  customer-3" not in reported
        assert f"On the service: https://app.example.com/reverse_etl_syncs/{task_id}" in reported
        assert "Log: http" in reported
    for task_id in UNKNOWN:
        assert "Was it deleted" in scenario.last_message_about(task_id) or "404" in scenario.last_message_about(task_id)
    assert "Task down of DAG notifying" in scenario.last_message_about("down")


def test_hidden_records_are_in_no_log_and_notification(scenario: Scenario) -> None:
    assert scenario.tasks["hidden"].state == "failed"
    assert "4 of 9 rows failed" in scenario.last_message_about("hidden")
    assert "customer-" not in scenario.last_message_about("hidden") + scenario.log("hidden")


def test_notifications_from_the_dag_processor(scenario: Scenario) -> None:
    reported = [one["dag"] for one in scenario.reported if "dag" in one]
    assert reported
    assert all(one.startswith(f"DAG {DAG}, run {scenario.run_id} failed.\nReason from Airflow: ") for one in reported)


@pytest.mark.usefixtures("scenario")
def test_no_log_contains_the_webhook_url_of_the_chat(airflow: AirflowComponents) -> None:
    assert [path for path in airflow.log_files() if SECRET_PATH in path.read_text(errors="replace")] == []


def test_notifications_from_a_triggerer(
    airflow: AirflowComponents, chat: ScriptedServer, notifying_service: LocalService
) -> None:
    notifying_service.runs({"resources": {"going_late": {"minimum_duration": 5}}})
    run_id = airflow.trigger(LATE)

    def reported() -> list[str]:
        return [body["late"] for seen in chat.seen if "late" in (body := json.loads(seen.body))]

    wait_for("the notification about the missed deadline", lambda: bool(reported()), limit=120)
    airflow.wait(LATE, run_id)
    assert reported() == [f"DAG {LATE}, run {run_id} missed its deadline.\nIt did not end in time."]
