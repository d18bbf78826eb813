"""DAGs that start at the end of a run, on real components, while the triggerer is killed (``make events``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.events import Count, play, watching

# In earlier versions, watchers have no stored cursor and no shared requests.
pytestmark = since("3.3", "state of watchers")
RUNS, RESTARTS, SEED = 25, 1, 5
BUILT = "watching_built"


@dataclass(frozen=True)
class Scenario:
    """Results of the runs."""

    count: Count
    service: LocalService
    log: str


@pytest.fixture(scope="module")
def scenario(
    airflow: AirflowComponents, dags_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenario]:
    with watching(airflow, dags_folder, tmp_path_factory.mktemp("watched")) as service:
        service.request("POST", "/transforms/numbers/publish", json={})
        counted = play(airflow, service, runs=RUNS, restarts=RESTARTS, pause=0.1, seed=SEED)
        log = "".join(path.read_text() for path in airflow.log_files() if path.name.startswith("triggerer"))
        yield Scenario(counted, service, log)


def test_runs_trigger_their_dags_despite_triggerer_kills(scenario: Scenario) -> None:
    assert scenario.count.ended.total() >= RUNS
    assert set(scenario.count.ended) == {"elt_stream", "orchestration", "reverse_etl"}
    assert scenario.count.missed == []
    assert scenario.count.waiting == []
    # Slices of a load have no events.
    assert scenario.count.stray == []
    # An event repeats only if a triggerer was killed between the event and the storage of its cursor.
    assert max(scenario.count.times) <= 1 + RESTARTS


def test_watchers_share_their_requests(scenario: Scenario) -> None:
    lists = [one for one in scenario.service.journal_requests("/orchestration_runs") if one["status"] == httpx.codes.OK]
    assert lists
    # Watchers do not request the runs of a stream while the status of its sync does not change.
    statuses = scenario.service.journal_requests("/elt_syncs/*/status")
    streams = scenario.service.journal_requests("/elt_stream_runs")
    assert len(streams) < 8 * len(statuses)


@pytest.mark.usefixtures("scenario")
def test_triggered_dag_run_gets_the_payload_of_the_run(airflow: AirflowComponents) -> None:
    runs: list[dict[str, Any]] = []

    def is_over() -> bool:
        runs[:] = airflow.api.request("GET", f"/dags/{BUILT}/dagRuns")["dag_runs"]
        return any(run["state"] == "success" for run in runs)

    wait_for("the DAG has run", is_over, limit=60)
    # Events may repeat.
    succeeded = [run for run in runs if run["state"] == "success"]
    payload = airflow.api.xcom(BUILT, succeeded[0]["dag_run_id"], "reported")[0]
    assert (payload["kind"], payload["resource_id"], payload["outcome"]) == ("transform", "numbers", "succeeded")
    assert payload["finished_at"] > "2026"


def test_no_trigger_has_failed(scenario: Scenario) -> None:
    assert "Trigger fired event" in scenario.log
    assert "exited with error" not in scenario.log
    assert scenario.service.api_key not in scenario.log
