"""Concurrent, mapped and killed tasks, and runs of other clients, on real components: each task has one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import connected
from tests.system.resources import FOR_EVER, Held, Journal, seed_of

#: Without task state, a retry of a killed task does not know its run.
pytestmark = [pytest.mark.medium, since("3.3", "task state")]
DAG = "starting_once"
OTHER_DAG = "starting_once_too"
HOWS = ("deferred", "blocking")
#: Streams with an active run of another client.
WAITED_FOR = [f"wait_{how}" for how in HOWS]
BUSY = [*WAITED_FOR, *(f"{policy}_{how}" for policy in ("skip", "fail") for how in HOWS)]
EACH = [f"each_{number}" for number in range(3)]
KILLED = "each[1]"
UNDISTURBED = ("each[0]", "each[2]")
RACED = ("raced", "same")
#: Duration in seconds of a run that a second task must find active.
MET = 20


class Scenario:
    """Runs of both DAGs, with a kill of the process of one mapped task."""

    def __init__(self, airflow: AirflowComponents, service: LocalService) -> None:
        self._airflow = airflow
        self._service = service
        self._killed = 0
        #: The other mapped tasks at the kill, and at the retry of the killed one.
        self.others: list[set[tuple[Any, ...]]] = []
        durations = {each: {"minimum_duration": FOR_EVER} for each in BUSY if each not in WAITED_FOR}
        durations |= {each: {"minimum_duration": MET} for each in RACED}
        service.runs({"minimum_duration": 2, "resources": durations})
        self._held = Held(service, [*EACH, *WAITED_FOR], {each: self._run(each) for each in BUSY})
        self.runs = {dag_id: airflow.trigger(dag_id) for dag_id in (DAG, OTHER_DAG)}
        for dag_id, run_id in self.runs.items():
            airflow.wait(dag_id, run_id, watch=self._watch if dag_id == DAG else None)
        self.tasks = airflow.tasks(DAG, self.runs[DAG])
        (self.other,) = airflow.tasks(OTHER_DAG, self.runs[OTHER_DAG]).values()
        self.results = {label: self._result(DAG, task) for label, task in self.tasks.items()}
        self.results["other"] = self._result(OTHER_DAG, self.other)
        self.journal = Journal(service)

    def _result(self, dag_id: str, task: TaskInstance) -> Any:
        return self._airflow.api.xcom(dag_id, self.runs[dag_id], task.task_id, map_index=task.map_index)

    def log(self, task_id: str) -> str:
        return self._airflow.logs(DAG, self.runs[DAG], self.tasks[task_id])

    def _run(self, stream: str) -> dict[str, Any]:
        """Start a run of a stream as another client, and return the response to a second request."""
        with self._service.client() as client:
            client.post(f"/elt_streams/{stream}/request_run").raise_for_status()
            wait_for("a run has begun", lambda: Journal(self._service).has_begun(stream), limit=60, interval=0.02)
            refused = client.post(f"/elt_streams/{stream}/request_run")
        assert refused.status_code == httpx.codes.CONFLICT
        answer: dict[str, Any] = refused.json()
        return answer

    def _watch(self, instances: list[TaskInstance]) -> None:
        tasks = {one.label: one for one in instances}
        journal = Journal(self._service)
        for stream in WAITED_FOR:
            refused = journal.refused(stream)
            if refused is not None and journal.is_watched(stream, after=refused):
                self._held.release(stream)
        mapped = [tasks[label] for label in (KILLED, *UNDISTURBED) if label in tasks]
        if len(mapped) < len(EACH):
            return
        killed, *others = mapped
        now = {(one.label, one.state, one.try_number, one.pid) for one in others}
        if not self.others:
            if all(one.state == "running" for one in mapped) and all(map(journal.is_watched, EACH)):
                self._airflow.kill_task(killed)
                self.others.append(now)
                self._killed = journal.last
        elif len(self.others) == 1 and killed.try_number > 1 and journal.is_watched(EACH[1], after=self._killed):
            self.others.append(now)
            for each in EACH:
                self._held.release(each)


@pytest.fixture(scope="module")
def scenario(airflow: AirflowComponents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    seed = seed_of([*BUSY, *EACH, "raced", "same"], tmp_path_factory.mktemp("starting_once"))
    with LocalService(seed, control=True) as service, connected(airflow, f"datapipe_{DAG}", service):
        yield Scenario(airflow, service)


def test_killed_mapped_task_does_not_affect_the_others(scenario: Scenario) -> None:
    tasks = [scenario.tasks[f"each[{number}]"] for number in range(3)]
    assert [task.state for task in tasks] == ["success"] * 3
    assert tasks[1].try_number > 1
    # The other tasks were still running, in the same processes and tries.
    before, after = scenario.others
    assert before == after
    for number, stream in enumerate(EACH):
        (run,) = scenario.journal.runs(stream)
        assert run["status"] == "COMPLETED"
        result = scenario.results[f"each[{number}]"]
        assert (result["run_id"], result["outcome"]) == (run["run_id"], "succeeded")
        # The killed task has its own run, too, because no other client has requested one.
        assert not result["attached"]


@pytest.mark.parametrize("racers", [("same[0]", "same[1]"), ("raced", "other")], ids=["mapped", "two DAGs"])
def test_concurrent_tasks_of_one_stream_share_a_run(racers: tuple[str, str], scenario: Scenario) -> None:
    (run,) = scenario.journal.runs(racers[0].partition("[")[0])
    tasks = [scenario.other if racer == "other" else scenario.tasks[racer] for racer in racers]
    assert [task.state for task in tasks] == ["success"] * 2
    results = [scenario.results[racer] for racer in racers]
    assert [result["run_id"] for result in results] == [run["run_id"]] * 2
    assert sorted(result["attached"] for result in results) == [False, True]


@pytest.mark.parametrize("how", HOWS)
def test_if_running_wait_starts_an_own_run_after_the_other(how: str, scenario: Scenario) -> None:
    assert scenario.journal.refused(f"wait_{how}") is not None
    first, own = scenario.journal.runs(f"wait_{how}")
    assert own["started_at"] >= first["finished_at"]
    result = scenario.results[f"wait_{how}"]
    assert (result["run_id"], result["outcome"]) == (own["run_id"], "succeeded")
    assert not result["attached"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("policy", "state"), [("skip", "skipped"), ("fail", "failed")])
def test_if_running_skip_and_fail_log_the_active_run(policy: str, state: str, how: str, scenario: Scenario) -> None:
    task_id = f"{policy}_{how}"
    (run,) = scenario.journal.runs(task_id)
    assert run["finished_at"] is None
    assert scenario.tasks[task_id].state == state
    assert run["run_id"] in scenario.log(task_id)
    assert scenario.results[task_id] is None
