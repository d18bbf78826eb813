"""Example pipeline and DAGs of the README, on real components and the real service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.demo import DAG, ROOT
from tests.system.partner_api import PartnerApi

ROWS = {"flights": 336_776, "airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115}
#: Months that the partner never accepts, because SkyWest had fewer than ten flights.
TOO_SMALL = {("OO", month) for month in (1, 6, 8, 11)}


#: DAGs with one task, for each kind of run and for a sensor.
ONE_TASK = {
    "one_stream": ("operators.elt_streams", 'EltStreamRunOperator(task_id="flights", stream_id="nycflights.flights"'),
    "one_sync": (
        "operators.elt_syncs",
        'EltSyncRunOperator(task_id="flights", sync_id="nycflights", max_active_streams=3',
    ),
    "one_orchestration": (
        "operators.orchestrations",
        'OrchestrationRunOperator(task_id="nightly", orchestration_id="nightly"',
    ),
    "one_transform": (
        "operators.transforms",
        'TransformPublishOperator(task_id="departures", transform_id="departures"',
    ),
    "one_reverse_etl": (
        "operators.reverse_etl_syncs",
        (
            'ReverseEtlRunOperator(task_id="report", reverse_etl_sync_id="carrier_delays", '
            "retry_failed_records=True, max_failed_rows=40"
        ),
    ),
    "one_sensor": ("sensors.run", 'EltStreamRunSensor(task_id="flights_loaded", stream_id="nycflights.flights"'),
}
LONGEST_README_DAG = 20


def readme_dag() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(block)


def one_task_dag(dag_id: str) -> str:
    module, call = ONE_TASK[dag_id]
    return f"""
import pendulum
from airflow.sdk import DAG
from airflow_provider_datapipe.{module} import {call.partition("(")[0]}

with DAG("{dag_id}", start_date=pendulum.datetime(2026, 1, 1), schedule="@daily", catchup=False):
    {call}, deferrable=True)
"""


@pytest.fixture(scope="module")
def example(airflow: AirflowComponents, example_run: str) -> dict[str, Any]:
    """Return the result of each task of the example."""
    for task_id in ("load", "report", "report_again"):
        assert airflow.was_deferred(DAG, example_run, task_id)
    return {task_id: airflow.api.xcom(DAG, example_run, task_id) for task_id in airflow.tasks(DAG, example_run)}


def test_example_loads_all_rows(example: dict[str, Any]) -> None:
    load = example["load"]
    assert load["outcome"] == "succeeded"
    assert {name: result["rows_synced"] for name, result in load["streams"].items()} == ROWS
    assert load["rows_synced"] == sum(ROWS.values())


def test_example_publishes_its_transforms(example: dict[str, Any]) -> None:
    for task_id, name in (("publish_departures", "departures"), ("publish_delays", "carrier_month_delays")):
        assert example[task_id]["outcome"] == "succeeded"
        assert example[task_id]["name"] == f"flights/{name}"


def test_example_sends_records_and_retries_failed_ones(example: dict[str, Any], partner: PartnerApi) -> None:
    first, again = example["report"], example["report_again"]
    assert (first["outcome"], first["rows_total"], first["rows_failed"]) == ("partial", 185, 29)
    assert (again["outcome"], again["rows_synced"], again["rows_failed"]) == ("partial", 25, 4)
    accepted = {(record["carrier"], record["month"]) for record in partner.partner.accepted()}
    assert len(accepted) == 185 - len(TOO_SMALL)
    assert accepted.isdisjoint(TOO_SMALL)


def test_follow_up_dag_starts_at_the_end_of_the_run(example: dict[str, Any], airflow: AirflowComponents) -> None:
    last = example["report_again"]
    reported: dict[str, int] = {}

    def has_followed() -> bool:
        for run in airflow.api.request("GET", "/dags/flights_follow_up/dagRuns")["dag_runs"]:
            reported.update(airflow.api.xcom("flights_follow_up", run["dag_run_id"], "rows_sent") or {})
        return last["run_id"] in reported

    wait_for("the DAG has got the event of the last run", has_followed, limit=90, interval=1)
    assert reported[last["run_id"]] == last["rows_synced"]


def test_dag_of_the_readme_is_short() -> None:
    assert len(readme_dag().strip().splitlines()) <= LONGEST_README_DAG


@pytest.mark.usefixtures("example")
def test_dag_of_the_readme_runs(airflow: AirflowComponents, dags_folder: Path) -> None:
    (dags_folder / "readme.py").write_text(readme_dag())
    run_id = airflow.trigger("flights")
    airflow.ends("flights", run_id)
    results = [airflow.api.xcom("flights", run_id, task_id) for task_id in airflow.tasks("flights", run_id)]
    assert [result["outcome"] in ("succeeded", "partial") for result in results] == [True] * 3


@pytest.mark.parametrize("dag_id", ONE_TASK)
@pytest.mark.usefixtures("example")
def test_dag_with_one_task_runs(
    dag_id: str, airflow: AirflowComponents, service: LocalService, dags_folder: Path
) -> None:
    (dags_folder / f"{dag_id}.py").write_text(one_task_dag(dag_id))
    run_id = airflow.trigger(dag_id)
    if dag_id == "one_sensor":
        # Another client starts the awaited run.
        service.request("POST", "/elt_streams/nycflights.flights/request_run")
    airflow.ends(dag_id, run_id)
    (task_id,) = airflow.tasks(dag_id, run_id)
    result = airflow.api.xcom(dag_id, run_id, task_id)
    assert result["outcome"] in ("succeeded", "partial")


def test_no_log_contains_the_api_key(
    example: dict[str, Any], airflow: AirflowComponents, service: LocalService
) -> None:
    assert example
    logs = [*airflow.log_files(), service.log_file]
    assert [path for path in logs if service.api_key.encode() in path.read_bytes()] == []
