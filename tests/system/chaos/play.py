"""Execution of cases on real components and the real service, and their results."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system import conftest
from tests.system.airflow_api import ENDED, TaskInstance
from tests.system.chaos.cases import (
    AT_A_TIME,
    FULL_REFRESH,
    LIMIT,
    LOST_RESPONSE_TIMEOUT,
    RETRY,
    SERVERS,
    SLICES,
    TIMEOUT,
    Case,
    seed_of,
)
from tests.system.components import AirflowComponents, readable

DAG_FILE = Path(__file__).parents[1] / "dags" / "chaos.py"
CONNECTION = "datapipe_chaos"
#: Limit of polls of a waiting task before its victims are killed, even if other tasks are not yet waiting.
MAX_POLLS_OF_WAITING = 16
#: Trigger of runs that follow a requested run: the slices of a load.
_FOLLOWS = "continuation"
#: Status of the response to a request that conflicts with the run of another client.
_CONFLICT = 409
#: Time limit in seconds for runs before a wave.
_BEFORE_LIMIT = 60


@dataclass
class CaseResult:
    """Result of a case."""

    case: Case
    state: str | None
    tries: int
    runs: list[int]
    struck: bool
    at_once: int
    faults: list[str] = field(default_factory=list)
    evidence: str = ""

    def __str__(self) -> str:
        case = self.case
        reported = (
            f"{case.task_id} ({case.trouble}{'; its run fails' if case.fails else ''}; runs take {case.duration} s)"
        )
        return "\n".join([reported, *(f"  * {fault}" for fault in self.faults), self.evidence])


def service_of(cases: Sequence[Case], folder: Path) -> LocalService:
    """Return the service with the resources of cases."""
    rows = "".join(f"{number},row {number}\n" for number in range(50))
    (folder / "rows.csv").write_text(f"id,name\n{rows}", encoding="utf-8")
    return LocalService(seed_of(cases, str(folder)), control=True)


class Wave:
    """Cases that run concurrently, as one DAG run."""

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
        #: Cases with a kill during the fault of a rule, by the index of the rule.
        self._deadly: dict[int, Case] = {}
        #: Times of the kills, by case.
        self._done: dict[Case, str] = {}
        self._polls_of_waiting: dict[tuple[str, ...], int] = {}
        #: Positions in the journals of requests and of runs.
        self._read = 0
        self._runs_before = 0
        self.kills = dict.fromkeys(("service", "triggerer", *SERVERS), 0)

    def play(self, limit: float) -> list[CaseResult]:
        """Run the cases, and return their results."""
        self._prepare()
        run_id = self._airflow.trigger(self._dag_id)
        self._airflow.wait(self._dag_id, run_id, limit=limit, watch=self._disturb)
        instances = {one.task_id: one for one in self._airflow.api.task_instances(self._dag_id, run_id)}
        self._requests = self._by_resource(self._service.journal_requests())
        self._runs = self._by_resource(self._service.journal_runs(after=self._runs_before))
        return [self._judge(case, run_id, instances[case.task_id]) for case in self._cases]

    @staticmethod
    def _by_resource(entries: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            found.setdefault(entry["resource_id"], []).append(entry)
        return found

    def _prepare(self) -> None:
        self._marks.mkdir()
        self._have_records_refused([case.task_id for case in self._cases if case.option == RETRY])
        rules: list[dict[str, Any]] = []
        behaviour: dict[str, Any] = {}
        for case in self._cases:
            if case.is_held:
                self._deadly[len(rules)] = case
            rules += case.rules()
            behaviour |= case.behaviour()
        self._read = max((entry["seq"] for entry in self._service.journal_requests()), default=0)
        self._runs_before = max((entry["seq"] for entry in self._service.journal_runs()), default=0)
        self._service.faults(rules)
        self._service.runs({"resources": behaviour})
        plans = self._dags / "chaos_plans"
        plans.mkdir(exist_ok=True)
        plan = {
            "dag_id": self._dag_id,
            "conn_id": CONNECTION,
            "marks": str(self._marks),
            "lost_response_timeout": LOST_RESPONSE_TIMEOUT,
            "tasks": [case.task() for case in self._cases],
        }
        (plans / f"{self._dag_id}.json").write_text(json.dumps(plan))
        # Airflow parses a DAG file at once only if the file itself is new.
        shutil.copy(DAG_FILE, self._dags)

    def _have_records_refused(self, syncs: Sequence[str]) -> None:
        """Run reverse ETL syncs once, so that there are failed records to retry."""
        for sync in syncs:
            self._service.request("POST", f"/reverse_etl_syncs/{sync}/request_run")

        def over() -> bool:
            ended = [run["resource_id"] for run in self._service.journal_runs() if run["finished_at"]]
            return set(syncs).issubset(ended)

        wait_for("the records are refused", over, limit=_BEFORE_LIMIT)

    def _disturb(self, instances: list[TaskInstance]) -> None:
        """Kill the victims of the cases whose tasks are in the right state."""
        if self._deadly:
            news = self._service.journal_requests(after=self._read)
            self._read = max((entry["seq"] for entry in news), default=self._read)
            met = {entry["fault"]["rule"] for entry in news if entry["fault"]}.intersection(self._deadly)
            self._kill([self._deadly.pop(position) for position in met])
        states = {one.task_id: one.state for one in instances}
        left = [case for case in self._cases if case.victims and not case.is_held and case not in self._done]
        for victims in {case.victims for case in left}:
            alike = [case for case in left if case.victims == victims]
            waiting = [case for case in alike if self._is_waiting(case, states[case.task_id])]
            schedule = self._polls_of_waiting.get(victims, 0) + bool(waiting)
            # One kill for all cases, if they do not wait for each other.
            all_there = all(case in waiting or states[case.task_id] in ENDED for case in alike)
            kill = waiting and (all_there or schedule > MAX_POLLS_OF_WAITING)
            self._polls_of_waiting[victims] = 0 if kill else schedule
            if kill:
                self._kill(waiting)

    def _is_waiting(self, case: Case, state: str | None) -> bool:
        if case.deferrable:
            return state == "deferred"
        last = self._service.journal_runs(case.resources[-1], after=self._runs_before)
        return state == "running" and any(run["finished_at"] is None for run in last)

    def _kill(self, cases: Sequence[Case]) -> None:
        """Kill and restart the victims of cases, one after the other."""
        self._done |= dict.fromkeys(cases, datetime.now(UTC).isoformat())
        # Start the scheduler first. It waits until its predecessor counts as dead, and the API server is ready by then.
        for victim in sorted({victim for case in cases for victim in case.victims}, reverse=True):
            self.kills[victim] += 1
            if victim == "service":
                self._service.kill()
                self._service.start()
            else:
                self._airflow.kill(victim)
                self._airflow.restart(victim)

    def _judge(self, case: Case, run_id: str, task: TaskInstance) -> CaseResult:
        runs = {resource: self._own_runs(case, resource) for resource in case.resources}
        starts = {resource: [run for run in each if run["trigger"] != _FOLLOWS] for resource, each in runs.items()}
        at_once = _most_at_once(list(itertools.chain(*starts.values())))
        counts = [len(each) for each in starts.values()]
        case_result = CaseResult(case, task.state, task.try_number, counts, self._all_struck(case), at_once)
        wanted = "failed" if case.fails else "success"
        if task.state != wanted:
            case_result.faults.append(f"the task is {task.state}, not {wanted}")
        if case.option == LIMIT and at_once > AT_A_TIME:
            case_result.faults.append(f"{at_once} concurrent runs, more than {AT_A_TIME}")
        result = self._airflow.api.xcom(self._dag_id, run_id, case.task_id)
        for resource, each in runs.items():
            case_result.faults += self._faults_of(case_result, resource, each, result)
            case_result.faults += self._left_out(case, resource, each)
        if case_result.faults:
            case_result.evidence = self._evidence(case, run_id, runs)
        return case_result

    def _own_runs(self, case: Case, resource: str) -> list[dict[str, Any]]:
        """Return the runs that a task has requested."""
        runs = self._runs.get(resource, [])
        # The run of the other client comes first.
        rivals = min((run["request"] for run in runs), default=None) if case.rival else None
        return [run for run in runs if run["request"] != rivals]

    @staticmethod
    def _faults_of(case_result: CaseResult, resource: str, runs: list[dict[str, Any]], result: Any) -> Iterator[str]:
        case = case_result.case
        started = [run for run in runs if run["trigger"] != _FOLLOWS]
        ends = ["failed" if case.fails and resource == case.struck else "completed"]
        if case.first_fails and resource == case.resources[0]:
            ends.insert(0, "failed")
        elif case.fails and resource == case.struck and _most_at_once(started) <= 1:
            # If Airflow itself has lost a try, the retry correctly starts another run after a failed one.
            ends *= max(1, min(len(started), case_result.tries - len(case.kills)))
        if len(started) != len(ends):
            yield f"{resource} has {len(started)} runs"
        slices = SLICES if case.in_slices else 0
        if len(runs) - len(started) != slices * len(started):
            yield f"{resource} has {len(runs) - len(started)} runs of slices"
        for run, end in zip(runs, ["chunk_completed"] * slices + ends, strict=False):
            if run["finished_at"] is None or run["status"].lower() != end:
                yield f"run {run['run_id']} of {resource} is {run['status']}, not {end}"
        reported = result or {}
        if case.kind == "elt_sync":
            reported = {one["resource_id"]: one for one in reported.get("streams", {}).values()}.get(resource, {})
        outcome = "failed" if ends[-1] == "failed" else "partial" if case.option == RETRY else "succeeded"
        if reported.get("outcome") != outcome:
            yield f"the task reported for {resource}: {reported.get('outcome')}, not {outcome}"
        if runs and reported.get("run_id") != runs[-1]["run_id"]:
            yield f"the task reported the run {reported.get('run_id')} of {resource}, not {runs[-1]['run_id']}"

    def _left_out(self, case: Case, resource: str, runs: list[dict[str, Any]]) -> Iterator[str]:
        """Return True if the run of a resource did not perform its option."""
        if case.option == FULL_REFRESH:
            status = self._service.request("GET", f"/elt_syncs/{case.sync_id}/status")
            name = f"rows_{case.resources.index(resource)}"
            (latest,) = [each["latest_sync"] for each in status["source_streams"] if each["name"] == name]
            if latest["full_sync_trigger"] != "USER":
                yield f"the run of {resource} is not the requested full refresh: {latest['full_sync_trigger']}"
        elif case.option == RETRY and runs and not case.fails:
            run = self._service.request("GET", f"/reverse_etl_sync_runs/{runs[-1]['run_id']}")
            # An earlier run has sent the record, and it has not changed since.
            if run["failed_rows"] != 1:
                yield f"the run of {resource} did not send the failed record again"

    def _all_struck(self, case: Case) -> bool:
        marks = all((self._marks / f"{case.task_id}.{kill}").exists() for kill in case.kills)
        if case.rival:
            marks = marks and any(entry["status"] == _CONFLICT for entry in self._requests.get(case.struck, []))
        if case.fault is None:
            return marks
        met = [entry for entry in self._requests.get(case.struck, []) if entry["fault"]]
        if not case.victims:
            return marks and bool(met)
        in_time = case in self._done
        if in_time and case.is_held and "service" not in case.victims:
            # Servers take long to restart, and no other program is killed meanwhile.
            in_time = any((entry["answered_at"] or "~") > self._done[case] for entry in met)
        return marks and in_time

    def _messages_of_scheduler(self, case: Case) -> Iterator[str]:
        """Return the messages of the scheduler about the ends of the tries of a task."""
        for log in self._airflow.log_files():
            if log.name == "scheduler.log":
                for line in log.read_text(errors="replace").splitlines():
                    if case.task_id in line and ("error" in line.lower() or "Setting task" in line):
                        yield f"    {line}"

    def _evidence(self, case: Case, run_id: str, runs: dict[str, list[dict[str, Any]]]) -> str:
        lines = []
        for resource, each in runs.items():
            lines += [f"  runs of {resource}:", *(f"    {run}" for run in each), "  requests:"]
            lines += [f"    {request}" for request in self._requests.get(resource, [])]
        for log in self._airflow.task_logs(self._dag_id, run_id, case.task_id):
            logged = log.read_text(errors="replace").splitlines()
            lines += [f"  {log.name}:", *(f"    {_stamped(line)}" for line in logged)]
        return "\n".join([*lines, "  scheduler.log:", *self._messages_of_scheduler(case)])


def _most_at_once(runs: Sequence[dict[str, Any]]) -> int:
    """Return the largest number of concurrent runs, from their requests to their ends."""
    # At equal times, ends come before starts, because the next run starts when the end is known.
    changes = sorted(
        [(run["requested_at"], 1) for run in runs] + [(run["finished_at"], -1) for run in runs if run["finished_at"]]
    )
    return max(itertools.accumulate(change for _, change in changes), default=0)


def _stamped(line: str) -> str:
    try:
        return f"{json.loads(line).get('timestamp', '')} {readable(line)}"
    except ValueError:
        return line


def connected(airflow: AirflowComponents, service: LocalService) -> AbstractContextManager[None]:
    """Add a connection to the service to Airflow."""
    return conftest.connected(airflow, CONNECTION, service, poll_interval=1, timeout=TIMEOUT, retry_budget=10)
