"""
Verdicts of the chaos test: the outcome of each task, compared with the service's own record of runs.

Definition of a correct outcome. A resource belongs to one task. Its *own runs* are those that a request has started;
the run of a rival is another client's.

For each resource, whatever the state of its task:

* An own run follows another own run only if that one failed. So there is at most one successful own run, and at most
  as many failed ones as the case plans (none or one). Any other run is a duplicate.

``success``:

* Each resource has a successful run, which ended before the task: an own run, or the run of a rival if
  ``if_running`` is ``attach``. With ``wait``, it is an own run that started after the rival's had ended.
* The result of the task names this run, with the outcome ``succeeded``.
* A sensor names the run that the service had when its task started, and its resource has no own run.

``failed`` is correct only if all tries were used, and each of them has one of these causes:

* Its run failed as planned (at most one try).
* Airflow lost the try: the harness killed its process; or the audit log has an event of the scheduler (``state
  mismatch``, ``heartbeat timeout``, ``stuck in queued tries exceeded``); or its log ends without an error, because its
  supervisor was killed; or the error is one of Airflow's own client, which could not reach the API server. Airflow
  then also reports that the connection, which exists, "isn't defined" (``AirflowNotFoundException``).

So a task without retries can fail if its worker was killed, with no run or one run. An error of the provider, such as
``RunConflictError``, is never a correct cause. Each other state is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.support.hostile import Run
from tests.system.distributed.cases import Case

#: Exceptions of Airflow's task runner and its client, if the API server or the database cannot be reached.
AIRFLOW_ERRORS = frozenset(
    {
        "AirflowNotFoundException",
        "AirflowRuntimeError",
        "ServerResponseError",
        "HTTPStatusError",
        "ConnectError",
        "ConnectTimeout",
        "ReadError",
        "ReadTimeout",
        "RemoteProtocolError",
        "EOFError",
        "BrokenPipeError",
        "ConnectionResetError",
    }
)
PLANNED_FAILURE = "RunFailedError"
#: Beginning of the causes for which Airflow has lost a try, and the cause of a planned failure.
LOST, RUN_FAILED = "lost", "run failed"


@dataclass(frozen=True)
class Observed:
    """
    Task after the end of its DAG run.

    :param state: the state of the task instance.
    :param try_number: the number of its tries.
    :param end_date: the end of the last try.
    :param result: the result of the task; None without one.
    :param causes: the cause of the end of each try that is known to have failed, by its number: one that begins with
        :data:`LOST`, :data:`RUN_FAILED`, or an unexpected exception.
    :param runs: the runs of each resource, oldest first. Runs from before the test are left out.
    """

    state: str | None
    try_number: int
    end_date: datetime | None
    result: Any
    causes: Mapping[int, str]
    runs: Mapping[str, Sequence[Run]]


@dataclass
class Verdict:
    """Result of a case."""

    case: Case
    observed: Observed
    faults: list[str] = field(default_factory=list)
    evidence: str = ""

    @property
    def own_runs(self) -> int:
        return sum(run.request is not None for runs in self.observed.runs.values() for run in runs)

    @property
    def is_duplicate(self) -> bool:
        return any("duplicate" in fault for fault in self.faults)

    def __str__(self) -> str:
        seen = self.observed
        lines = [
            f"{self.case.task_id} is {seen.state} (try {seen.try_number}, causes {dict(seen.causes)}): {self.case}"
        ]
        lines += [f"  * {fault}" for fault in self.faults]
        for resource, runs in seen.runs.items():
            lines += [f"  run {run.number} of {resource}: {_described(run)}" for run in runs]
        return "\n".join([*lines, f"  result: {json.dumps(seen.result, default=str)[:600]}", self.evidence])


def judge(case: Case, observed: Observed) -> Verdict:
    """Compare a task with the runs of its resources."""
    verdict = Verdict(case, observed)
    for resource, runs in observed.runs.items():
        verdict.faults += _duplicates(case, resource, [run for run in runs if run.request is not None])
    if observed.state == "success":
        verdict.faults += _wrong_success(case, observed)
    elif observed.state == "failed":
        verdict.faults += _wrong_failure(case, observed)
    else:
        verdict.faults.append(f"the task is {observed.state}")
    return verdict


def _duplicates(case: Case, resource: str, own: Sequence[Run]) -> Iterator[str]:
    planned = int(case.first_fails and resource == case.resources[0])
    if case.is_sensor:
        planned = -1
    if len(own) > planned + 1:
        yield f"duplicate: {resource} has {len(own)} own runs, not {planned + 1}"
    for run in own[:-1]:
        if run.plan.outcome != "FAILED":
            yield f"duplicate: {resource} has another run after run {run.number}, which did not fail"


def _wrong_success(case: Case, observed: Observed) -> Iterator[str]:
    assert observed.end_date is not None
    results = _results(case, observed.result)
    for resource, runs in observed.runs.items():
        result = results.get(resource) or {}
        named = [run for run in runs if _is_named(run, result)]
        if len(named) != 1:
            yield f"the result of {resource} names the run {result.get('run_id')}, which the service does not have"
            continue
        (run,) = named
        if run.plan.outcome != "COMPLETED" or result.get("outcome") != "succeeded":
            yield f"the result of {resource} is {result.get('outcome')}; its run is {run.plan.outcome}"
        if run.finished_at > observed.end_date.timestamp():
            yield f"the task ended before the run {run.number} of {resource}"
        is_own = run.request is not None
        if case.is_sensor and is_own:
            yield f"the sensor of {resource} names a run that a request has started"
        if not case.is_sensor and not is_own and not (case.has_rival and case.if_running == "attach"):
            yield f"the result of {resource} names the run {run.number} of a rival"
        if not is_own and any(other.request is not None for other in runs):
            yield f"duplicate: {resource} has an own run beside the rival's, which the result names"


def _wrong_failure(case: Case, observed: Observed) -> Iterator[str]:
    if observed.try_number != case.retries + 1:
        yield f"the task failed after {observed.try_number} of {case.retries + 1} tries"
    causes = [observed.causes.get(number, LOST) for number in range(1, observed.try_number + 1)]
    unexpected = [cause for cause in causes if not cause.startswith((LOST, RUN_FAILED))]
    if unexpected:
        yield f"a try failed with {', '.join(unexpected)}"
    if causes.count(RUN_FAILED) > int(case.first_fails):
        yield f"{causes.count(RUN_FAILED)} tries failed with their run"


def _results(case: Case, result: Any) -> dict[str, Any]:
    """Return the result of each resource."""
    if not isinstance(result, dict):
        return {}
    if case.kind == "elt_sync":
        return {one["resource_id"]: one for one in result.get("streams", {}).values()}
    return {case.task_id: result}


def _is_named(run: Run, result: Mapping[str, Any]) -> bool:
    if run.resource.kind == "transform":
        # A build has no ID: a transform has no other runs.
        return run.request is not None and run.plan.outcome == "COMPLETED"
    return result.get("run_id") == run.id_in(0)


def cause_of(lines: Iterable[str]) -> str:
    """Return the cause of the end of a failed try, from the lines of its log."""
    found = f"{LOST} without an error in its log"
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("level") not in ("error", "critical"):
            continue
        for error in entry.get("error_detail") or ():
            name = str(error.get("exc_type"))
            if name == PLANNED_FAILURE:
                found = RUN_FAILED
            elif name in AIRFLOW_ERRORS:
                found = f"{LOST} because of Airflow's {name}"
            else:
                found = f"{name}: {str(error.get('exc_value'))[:200]}"
    return found


def _described(run: Run) -> str:
    started = "requested" if run.request is not None else "of another client"
    return f"{run.id_in(0)}, {started}, {run.plan.outcome}, {run.started_at:.1f} to {run.finished_at:.1f}"
