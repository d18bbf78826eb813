"""Schedules that DAGs own, on real components: each field is restored after any end of the DAG run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
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
#: Killed workers: the task, and the request during which its worker is killed.
KILLED = {
    "killed": ("it_pause", "POST", "/elt_syncs/killed"),
    "killed_and_again": ("it_pause", "DELETE", "/elt_syncs/killed_and_again/orchestration"),
    "back_killed": ("it_restore", "POST", "/reverse_etl_syncs/back_killed/deactivate"),
}
GATED = ("changed", "two")
#: A task without retries, killed in each try: a scheduler without CPU time can run a task twice.
FOR_GOOD = "killed"
#: Requests before the killed one: the start of the ownership deactivates the sync, too.
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
    """Return the fields of a resource, without those of its last change and its last run."""
    answer = httpx.get(f"{service.base_url}/{resource}", headers=service.headers)
    answer.raise_for_status()
    body: dict[str, Any] = answer.json()
    for moving in ("updated_at", "status"):
        body.pop(moving, None)
    body["source_streams"] = [
        {name: value for name, value in each.items() if name != "updated_at"}
        for each in body.get("source_streams") or ()
    ]
    return body


class Play:
    """Concurrent runs of the DAGs, with kills of workers, a cleared task and changes of schedules."""

    def __init__(self, airflow: AirflowComponents, service: LocalService, folder: Path) -> None:
        self.airflow, self.service, self.folder = airflow, service, folder
        everything = {*RESOURCES.values(), *OF_ALL, *(f"elt_streams/{end}" for end in ELT)}
        #: The fields of each resource before the DAG runs, and during the work.
        self.before = {each: shown(service, each) for each in everything}
        self.while_owned: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, str] = {}
        #: The final state of each DAG run, and its tasks. ``two`` has a second DAG run, ``another``.
        self.states: dict[str, str] = {}
        self.tasks: dict[str, dict[str, TaskInstance]] = {}
        self.killed: list[str] = []
        self._kills = dict.fromkeys(KILLED, 0)
        #: The result of the first task of ``two``, before and after it was cleared.
        self.notes: list[Any] = []

    def run(self) -> None:
        self._set_faults(KILLED)
        for end in RESOURCES:
            conf = {"gate": str(self.folder / end)} if end in GATED else {"fail": end == "failing"}
            self.runs[end] = self.airflow.trigger(f"schedules_{end}", conf)
        wait_for("all are killed", self._have_been_killed, limit=300, interval=0.3)
        self.service.faults([])
        wait_for("the work", self._is_working, limit=300, interval=0.5)
        for end in GATED:
            self.while_owned[end] = shown(self.service, RESOURCES[end]) | {
                "stream": shown(self.service, f"elt_streams/{end}")
            }
        self._clear_the_note()
        # A second run of the DAG while the first one owns the schedule.
        self.runs["another"] = self.airflow.trigger("schedules_two", {"gate": str(self.folder / "two")})
        self._ended("another")
        path = f"{self.service.base_url}/elt_syncs/changed"
        httpx.post(path, headers=self.service.headers, json={"sync_interval": "0 9 * * *"}).raise_for_status()
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
                    # Its teardown sends the same request. The faults of one time that have acted are over.
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

    def _clear_the_note(self) -> None:
        def note() -> Any:
            return self.airflow.api.xcom("schedules_two", self.runs["two"], "it_snapshot")

        def is_done() -> bool:
            one = self._task("two", "it_snapshot")
            return one.try_number > 1 and one.state in ("success", "failed")

        self.notes.append(note())
        self.airflow.api.clear("schedules_two", self.runs["two"], "it_snapshot")
        wait_for("the note is taken again", is_done, limit=120, interval=0.5)
        self.notes.append(note())

    def _ended(self, end: str) -> None:
        self.states[end] = self.airflow.wait(_dag(end), self.runs[end])
        self.tasks[end] = self.airflow.tasks(_dag(end), self.runs[end])


def _dag(end: str) -> str:
    return f"schedules_{'two' if end == 'another' else end}"


@pytest.fixture(scope="module")
def story(airflow: AirflowComponents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("schedules")
    with (
        LocalService(seed(folder), control=True) as service,
        connected(airflow, "datapipe_schedules", service),
    ):
        played = Play(airflow, service, folder)
        played.run()
        yield played


def restored(story: Play, end: str) -> bool:
    """Return True if a resource and its stream have their earlier fields."""
    resources = [RESOURCES[end], *([f"elt_streams/{end}"] if RESOURCES[end].startswith("elt") else [])]
    now = {each: shown(story.service, each) for each in resources}
    assert now == {each: story.before[each] for each in resources}, end
    return True


def test_everything_is_owned_run_and_restore(story: Play) -> None:
    assert story.states["all"] == "success", story.log("all")
    assert {each: shown(story.service, each) for each in OF_ALL} == {each: story.before[each] for each in OF_ALL}
    # Each could be run by the DAG while it was off its schedule.
    assert {one.state for one in story.tasks["all"].values()} == {"success"}
    assert len(story.service.journal_runs("all")) >= 4


def test_it_is_off_its_schedule_while_it_is_owned(story: Play) -> None:
    for end in GATED:
        owned = story.while_owned[end]
        assert owned.get("orchestration_workflow_id") is None
        assert owned["enabled"]
        for cron in (owned["sync_interval"], owned["stream"]["sync_interval"]):
            assert cron.endswith(" 29 2 *")


@pytest.mark.parametrize(
    ("end", "first", "work"), [("failing", "success", "failed"), ("killed", "failed", "upstream_failed")]
)
def test_it_is_put_back_where_a_task_fails(end: str, first: str, work: str, story: Play) -> None:
    assert story.states[end] == "failed", story.tasks[end]
    back = {"it_restore": "success", "it_is_restored": "success"}
    states = {task_id: one.state for task_id, one in story.tasks[end].items()}
    assert states == {"it_snapshot": "success", "it_pause": first, "work": work, **back}
    assert restored(story, end)


@pytest.mark.parametrize("end", ["killed_and_again", "back_killed"])
def test_a_retry_of_a_task_that_was_killed_goes_on(end: str, story: Play) -> None:
    assert story.states[end] == "success", story.log(end)
    assert story.tasks[end][KILLED[end][0]].try_number > 1
    assert restored(story, end)


def test_what_is_off_is_not_noted_as_what_was_there(story: Play) -> None:
    first, again = story.notes
    assert first == again
    assert first["original"]["sync_interval"] == "0 3 * * *"


def test_what_a_person_has_changed_is_not_overwritten(story: Play) -> None:
    assert story.states["changed"] == "failed"
    assert story.tasks["changed"]["it_restore"].state == "failed"
    # That alone has failed.
    assert story.tasks["changed"]["work"].state == "success"
    assert shown(story.service, "elt_syncs/changed")["sync_interval"] == "0 9 * * *"
    assert "sync_interval is '0 9 * * *' (before the pause '0 3 * * *'" in story.log("changed")


def test_a_second_owner_is_refused_and_changes_nothing(story: Play) -> None:
    assert story.states["another"] == "failed"
    assert story.tasks["another"]["it_snapshot"].state == "failed"
    assert {one.state for one in story.tasks["another"].values()} == {"failed", "upstream_failed"}
    assert "is paused already" in story.log("another")
    assert story.states["two"] == "success", story.log("two")
    assert restored(story, "two")


def test_all_of_it_can_be_cleared_and_run_again(story: Play, airflow: AirflowComponents) -> None:
    run_id = story.runs["failing"]
    # As a person does who has mended what failed: setups and teardown come with it, since Airflow 3.3 of themselves.
    around = older_than("3.3")
    with_it = {"include_upstream": around, "include_downstream": around}
    body = {"dag_run_id": run_id, "task_ids": ["work"], "dry_run": False, "only_failed": False} | with_it
    airflow.api.request("POST", "/dags/schedules_failing/clearTaskInstances", json=body)
    airflow.wait("schedules_failing", run_id)
    tries = {task_id: one.try_number for task_id, one in airflow.tasks("schedules_failing", run_id).items()}
    # A scheduler that is starved may try one once more. What is behind the teardown is not cleared with the work.
    assert all(number >= 2 for task_id, number in tries.items() if task_id != "it_is_restored"), tries
    assert restored(story, "failing")
