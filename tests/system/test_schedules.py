"""Paused schedules on real components: all fields are restored for each way a DAG run can end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_versions import older_than
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system import seeds
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import connected

ELT = ["all", "failing", "killed", "killed_and_again", "changed", "two"]
REVERSE = ["all", "back_killed"]
#: Killed workers: task, and request during which its worker is killed.
KILLED = {
    "killed": ("it_pause", "POST", "/elt_syncs/killed"),
    "killed_and_again": ("it_pause", "DELETE", "/elt_syncs/killed_and_again/orchestration"),
    "back_killed": ("it_restore", "POST", "/reverse_etl_syncs/back_killed/deactivate"),
}
GATED = ("changed", "two")
#: Task without retries that is killed in each try, because a scheduler without CPU time can run a task twice.
FOR_GOOD = "killed"
#: Requests before the killed one: the pause deactivates the sync, too.
SKIPPED = {"back_killed": 1}
SECONDS = 40
RESOURCES = {
    **{end: f"elt_syncs/{end}" for end in ELT},
    **{end: f"reverse_etl_syncs/{end}" for end in REVERSE if end != "all"},
}
OF_ALL = ["elt_syncs/all", "elt_streams/all", "transforms/all", "reverse_etl_syncs/all", "orchestrations/all"]


def seed(folder: Path) -> dict[str, Any]:
    (folder / "rows.csv").write_text("id,name\n1,one\n2,two\n", encoding="utf-8")
    attached = {"orchestration_workflow_id": "all"}
    table = {"folder_path": "schedules", "materialization": "table", "cron_expression": "0 4 * * *"}
    return {
        "connections": [
            *(seeds.connection(f"rows_{end}", "files", path=str(folder)) for end in ELT),
            seeds.connection("out", "jsonl", path=f"{folder}/out"),
        ],
        "orchestrations": [seeds.orchestration("all")],
        "elt_syncs": [
            seeds.elt_sync(
                end,
                f"rows_{end}",
                [seeds.stream(end, "rows", sync_interval="0 5 * * *")],
                sync_interval="0 3 * * *",
                **attached,
            )
            for end in ELT
        ],
        "transforms": [seeds.transform("all", "SELECT 1 AS id", **table, **attached)],
        "reverse_etl_syncs": [
            seeds.reverse_etl_sync(
                end, "all", "out", sync_interval="0 6 * * *", **({} if end == "back_killed" else attached)
            )
            for end in REVERSE
        ],
    }


def shown(service: LocalService, resource: str) -> dict[str, Any]:
    """Return the fields of a resource, except those about its last change and its last run."""
    body: dict[str, Any] = service.request("GET", f"/{resource}")
    for moving in ("updated_at", "status"):
        body.pop(moving, None)
    body["source_streams"] = [
        {name: value for name, value in each.items() if name != "updated_at"}
        for each in body.get("source_streams") or ()
    ]
    return body


class Scenario:
    """Concurrent runs of the DAGs, with kills of workers, a cleared task and changes of schedules."""

    def __init__(self, airflow: AirflowComponents, service: LocalService, folder: Path) -> None:
        self.airflow, self.service, self.folder = airflow, service, folder
        everything = {*RESOURCES.values(), *OF_ALL, *(f"elt_streams/{end}" for end in ELT)}
        #: Fields of each resource before the DAG runs, and during the pause.
        self.before = {each: shown(service, each) for each in everything}
        self.while_paused: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, str] = {}
        #: Final state and tasks of each DAG run. ``two`` has a second DAG run, ``another``.
        self.states: dict[str, str] = {}
        self.tasks: dict[str, dict[str, TaskInstance]] = {}
        self.killed: list[str] = []
        self._kills = dict.fromkeys(KILLED, 0)
        #: Result of the snapshot task of ``two``, before and after it was cleared.
        self.snapshots: list[Any] = []

    def run(self) -> None:
        self._set_faults(KILLED)
        for end in RESOURCES:
            conf = {"gate": str(self.folder / end)} if end in GATED else {"fail": end == "failing"}
            self.runs[end] = self.airflow.trigger(f"schedules_{end}", conf)
        wait_for("all are killed", self._have_been_killed, limit=300, interval=0.3)
        self.service.faults([])
        wait_for("the work", self._is_working, limit=300, interval=0.5)
        for end in GATED:
            self.while_paused[end] = shown(self.service, RESOURCES[end]) | {
                "stream": shown(self.service, f"elt_streams/{end}")
            }
        self._clear_the_snapshot()
        # A second run of the DAG while the first one owns the schedule.
        self.runs["another"] = self.airflow.trigger("schedules_two", {"gate": str(self.folder / "two")})
        self._ended("another")
        self.service.request("POST", "/elt_syncs/changed", json={"sync_interval": "0 9 * * *"})
        for end in GATED:
            (self.folder / end).touch()
        for end in RESOURCES:
            self._ended(end)

    def log(self, end: str) -> str:
        """Return the logs of the failed tasks of a DAG run."""
        failed = [one for one in self.tasks[end].values() if one.state == "failed"]
        return "\n".join(self.airflow.logs(_dag(end), self.runs[end], one) for one in failed)

    def _task(self, end: str, task_id: str) -> TaskInstance:
        return self.airflow.tasks(f"schedules_{end}", self.runs[end])[task_id]

    def _is_working(self) -> bool:
        return all(self._task(end, "work").state == "running" for end in GATED)

    def _have_been_killed(self) -> bool:
        """Kill each worker as soon as its request arrives. Their order varies, as there are more tasks than slots."""
        for end in KILLED.keys() - self.killed:
            task = self._task(end, KILLED[end][0])
            arrived = sum(bool(each["fault"]) and each["committed"] for each in self._requests(end))
            if self._kills[end] and (end != FOR_GOOD or task.state == "failed"):
                self.killed.append(end)
                if end == FOR_GOOD:
                    # The teardown sends the same request. One-time faults that have occurred are removed.
                    left = KILLED.keys() - self.killed
                    self._set_faults(each for each in left if not any(one["fault"] for one in self._requests(each)))
            elif task.state == "running" and arrived > self._kills[end]:
                self.airflow.kill_task(task)
                self._kills[end] = arrived
        return len(self.killed) == len(KILLED)

    def _set_faults(self, ends: Iterable[str]) -> None:
        """Delay the answers to requests, during which workers are killed."""
        rules = []
        for end in ends:
            _, method, path = KILLED[end]
            skip = max(0, SKIPPED.get(end, 0) - len(self._requests(end)))
            times = "always" if end == FOR_GOOD else 1
            rules.append(
                {"method": method, "path": path, "delay": SECONDS, "when": "after", "skip": skip, "times": times}
            )
        self.service.faults(rules)

    def _requests(self, end: str) -> list[Any]:
        """Return the requests so far in which a worker can be killed."""
        _, method, path = KILLED[end]
        return [each for each in self.service.journal_requests(path) if each["method"] == method]

    def _clear_the_snapshot(self) -> None:
        def snapshot() -> Any:
            return self.airflow.api.xcom("schedules_two", self.runs["two"], "it_snapshot")

        def is_done() -> bool:
            one = self._task("two", "it_snapshot")
            return one.try_number > 1 and one.state in ("success", "failed")

        self.snapshots.append(snapshot())
        self.airflow.api.clear("schedules_two", self.runs["two"], "it_snapshot")
        wait_for("the snapshot is taken again", is_done, limit=120, interval=0.5)
        self.snapshots.append(snapshot())

    def _ended(self, end: str) -> None:
        self.states[end] = self.airflow.wait(_dag(end), self.runs[end])
        self.tasks[end] = self.airflow.tasks(_dag(end), self.runs[end])


def _dag(end: str) -> str:
    return f"schedules_{'two' if end == 'another' else end}"


@pytest.fixture(scope="module")
def scenario(airflow: AirflowComponents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    folder = tmp_path_factory.mktemp("schedules")
    with LocalService(seed(folder), control=True) as service, connected(airflow, "datapipe_schedules", service):
        played = Scenario(airflow, service, folder)
        played.run()
        yield played


def restored(scenario: Scenario, end: str) -> bool:
    """Return True if a resource and its stream have their earlier fields."""
    resources = [RESOURCES[end], *([f"elt_streams/{end}"] if RESOURCES[end].startswith("elt") else [])]
    now = {each: shown(scenario.service, each) for each in resources}
    assert now == {each: scenario.before[each] for each in resources}, end
    return True


def test_all_resources_are_paused_run_and_restored(scenario: Scenario) -> None:
    assert scenario.states["all"] == "success", scenario.log("all")
    assert {each: shown(scenario.service, each) for each in OF_ALL} == {each: scenario.before[each] for each in OF_ALL}
    # The DAG could run each resource during the pause.
    assert {one.state for one in scenario.tasks["all"].values()} == {"success"}
    assert len(scenario.service.journal_runs("all")) >= 4


def test_paused_sync_is_not_due(scenario: Scenario) -> None:
    for end in GATED:
        paused = scenario.while_paused[end]
        assert paused.get("orchestration_workflow_id") is None
        assert paused["enabled"]
        for cron in (paused["sync_interval"], paused["stream"]["sync_interval"]):
            assert cron.endswith(" 29 2 *")


@pytest.mark.parametrize(
    ("end", "first", "work"), [("failing", "success", "failed"), ("killed", "failed", "upstream_failed")]
)
def test_schedule_is_restored_after_a_failed_task(end: str, first: str, work: str, scenario: Scenario) -> None:
    assert scenario.states[end] == "failed", scenario.tasks[end]
    back = {"it_restore": "success", "it_is_restored": "success"}
    states = {task_id: one.state for task_id, one in scenario.tasks[end].items()}
    assert states == {"it_snapshot": "success", "it_pause": first, "work": work, **back}
    assert restored(scenario, end)


@pytest.mark.parametrize("end", ["killed_and_again", "back_killed"])
def test_retry_of_a_killed_task_continues(end: str, scenario: Scenario) -> None:
    assert scenario.states[end] == "success", scenario.log(end)
    assert scenario.tasks[end][KILLED[end][0]].try_number > 1
    assert restored(scenario, end)


def test_cleared_snapshot_task_keeps_the_original_schedule(scenario: Scenario) -> None:
    first, again = scenario.snapshots
    assert first == again
    assert first["original"]["sync_interval"] == "0 3 * * *"


def test_schedule_changed_by_a_user_is_not_overwritten(scenario: Scenario) -> None:
    assert scenario.states["changed"] == "failed"
    assert scenario.tasks["changed"]["it_restore"].state == "failed"
    # Only the restore task has failed.
    assert scenario.tasks["changed"]["work"].state == "success"
    assert shown(scenario.service, "elt_syncs/changed")["sync_interval"] == "0 9 * * *"
    assert "sync_interval is '0 9 * * *' (before the pause '0 3 * * *'" in scenario.log("changed")


def test_second_pause_is_refused_and_changes_nothing(scenario: Scenario) -> None:
    assert scenario.states["another"] == "failed"
    assert scenario.tasks["another"]["it_snapshot"].state == "failed"
    assert {one.state for one in scenario.tasks["another"].values()} == {"failed", "upstream_failed"}
    assert "is paused already" in scenario.log("another")
    assert scenario.states["two"] == "success", scenario.log("two")
    assert restored(scenario, "two")


def test_cleared_tasks_pause_and_restore_again(scenario: Scenario, airflow: AirflowComponents) -> None:
    run_id = scenario.runs["failing"]
    # A user clears the failed task after a correction. Since Airflow 3.3, this includes its setups and teardown.
    around = older_than("3.3")
    airflow.api.clear("schedules_failing", run_id, "work", include_upstream=around, include_downstream=around)
    airflow.wait("schedules_failing", run_id)
    tries = {task_id: one.try_number for task_id, one in airflow.tasks("schedules_failing", run_id).items()}
    # A scheduler without CPU time may retry a task. The task after the teardown is not cleared with the work.
    assert all(number >= 2 for task_id, number in tries.items() if task_id != "it_is_restored"), tries
    assert restored(scenario, "failing")
