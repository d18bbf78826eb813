"""Tasks that are cleared, stopped, timed out or moved while they wait, on real components: the run continues."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents
from tests.system.conftest import connected
from tests.system.resources import FOR_EVER, Held, Journal, is_enabled, seed_of

#: Without task state, a retry of a cleared or killed task does not know its run.
pytestmark = since("3.3", "task state")
DAG = "stopping"
MOVED = ("moved_while_going", "moved_and_over")
AGAIN = ("again_deferred",)
CLEARED = ("cleared_deferred", "cleared_blocking")
EVICTED = "evicted_blocking"
CONTINUES = "continues, because the service cannot cancel runs"
SYNCS = [f"failed_{how}_{policy}" for how in ("deferred", "blocking") for policy in ("leave", "disable")]
MARKED = [*SYNCS, "success_deferred_disable"]
TIMED_OUT = [f"timeout_{how}_{policy}" for how in ("deferred", "blocking") for policy in ("leave", "disable")]
STREAMS = [*MOVED, EVICTED, *AGAIN, *CLEARED, *TIMED_OUT, *(each for each in MARKED if each not in SYNCS)]
#: Last log line of a triggerer about a trigger.
COMPLETED = "trigger completed"


class Scenario:
    """Actions on the waiting tasks of one DAG run."""

    def __init__(self, airflow: AirflowComponents, service: LocalService, stack: ExitStack) -> None:
        self._airflow = airflow
        self._service = service
        self._stack = stack
        self._held = Held(service, [EVICTED, *CLEARED, *MOVED])
        #: Tasks with a completed action, and the position in the journal before it.
        self._acted: dict[str, int] = {}
        #: Completed actions on the triggerers.
        self._done: list[str] = []
        service.runs({"resources": {each: {"minimum_duration": FOR_EVER} for each in (*MARKED, *TIMED_OUT)}})
        self.run_id = airflow.trigger(DAG)
        airflow.wait(DAG, self.run_id, watch=self._watch)
        self.tasks = airflow.tasks(DAG, self.run_id)
        self.journal = Journal(service)
        self.enabled = {each for each in STREAMS if is_enabled(service, "elt_syncs", each)}
        self.enabled |= {each for each in SYNCS if is_enabled(service, "reverse_etl_syncs", each)}

    def _watch(self, instances: list[TaskInstance]) -> None:
        tasks = {one.task_id: one for one in instances}
        journal = Journal(self._service)
        for task_id in (*MARKED, *CLEARED):
            if task_id not in self._acted and self._waits(tasks[task_id], journal):
                self._acted[task_id] = journal.last
                if task_id in CLEARED:
                    self._airflow.api.clear(DAG, self.run_id, task_id)
                else:
                    self._airflow.api.mark(DAG, self.run_id, task_id, task_id.partition("_")[0])
        for task_id in AGAIN:
            if task_id not in self._acted and tasks[task_id].state == "success":
                self._acted[task_id] = journal.last
                self._airflow.api.clear(DAG, self.run_id, task_id)
        for task_id in CLEARED:
            # On a busy machine Airflow may need a further try.
            again = tasks[task_id].try_number >= 2 and task_id in self._acted
            if again and self._waits(tasks[task_id], journal, after=self._acted[task_id]):
                self._held.release(task_id)
        self._evict(tasks[EVICTED], journal)
        self._move(tasks, journal)

    def _evict(self, task: TaskInstance, journal: Journal) -> None:
        """Send a task the signal of a worker that shuts down, and end its run after the log line about it."""
        if EVICTED not in self._acted and self._waits(task, journal):
            self._airflow.kill_task(task, signal.SIGTERM)
            self._acted[EVICTED] = journal.last
        elif CONTINUES in self._airflow.log_tail(DAG, self.run_id, task):
            self._held.release(EVICTED)

    def _waits(self, task: TaskInstance, journal: Journal, *, after: int = 0) -> bool:
        """Return True if a task waits, and has polled its run."""
        if task.state != ("deferred" if "deferred" in task.task_id or task.task_id in MOVED else "running"):
            return False
        if task.state == "deferred" and not self.trigger_logs(task.task_id):
            return False
        return journal.is_watched(task.task_id, after=after)

    def _move(self, tasks: dict[str, TaskInstance], journal: Journal) -> None:
        """Move the triggers of two tasks to another triggerer, which the first one notices late."""
        match self._done:
            case []:
                if all(self._waits(tasks[each], journal) for each in MOVED):
                    self._next("a second triggerer is started")
                    self._stack.enter_context(self._airflow.second_triggerer())
            case [_]:
                # The triggerer must have processed all stopped tasks before it is frozen.
                reported = all(
                    each in self._acted and COMPLETED in self.trigger_logs(each)[0]
                    for each in (*MARKED, *CLEARED)
                    if "deferred" in each
                )
                if reported and all(tasks[each].state != "deferred" for each in TIMED_OUT):
                    self._next("the first stands still, and one of the runs ends")
                    self._airflow.freeze("triggerer")
                    self._stack.callback(self._airflow.thaw, "triggerer")
                    self._held.release("moved_and_over")
            case [_, _]:
                moved = all(len(self.trigger_logs(each)) == 2 for each in MOVED)
                if moved and tasks["moved_and_over"].state == "success":
                    self._next("the first runs on")
                    self._airflow.thaw("triggerer")
            case [_, _, _]:
                if all(COMPLETED in self.trigger_logs(each)[0] for each in MOVED):
                    self._next("the other run ends")
                    self._held.release("moved_while_going")

    def _next(self, what: str) -> None:
        self._done.append(what)

    def log(self, task_id: str) -> str:
        return self._airflow.logs(DAG, self.run_id, self.tasks[task_id])

    def trigger_logs(self, task_id: str) -> list[str]:
        """Return the log of a task in each triggerer, the first triggerer first."""
        logs = self._airflow.task_logs(DAG, self.run_id, task_id)
        found = [path for path in logs if ".trigger." in path.name and path.name.startswith("attempt=1.")]
        # The name ends with the number of the triggerer's job: attempt=1.log.trigger.2.log
        return [path.read_text() for path in sorted(found, key=lambda path: int(path.name.split(".")[-2]))]


@pytest.fixture(scope="module")
def scenario(airflow: AirflowComponents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    seed = seed_of(STREAMS, tmp_path_factory.mktemp("stopping"), SYNCS)
    with (
        LocalService(seed, control=True) as service,
        connected(airflow, f"datapipe_{DAG}", service),
        ExitStack() as stack,
    ):
        yield Scenario(airflow, service, stack)


@pytest.mark.parametrize("task_id", AGAIN)
def test_cleared_successful_task_starts_another_run(task_id: str, scenario: Scenario) -> None:
    assert scenario.tasks[task_id].state == "success"
    assert scenario.tasks[task_id].try_number >= 2
    assert [run["status"] for run in scenario.journal.runs(task_id)] == ["COMPLETED"] * 2


@pytest.mark.parametrize("task_id", CLEARED)
def test_cleared_waiting_task_continues_its_run(task_id: str, scenario: Scenario) -> None:
    assert scenario.tasks[task_id].state == "success"
    assert scenario.tasks[task_id].try_number >= 2
    assert len(scenario.journal.runs(task_id)) == 1
    # The sync remains enabled, because the task was not stopped permanently.
    assert task_id in scenario.enabled


def test_a_worker_shutdown_logs_the_run_and_keeps_its_schedule(scenario: Scenario) -> None:
    (run,) = scenario.journal.runs(EVICTED)
    assert f"run {run['run_id']} {CONTINUES}" in scenario.log(EVICTED)
    assert EVICTED in scenario.enabled
    # The task got only the signal, so it could wait for the end of the run.
    assert scenario.tasks[EVICTED].state == "success"


@pytest.mark.parametrize("task_id", MARKED)
def test_task_stopped_by_a_user_logs_the_active_run(task_id: str, scenario: Scenario) -> None:
    (run,) = scenario.journal.runs(task_id)
    assert run["finished_at"] is None
    assert scenario.tasks[task_id].state == task_id.partition("_")[0]
    assert f"run {run['run_id']} {CONTINUES}" in scenario.log(task_id)
    assert (task_id in scenario.enabled) == task_id.endswith("leave")


@pytest.mark.parametrize("task_id", TIMED_OUT)
def test_timed_out_task_logs_the_active_run(task_id: str, scenario: Scenario) -> None:
    (run,) = scenario.journal.runs(task_id)
    assert run["finished_at"] is None
    assert scenario.tasks[task_id].state == "failed"
    reported = scenario.log(task_id)
    if "deferred" in task_id:
        assert "did not end in time" in reported
        assert run["run_id"] in reported
        assert "The run may still be active: check it in the service" in reported
    else:
        assert f"run {run['run_id']} {CONTINUES}" in reported
    assert (task_id in scenario.enabled) == task_id.endswith("leave")


@pytest.mark.parametrize("task_id", MOVED)
def test_moved_trigger_does_not_stop_the_run(task_id: str, scenario: Scenario) -> None:
    first, second = scenario.trigger_logs(task_id)
    # Airflow treats the move like an action of a user.
    assert "invoking on_kill" in first
    assert "invoking on_kill" not in second
    assert CONTINUES not in scenario.log(task_id)
    assert task_id in scenario.enabled
    assert scenario.tasks[task_id].state == "success"
    assert scenario.tasks[task_id].try_number == 1
    assert [run["status"] for run in scenario.journal.runs(task_id)] == ["COMPLETED"]
