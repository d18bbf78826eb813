"""Plays cases on real components and the real service, and says what became of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.local_service import LocalService
from tests.system.airflow_api import ENDED
from tests.system.chaos.cases import SETTLE, SLICES, TIMEOUT, TRIGGERER, Case, seed_of
from tests.system.components import AirflowComponents, readable

if TYPE_CHECKING:
    from tests.system.airflow_api import TaskInstance

DAG_FILE = Path(__file__).parents[1] / "dags" / "chaos.py"
CONNECTION = "datapipe_chaos"
#: How many looks at a task that waits for the triggerer's death are taken before that is killed without further ado.
PATIENCE = 6
#: The trigger of runs that were not asked for, but follow from those that were: the slices of a load.
_FOLLOWS = "continuation"


@dataclass
class Verdict:
    """
    What became of a case.

    :param case: The case.
    :param state: The state of its task in the end.
    :param tries: How many tries it took.
    :param runs: How many runs of each of its resources there were.
    :param struck: Whether all that was to go wrong did.
    :param faults: What is not as it should be.
    :param evidence: What the task has logged, and the service's journal; for those only that have faults.
    """

    case: Case
    state: str | None
    tries: int
    runs: list[int]
    struck: bool
    faults: list[str] = field(default_factory=list)
    evidence: str = ""

    def __str__(self) -> str:
        case = self.case
        told = f"{case.task_id} ({case.trouble}{'; its run fails' if case.fails else ''}; runs take {case.duration} s)"
        return "\n".join([told, *(f"  * {fault}" for fault in self.faults), self.evidence])


def service_of(cases: Sequence[Case], folder: Path) -> LocalService:
    """
    Make the service that knows the resources of cases.

    :param cases: The cases.
    :param folder: Where there is room for a source and for what is exported.
    """
    rows = "".join(f"{number},row {number}\n" for number in range(50))
    (folder / "rows.csv").write_text(f"id,name\n{rows}", encoding="utf-8")
    return LocalService(seed_of(cases, str(folder)), control=True)


class Wave:
    """
    Cases that are played side by side, as one DAG run.

    :param name: Names its DAG.
    :param cases: The cases.
    :param airflow: Real components.
    :param service: The service that knows their resources.
    :param dags: The folder of the DAG files.
    """

    def __init__(
        self, name: str, cases: Sequence[Case], airflow: AirflowComponents, service: LocalService, dags: Path
    ) -> None:
        self._dag_id = f"chaos_{name}"
        self._cases = cases
        self._airflow = airflow
        self._service = service
        self._dags = dags
        self._marks = service.folder / f"marks_{name}"
        self._requests: dict[str, list[dict[str, Any]]] = {}
        self._runs: dict[str, list[dict[str, Any]]] = {}
        #: By the position of a rule: the cases in which the service is to be killed while it acts.
        self._deadly: dict[int, Case] = {}
        #: The cases for which something was killed.
        self._done: set[Case] = set()
        self._looks_at_waiting = 0
        #: Up to where the journal of requests was read.
        self._read = 0
        self.kills = {"service": 0, "triggerer": 0}

    def play(self, limit: float) -> list[Verdict]:
        """
        Play the cases, and tell what became of them.

        :param limit: Seconds that they may take.
        """
        self._prepare()
        run_id = self._airflow.trigger(self._dag_id)
        self._airflow.wait(self._dag_id, run_id, limit=limit, watch=self._disturb)
        instances = {one.task_id: one for one in self._airflow.api.task_instances(self._dag_id, run_id)}
        self._requests = self._by_resource(self._service.journal_requests())
        self._runs = self._by_resource(self._service.journal_runs())
        return [self._judge(case, run_id, instances[case.task_id]) for case in self._cases]

    @staticmethod
    def _by_resource(entries: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            found.setdefault(entry["resource_id"], []).append(entry)
        return found

    def _prepare(self) -> None:
        self._marks.mkdir()
        rules: list[dict[str, Any]] = []
        behaviour: dict[str, Any] = {}
        for case in self._cases:
            if (case.fault or "").startswith("service killed"):
                self._deadly[len(rules)] = case
            rules += case.rules()
            behaviour |= case.behaviour()
        self._read = max((entry["seq"] for entry in self._service.journal_requests()), default=0)
        self._service.faults(rules)
        self._service.runs({"resources": behaviour})
        plans = self._dags / "chaos_plans"
        plans.mkdir(exist_ok=True)
        plan = {
            "dag_id": self._dag_id,
            "conn_id": CONNECTION,
            "marks": str(self._marks),
            "settle": SETTLE,
            "tasks": [case.task() for case in self._cases],
        }
        (plans / f"{self._dag_id}.json").write_text(json.dumps(plan))
        # A DAG file is read again at once only if it is new itself.
        shutil.copy(DAG_FILE, self._dags)

    def _disturb(self, instances: list[TaskInstance]) -> None:
        """Kill what is to be killed, once those are there whom it is to disturb."""
        if self._deadly:
            news = self._service.journal_requests(after=self._read)
            self._read = max((entry["seq"] for entry in news), default=self._read)
            met = {entry["fault"]["rule"] for entry in news if entry["fault"]}.intersection(self._deadly)
            if met:
                self._service.kill()
                self._service.start()
                self.kills["service"] += 1
                self._done |= {self._deadly.pop(position) for position in met}
        states = {one.task_id: one.state for one in instances}
        left = [case for case in self._cases if case.fault == TRIGGERER and case not in self._done]
        waiting = {case for case in left if states[case.task_id] == "deferred"}
        self._looks_at_waiting += bool(waiting)
        # One kill for all of them, if they do not keep each other waiting.
        all_there = all(states[case.task_id] in ("deferred", *ENDED) for case in left)
        if waiting and (all_there or self._looks_at_waiting > PATIENCE):
            self._done |= waiting
            self._looks_at_waiting = 0
            self._airflow.kill("triggerer")
            self._airflow.restart("triggerer")
            self.kills["triggerer"] += 1

    def _judge(self, case: Case, run_id: str, task: TaskInstance) -> Verdict:
        runs = {resource: self._runs.get(resource, []) for resource in case.resources}
        starts = [[run for run in each if run["trigger"] != _FOLLOWS] for each in runs.values()]
        verdict = Verdict(case, task.state, task.try_number, [len(each) for each in starts], self._all_struck(case))
        wanted = "failed" if case.fails else "success"
        if task.state != wanted:
            verdict.faults.append(f"the task is {task.state}, not {wanted}")
        result = self._airflow.api.xcom(self._dag_id, run_id, case.task_id)
        for resource, each in runs.items():
            verdict.faults += self._faults_of(case, resource, each, result)
        if verdict.faults:
            verdict.evidence = self._evidence(case, run_id, runs)
        return verdict

    @staticmethod
    def _faults_of(case: Case, resource: str, runs: list[dict[str, Any]], result: Any) -> Iterator[str]:
        started = [run for run in runs if run["trigger"] != _FOLLOWS]
        if len(started) != 1:
            yield f"{resource} has {len(started)} runs"
        wanted = "failed" if case.fails and resource == case.struck else "completed"
        slices = SLICES if case.in_slices else 0
        if len(runs) - len(started) != slices * len(started):
            yield f"{resource} has {len(runs) - len(started)} runs of slices"
        for position, run in enumerate(runs):
            end = "chunk_completed" if position < slices else wanted
            if run["finished_at"] is None or run["status"].lower() != end:
                yield f"run {run['run_id']} of {resource} is {run['status']}, not {end}"
        told = result or {}
        if case.kind == "elt_sync":
            told = {one["resource_id"]: one for one in told.get("streams", {}).values()}.get(resource, {})
        outcome = "failed" if wanted == "failed" else "succeeded"
        if told.get("outcome") != outcome:
            yield f"the task told of {resource}: {told.get('outcome')}, not {outcome}"
        if runs and told.get("run_id") != runs[-1]["run_id"]:
            yield f"the task told of the run {told.get('run_id')} of {resource}, not {runs[-1]['run_id']}"

    def _all_struck(self, case: Case) -> bool:
        marks = all((self._marks / f"{case.task_id}.{kill}").exists() for kill in case.kills)
        if case.fault is None:
            return marks
        if case.fault == TRIGGERER or case.fault.startswith("service killed"):
            return marks and case in self._done
        met = any(entry["fault"] for entry in self._requests.get(case.struck, []))
        return marks and met

    def _evidence(self, case: Case, run_id: str, runs: dict[str, list[dict[str, Any]]]) -> str:
        lines = []
        for resource, each in runs.items():
            lines += [f"  runs of {resource}:", *(f"    {run}" for run in each), "  requests:"]
            lines += [f"    {request}" for request in self._requests.get(resource, [])]
        for log in self._airflow.task_logs(self._dag_id, run_id, case.task_id):
            logged = log.read_text(errors="replace").splitlines()
            lines += [f"  {log.name}:", *(f"    {_stamped(line)}" for line in logged)]
        return "\n".join(lines)


def _stamped(line: str) -> str:
    try:
        return f"{json.loads(line).get('timestamp', '')} {readable(line)}"
    except ValueError:
        return line


@contextmanager
def connected(airflow: AirflowComponents, service: LocalService) -> Iterator[None]:
    """
    Give Airflow a connection to the service.

    :param airflow: Real components.
    :param service: The service.
    """
    body = {
        "connection_id": CONNECTION,
        "conn_type": "datapipe",
        "host": service.base_url,
        "password": service.api_key,
        "extra": json.dumps({"poll_interval": 1, "timeout": TIMEOUT, "retry_budget": 10}),
    }
    airflow.api.request("POST", "/connections", json=body)
    try:
        yield
    finally:
        airflow.api.request("DELETE", f"/connections/{CONNECTION}")
