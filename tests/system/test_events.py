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

# Before, a watcher begins anew with its triggerer, and each asks for itself.
pytestmark = since("3.3", "state of watchers")
RUNS, RESTARTS, SEED = 25, 1, 5
BUILT = "watching_built"


@dataclass(frozen=True)
class Story:
    """Results of the runs."""

    count: Count
    service: LocalService
    log: str


@pytest.fixture(scope="module")
def story(airflow: AirflowComponents, dags_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with watching(airflow, dags_folder, tmp_path_factory.mktemp("watched")) as service:
        path = f"{service.base_url}/transforms/numbers/publish"
        httpx.post(path, headers=service.headers, json={}, timeout=30).raise_for_status()
        counted = play(airflow, service, runs=RUNS, restarts=RESTARTS, pause=0.1, seed=SEED)
        log = "".join(path.read_text() for path in airflow.log_files() if path.name.startswith("triggerer"))
        yield Story(counted, service, log)


def test_runs_trigger_their_dags_despite_triggerer_kills(story: Story) -> None:
    assert story.count.ended.total() >= RUNS
    assert set(story.count.ended) == {"elt_stream", "orchestration", "reverse_etl"}
    assert story.count.missed == []
    assert story.count.waiting == []
    # The slices of a load are no runs of their own.
    assert story.count.stray == []
    # No more than what was between an event and its cursor when a triggerer was killed: it has no other one.
    assert max(story.count.times) <= 1 + RESTARTS


def test_watchers_share_their_requests(story: Story) -> None:
    lists = [one for one in story.service.journal_requests("/orchestration_runs") if one["status"] == httpx.codes.OK]
    assert lists
    # Nobody asks for the runs of one stream while its sync's status tells of no change.
    statuses = story.service.journal_requests("/elt_syncs/*/status")
    streams = story.service.journal_requests("/elt_stream_runs")
    assert len(streams) < 8 * len(statuses)


@pytest.mark.usefixtures("story")
def test_the_dag_is_given_what_there_is_to_know_of_the_run(airflow: AirflowComponents) -> None:
    runs: list[dict[str, Any]] = []

    def is_over() -> bool:
        runs[:] = airflow.api.request("GET", f"/dags/{BUILT}/dagRuns")["dag_runs"]
        return any(run["state"] == "success" for run in runs)

    wait_for("the DAG has run", is_over, limit=60)
    # The same may have come twice, as with any event.
    succeeded = [run for run in runs if run["state"] == "success"]
    payload = airflow.api.xcom(BUILT, succeeded[0]["dag_run_id"], "reported")[0]
    assert (payload["kind"], payload["resource_id"], payload["outcome"]) == ("transform", "numbers", "succeeded")
    assert payload["finished_at"] > "2026"


def test_no_trigger_has_raised(story: Story) -> None:
    assert "Trigger fired event" in story.log
    assert "exited with error" not in story.log
    assert story.service.api_key not in story.log
