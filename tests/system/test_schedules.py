"""Schedules that DAGs own, on real components: each field is restored after any end of the DAG run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.airflow_versions import older_than
from tests.support.local_service import LocalService
from tests.support.process_table import tree_of
from tests.support.processes import wait_for
from tests.system.components import AirflowComponents
from tests.system.conftest import connected

ELT = [
    "all",
    "failing",
    "note_killed",
    "killed_before",
    "killed_after",
    "killed_and_again",
    "cleared",
    "changed",
    "two",
]
REVERSE = ["all", "inactive_killed", "back_killed"]
#: Killed workers: the task, and the request during which its worker is killed.
KILLED = {
    "note_killed": ("it_note", "GET", "/elt_syncs/note_killed"),
    "killed_before": ("it_take_off", "POST", "/elt_syncs/killed_before"),
    "killed_after": ("it_take_off", "POST", "/elt_syncs/killed_after"),
    "killed_and_again": ("it_take_off", "DELETE", "/elt_syncs/killed_and_again/orchestration"),
    "inactive_killed": ("it_take_off", "POST", "/reverse_etl_syncs/inactive_killed/deactivate"),
    "back_killed": ("it_put_back", "POST", "/reverse_etl_syncs/back_killed/deactivate"),
}
GATED = ("cleared", "changed", "two")
#: Tasks without retries, killed in each try: a scheduler without CPU time can run a task twice.
FOR_GOOD = ("killed_before", "killed_after", "inactive_killed")
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
    key = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}
    return {
        "connections": [
            *(
                {"id": f"rows_{end}", "integration_id": "files", "label": end, "settings": {"path": str(folder)}}
                for end in ELT
            ),
            {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": f"{folder}/out"}},
        ],
        "orchestrations": [{"id": "all", "name": "all", "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [
            {
                "id": end,
                "connection_id": f"rows_{end}",
                "destination_schema_name": end,
                "sync_interval": "0 3 * * *",
                "source_streams": [{"id": end, "name": "rows", "file": "rows.csv", "sync_interval": "0 5 * * *"}],
                **attached,
            }
            for end in ELT
        ],
        "transforms": [
            {
                "id": "all",
                "name": "all",
                "folder_path": "schedules",
                "materialization": "table",
                "publish": True,
                "sql_template": "SELECT 1 AS id",
                "cron_expression": "0 4 * * *",
                **attached,
            }
        ],
        "reverse_etl_syncs": [
            {
                "id": end,
                "source_id": "all",
                "destination_connection_id": "out",
                "object_type_id": end,
                "sync_interval": "0 6 * * *",
                "enabled": True,
                "operation": {"mode": "upsert", "mappings": [key]},
                **({} if end == "back_killed" else attached),
            }
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


@dataclass
class Story:
    """Results of the DAG runs."""

    service: LocalService
    before: dict[str, dict[str, Any]]
    while_owned: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, dict[str, tuple[str | None, int]]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)


class Play:
    """Concurrent runs of the DAGs, with kills of workers, cleared tasks and changes of schedules."""

    def __init__(self, airflow: AirflowComponents, service: LocalService, folder: Path) -> None:
        self.airflow, self.service, self.folder = airflow, service, folder
        everything = {*RESOURCES.values(), *OF_ALL, *(f"elt_streams/{end}" for end in ELT)}
        self.story = Story(service, {each: shown(service, each) for each in everything})

    def run(self) -> Story:
        # Those that are killed before it are not carried out; a request that is only delayed would be.
        service, story = self.service, self.story
        self._set_faults(KILLED)
        for end in RESOURCES:
            conf = {"gate": str(self.folder / end)} if end in GATED else {"fail": end == "failing"}
            story.runs[end] = self.airflow.trigger(f"schedules_{end}", conf, limit=300)
        self._kill()
        service.faults([])
        for end in GATED:
            self._wait_for_work(end)
            story.while_owned[end] = shown(service, RESOURCES[end]) | {"stream": shown(service, f"elt_streams/{end}")}
        self._clear_the_note()
        self._own_it_too()
        self._change_it()
        for end in GATED:
            (self.folder / end).touch()
        for end, run_id in story.runs.items():
            self._ended(end, "two" if end == "another" else end, run_id)
        return story

    def _tasks(self, end: str) -> dict[str, Any]:
        return {one.task_id: one for one in self.airflow.api.task_instances(f"schedules_{end}", self.story.runs[end])}

    def _kill(self) -> None:
        """Kill each worker as soon as its request arrives. Their order varies, as there are more tasks than slots."""
        seen: dict[str, int] = dict.fromkeys(KILLED, 0)
        left = list(KILLED)

        def is_over() -> bool:
            for end in list(left):
                task = self._tasks(end)[KILLED[end][0]]
                if seen[end] and (end not in FOR_GOOD or task.state == "failed"):
                    left.remove(end)
                    self.story.killed.append(end)
                    if end in FOR_GOOD:
                        # Its teardown sends the same request. The faults of one time that have acted are over.
                        self._set_faults([each for each in left if each in FOR_GOOD or not self._met(each)])
                elif task.state == "running" and (arrived := self._arrived(end)) > seen[end]:
                    assert task.pid in tree_of(self.airflow.pid("scheduler"))
                    os.kill(task.pid, signal.SIGKILL)
                    seen[end] = arrived
            return not left

        wait_for("all are killed", is_over, limit=300, interval=0.2)

    def _set_faults(self, ends: Iterable[str]) -> None:
        """Delay the requests in which workers are killed."""
        self.service.faults(
            [
                {
                    "method": method,
                    "path": path,
                    "delay": SECONDS,
                    "skip": max(0, SKIPPED.get(end, 0) - len(self._requests(end))),
                    "times": "always" if end in FOR_GOOD else 1,
                    **({"drop": True, "when": "before"} if end == "killed_before" else {"when": "after"}),
                }
                for end in ends
                for _, method, path in [KILLED[end]]
            ]
        )

    def _met(self, end: str) -> bool:
        """Return True if a request of a task was delayed."""
        return any(each["fault"] for each in self._requests(end))

    def _requests(self, end: str) -> list[Any]:
        """Return the requests so far in which a worker can be killed."""
        _, method, path = KILLED[end]
        return [each for each in self.service.journal_requests(path) if each["method"] == method]

    def _arrived(self, end: str) -> int:
        """Return the number of delayed requests of a task."""
        _, method, path = KILLED[end]
        # What is not carried out is never committed, and reading changes nothing.
        needs_commit = method != "GET" and end != "killed_before"
        return sum(
            each["method"] == method and bool(each["fault"]) and (each["committed"] or not needs_commit)
            for each in self.service.journal_requests(path)
        )

    def _wait_for_work(self, end: str) -> None:
        wait_for(f"{end}: work", lambda: self._tasks(end)["work"].state == "running", limit=240, interval=0.3)

    def _clear_the_note(self) -> None:
        dag_id, run_id, notes = "schedules_cleared", self.story.runs["cleared"], self.story.notes
        notes.append(self.airflow.api.xcom(dag_id, run_id, "it_note"))
        self.airflow.api.clear(dag_id, run_id, "it_note")

        def is_done() -> bool:
            one = self._tasks("cleared")["it_note"]
            return one.try_number > 1 and one.state in ("success", "failed")

        wait_for("the note is taken again", is_done, limit=120, interval=0.3)
        notes.append(self.airflow.api.xcom(dag_id, run_id, "it_note"))

    def _own_it_too(self) -> None:
        """Start a second run of the DAG while the first one owns the schedule."""
        self.story.runs["another"] = self.airflow.trigger("schedules_two", {"gate": str(self.folder / "two")})
        self._ended("another", "two", self.story.runs["another"])

    def _change_it(self) -> None:
        body = {"sync_interval": "0 9 * * *"}
        path = f"{self.service.base_url}/elt_syncs/changed"
        httpx.post(path, headers=self.service.headers, json=body).raise_for_status()

    def _ended(self, end: str, dag: str, run_id: str) -> None:
        dag_id = f"schedules_{dag}"
        self.story.states[end] = self.airflow.wait(dag_id, run_id, limit=300)
        instances = self.airflow.api.task_instances(dag_id, run_id)
        self.story.tasks[end] = {one.task_id: (one.state, one.try_number) for one in instances}
        self.story.logs[end] = "\n".join(
            self.airflow.api.log(dag_id, run_id, one.task_id, one.try_number)
            for one in instances
            if one.state == "failed"
        )


@pytest.fixture(scope="module")
def story(airflow: AirflowComponents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("schedules")
    with ExitStack() as stack:
        service = stack.enter_context(LocalService(seed(folder), control=True))
        stack.enter_context(connected(airflow, "datapipe_schedules", service))
        yield Play(airflow, service, folder).run()


def restored(story: Story, end: str) -> bool:
    """Return True if a resource and its stream have their earlier fields."""
    resources = [RESOURCES[end], *([f"elt_streams/{end}"] if RESOURCES[end].startswith("elt") else [])]
    now = {each: shown(story.service, each) for each in resources}
    assert now == {each: story.before[each] for each in resources}, end
    return True


def test_everything_is_owned_run_and_put_back(story: Story) -> None:
    assert story.states["all"] == "success", story.logs["all"]
    assert {each: shown(story.service, each) for each in OF_ALL} == {each: story.before[each] for each in OF_ALL}
    # Each could be run by the DAG while it was off its schedule.
    assert {state for state, _ in story.tasks["all"].values()} == {"success"}
    assert len(story.service.journal_runs("all")) >= 4


def test_it_is_off_its_schedule_while_it_is_owned(story: Story) -> None:
    for end in GATED:
        owned = story.while_owned[end]
        assert owned.get("orchestration_workflow_id") is None
        assert owned["enabled"]
        for cron in (owned["sync_interval"], owned["stream"]["sync_interval"]):
            assert cron.endswith(" 29 2 *")


@pytest.mark.parametrize("end", ["failing", "killed_before", "killed_after", "inactive_killed"])
def test_it_is_put_back_where_a_task_fails(end: str, story: Story) -> None:
    assert story.states[end] == "failed", story.tasks[end]
    tasks = {task_id: state for task_id, (state, _) in story.tasks[end].items()}
    first = "success" if end == "failing" else "failed"
    work = "failed" if end == "failing" else "upstream_failed"
    back = {"it_put_back": "success", "it_is_back": "success"}
    assert tasks == {"it_note": "success", "it_take_off": first, "work": work, **back}
    assert restored(story, end)


@pytest.mark.parametrize(
    ("end", "killed"),
    [("note_killed", "it_note"), ("killed_and_again", "it_take_off"), ("back_killed", "it_put_back")],
)
def test_a_retry_of_a_task_that_was_killed_goes_on(end: str, killed: str, story: Story) -> None:
    assert story.states[end] == "success", story.logs[end]
    tries = {task_id: number for task_id, (_, number) in story.tasks[end].items()}
    assert tries[killed] > 1
    assert restored(story, end)


def test_all_kills_were_made(story: Story) -> None:
    assert set(story.killed) == set(KILLED)


def test_what_is_off_is_not_noted_as_what_was_there(story: Story) -> None:
    first, again = story.notes
    assert first == again
    assert first["original"]["sync_interval"] == "0 3 * * *"
    assert story.states["cleared"] == "success", story.logs["cleared"]
    assert restored(story, "cleared")


def test_what_a_person_has_changed_is_not_overwritten(story: Story) -> None:
    assert story.states["changed"] == "failed"
    assert story.tasks["changed"]["it_put_back"][0] == "failed"
    # That alone has failed.
    assert story.tasks["changed"]["work"][0] == "success"
    now = shown(story.service, "elt_syncs/changed")
    assert now["sync_interval"] == "0 9 * * *"
    assert "sync_interval is '0 9 * * *', was '0 3 * * *'" in story.logs["changed"]


def test_a_second_owner_is_refused_and_changes_nothing(story: Story) -> None:
    assert story.states["another"] == "failed"
    assert story.tasks["another"]["it_note"][0] == "failed"
    assert {state for state, _ in story.tasks["another"].values()} == {"failed", "upstream_failed"}
    assert "is off its schedule already" in story.logs["another"]
    assert story.states["two"] == "success", story.logs["two"]
    assert restored(story, "two")


def test_all_of_it_can_be_cleared_and_run_again(story: Story, airflow: AirflowComponents) -> None:
    run_id = story.runs["failing"]
    # As a person does who has mended what failed: setups and teardown come with it, since Airflow 3.3 of themselves.
    around = older_than("3.3")
    with_it = {"include_upstream": around, "include_downstream": around}
    body = {"dag_run_id": run_id, "task_ids": ["work"], "dry_run": False, "only_failed": False} | with_it
    airflow.api.request("POST", "/dags/schedules_failing/clearTaskInstances", json=body)
    airflow.wait("schedules_failing", run_id, limit=120)
    tries = {one.task_id: one.try_number for one in airflow.api.task_instances("schedules_failing", run_id)}
    # A scheduler that is starved may try one once more. What is behind the teardown is not cleared with the work.
    assert all(number >= 2 for task_id, number in tries.items() if task_id != "it_is_back"), tries
    assert restored(story, "failing")
