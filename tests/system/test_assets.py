"""Assets on real components: an asset event of one DAG starts another DAG, which reads the run from the event."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.conftest import connected
from tests.system.resources import seed_of

CONSUMER = "assets_consumer"
ALIAS_CONSUMER = "assets_alias_consumer"
PLACE = "datapipe://datapipe_assets"
STREAMS = [f"{how}_{mode}" for how in ("literal", "templated") for mode in ("deferred", "blocking")]
THROUGH_THE_ALIAS = {"templated_deferred", "templated_blocking", "mapped_1", "mapped_2", "of_a_sync"}


@pytest.fixture(scope="module")
def service_of_assets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the resources of the DAG, except the stream that fails."""
    streams = [*STREAMS, "mapped_1", "mapped_2", "of_a_sync"]
    with LocalService(seed_of(streams, tmp_path_factory.mktemp("assets"), ["sent"]), control=True) as running:
        # A busy scheduler of Airflow can fail a task whose trigger fires within a second of the deferral.
        running.runs({"minimum_duration": 4})
        yield running


def runs_of(airflow: AirflowComponents, dag_id: str) -> list[str]:
    listed = airflow.api.request("GET", f"/dags/{dag_id}/dagRuns", params={"order_by": "run_after"})
    return [run["dag_run_id"] for run in listed["dag_runs"]]


def test_asset_events_start_dags_and_contain_the_runs(
    airflow: AirflowComponents, service_of_assets: LocalService
) -> None:
    for dag_id in (CONSUMER, ALIAS_CONSUMER, "assets_failed_consumer"):
        wait_for(f"{dag_id} is parsed", partial(airflow.api.knows_dag, dag_id), limit=120, interval=0.5)
    with connected(airflow, "datapipe_assets", service_of_assets):
        run_id = airflow.run("assets", "failed")
        tasks = airflow.tasks("assets", run_id)
        assert {label for label, one in tasks.items() if one.state != "success"} == {"failing"}, tasks
        deferred = {label for label, one in tasks.items() if airflow.was_deferred("assets", run_id, one.task_id)}
        assert {"literal_deferred", "templated_deferred", "mapped[0]", "sync"} <= deferred
        results = {
            label: airflow.api.xcom("assets", run_id, one.task_id, map_index=one.map_index)
            for label, one in tasks.items()
            if one.state == "success"
        }
    reported = consumed(airflow)
    expected = {f"{PLACE}/elt_streams/{task}": results[task] for task in STREAMS}
    expected |= {f"{PLACE}/elt_streams/mapped_{number + 1}": results[f"mapped[{number}]"] for number in (0, 1)}
    stream = results["sync"]["streams"]["rows"]
    expected[f"{PLACE}/elt_streams/of_a_sync"] = stream | {"sync_id": "of_a_sync"}
    expected[f"{PLACE}/transforms/numbers"] = results["transform"]
    expected[f"{PLACE}/reverse_etl_syncs/sent"] = results["reverse_etl"]
    for result in expected.values():
        del result["attached"]
    brief = {name: stream[name] for name in ("run_id", "outcome", "rows_synced")}
    expected[f"{PLACE}/elt_syncs/of_a_sync"] = {
        **results["sync"],
        "kind": "elt_sync",
        "resource_id": "of_a_sync",
        "streams": {"rows": brief},
    }
    assert reported == {uri: [result] for uri, result in expected.items()}
    assert stream["run_id"]
    assert results["reverse_etl"]["rows_synced"] == 5
    assert runs_of(airflow, "assets_failed_consumer") == []


def consumed(airflow: AirflowComponents) -> dict[str, list[Any]]:
    """Wait for the consumers, and return the events that the consumer of all assets received."""
    wait_for("the DAG of all assets starts", lambda: bool(runs_of(airflow, CONSUMER)), limit=120, interval=0.5)
    (run_id,) = runs_of(airflow, CONSUMER)
    assert airflow.wait(CONSUMER, run_id) == "success"
    found: set[str] = set()

    def all_received() -> bool:
        for alias_run in runs_of(airflow, ALIAS_CONSUMER):
            found.update(airflow.api.xcom(ALIAS_CONSUMER, alias_run, "ids") or ())
        return found >= THROUGH_THE_ALIAS

    wait_for("the DAG of the alias has started for all", all_received, limit=120, interval=1)
    assert found == THROUGH_THE_ALIAS
    reported: dict[str, list[Any]] = airflow.api.xcom(CONSUMER, run_id, "runs")
    return reported
