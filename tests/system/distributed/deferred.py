"""Deferred tasks on two triggerers: requests per second, and the delay from the end of a run to its task."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from tests.support.hostile import Plan
from tests.support.process_table import lower_priority
from tests.support.processes import wait_for
from tests.system.airflow_api import ENDED
from tests.system.distributed.blocked_loop import Pause, collections_of, warnings_of
from tests.system.distributed.cases import REFUSED_KINDS, RUN_KINDS
from tests.system.distributed.chaos import Stage
from tests.system.distributed.deployment import TRIGGERERS, WORKERS
from tests.system.distributed.metadata import TaskRow
from tests.system.distributed.plans import write_plan

#: Tasks of one DAG, and streams of one sync.
TASKS_OF_A_DAG, STREAMS_OF_A_SYNC = 100, 50
#: Duration of a run until the harness ends it, in seconds.
_LONG = 100_000.0
#: Expected seconds in which one task is deferred, on two cores.
_START_SECONDS = 0.4
#: The most tasks: a triggerer runs a thousand triggers by default.
MOST_TASKS = 2_000
#: Seconds for the deferral of one task, and for the wait after the end of the runs.
LIMIT_PER_TASK, LIMIT = 15.0, 900.0
#: Niceness of the workers, so that they do not delay the triggerers.
_NICENESS = 15


@dataclass(frozen=True)
class DeferredResult:
    """
    Result of the deferred tasks. Times are seconds.

    :param tasks: the number of tasks.
    :param by_triggerer: the most triggers of each triggerer.
    :param deferring: time from the start of the DAG runs to the deferral of the last task.
    :param requests: requests per second while all tasks waited.
    :param to_event: time from the end of each run to its trigger event.
    :param to_success: time from the end of each run to the success of its task.
    :param blocked_before: warnings about a blocked event loop until all tasks were deferred.
    :param blocked: the warnings from then on.
    :param collections: full garbage collections of the triggerers.
    :param faults: wrong outcomes and duplicate runs.
    """

    tasks: int
    by_triggerer: Sequence[int]
    deferring: float
    requests: float
    to_event: Sequence[float]
    to_success: Sequence[float]
    blocked_before: Sequence[Pause]
    blocked: Sequence[Pause]
    collections: Sequence[Pause]
    faults: Sequence[str]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is at least as large as a share of all values."""
    return sorted(values)[max(0, ceil(round(share * len(values), 6)) - 1)]


def play(stage: Stage, count: int, *, window: float, spread: float) -> DeferredResult:
    """
    Defer tasks, measure the requests while all of them wait, then end their runs.

    :param count: the number of tasks: three of four wait for streams, the others for orchestrations.
    :param window: seconds in which requests are counted.
    :param spread: seconds over which the ends of the runs are distributed.
    """
    # In a deployment, triggerers and workers run on different machines. Here, the tasks of the workers need all cores.
    for worker in WORKERS:
        lower_priority(stage.deployment.program(worker).pid, _NICENESS)
    names = list(add_resources(stage, "deferred", count, window, spread))
    begun = time.time()
    runs = defer(stage, names)
    all_deferred = time.time()
    shares = [share for _, share in stage.metadata.select("SELECT triggerer_id, count(*) FROM trigger GROUP BY 1")]
    stage.report(f"all tasks are deferred after {all_deferred - begun:.0f} s, by triggerer: {shares}")
    first = len(stage.service.journal)
    time.sleep(window)
    requests = (len(stage.service.journal) - first) / window
    stage.leaks.check_rows()
    now = time.time() + 5
    stage.service.change_ends({name: now + spread * number / count for number, name in enumerate(names)})
    stage.report(f"{requests:.2f} requests per second; the runs end within {spread:.0f} s")
    wait_for_ends(stage, runs, limit=spread + LIMIT_PER_TASK * count)
    rows = rows_of(stage, runs)
    warnings = sorted(warnings_of([stage.deployment.program(each).log for each in TRIGGERERS]))
    return DeferredResult(
        tasks=count,
        by_triggerer=shares,
        deferring=all_deferred - begun,
        requests=requests,
        to_event=[delay for row in rows for delay in _delays(stage, row, row.scheduled_at)],
        to_success=[delay for row in rows for delay in _delays(stage, row, row.end_date)],
        blocked_before=[each for each in warnings if begun <= each.end < all_deferred],
        blocked=[each for each in warnings if each.end >= all_deferred],
        collections=collections_of(stage.deployment.home),
        faults=list(faults(stage, rows)),
    )


def add_resources(stage: Stage, prefix: str, count: int, window: float = 0.0, spread: float = 0.0) -> Iterator[str]:
    """Yield the names of new resources, whose runs last until the harness ends them."""
    for number in range(count):
        kind = "orchestration" if number % 4 == 3 else "elt_stream"
        name = f"{prefix}_{number:04}_{kind}"
        fields = {"parent_id": f"{prefix}_sync_{number // STREAMS_OF_A_SYNC:02}"} if kind in REFUSED_KINDS else {}
        resource = stage.service.add(RUN_KINDS[kind][1], name, plans=(Plan(duration=_LONG),), **fields)
        # The poll interval follows from the durations of earlier runs: they were about as long as this one will be.
        expected = (count - number) * _START_SECONDS + window + spread * number / count
        for ended_before, factor in ((86_400.0, 0.8), (57_600.0, 1.2), (28_800.0, 1.0)):
            stage.service.add_history(resource, ended_before, plan=Plan(duration=factor * expected))
        yield name


def defer(stage: Stage, names: Sequence[str], **arguments: object) -> dict[str, str]:
    """
    Start a task for each resource, and wait until triggerers run all of their triggers.

    :param names: the resources of :func:`add_resources`.
    :param arguments: further arguments of the operators.
    :return: the IDs of the DAG runs by the ID of their DAG.
    """
    runs: dict[str, str] = {}
    for begin in range(0, len(names), TASKS_OF_A_DAG):
        part = names[begin : begin + TASKS_OF_A_DAG]
        dag_id = f"{part[0]}_and_more"
        write_plan(stage.dags, dag_id, [_task(name, arguments) for name in part])
        runs[dag_id] = stage.deployment.trigger(dag_id)
    reported = 0.0

    def all_deferred() -> bool:
        nonlocal reported
        states = Counter(row.state for row in rows_of(stage, runs))
        if time.monotonic() > reported + 30:
            reported = time.monotonic()
            stage.report(f"deferring: {dict(states)}")
        if states.keys() & {"failed", "success", "up_for_retry"}:
            return True
        polled = stage.metadata.select("SELECT id FROM trigger WHERE triggerer_id IS NOT NULL")
        return states["deferred"] == len(polled) == len(names)

    wait_for("all tasks are deferred", all_deferred, limit=LIMIT + LIMIT_PER_TASK * len(names), interval=2)
    return runs


def wait_for_ends(stage: Stage, runs: dict[str, str], *, limit: float) -> None:
    """Wait until all DAG runs have ended, for as many seconds in addition to those of a small number of tasks."""
    ended = dict.fromkeys(runs, False)

    def all_over() -> bool:
        for dag_id, run_id in runs.items():
            ended[dag_id] = ended[dag_id] or stage.metadata.run_state(dag_id, run_id) in ENDED
        return all(ended.values())

    wait_for("all DAG runs have ended", all_over, limit=LIMIT + limit, interval=2)


def _task(name: str, more: dict[str, object]) -> dict[str, object]:
    kind = name.split("_", 2)[2]
    arguments = {RUN_KINDS[kind][0]: name, "deferrable": True, "retries": 0, **more}
    return {"task_id": name, "kind": kind, "arguments": arguments}


def rows_of(stage: Stage, runs: dict[str, str]) -> list[TaskRow]:
    """Return the task instances of DAG runs."""
    return [row for dag_id, run_id in runs.items() for row in stage.metadata.tasks(dag_id, run_id)]


def _delays(stage: Stage, row: TaskRow, moment: object) -> Iterator[float]:
    """Yield the seconds from the end of the run of a successful task to a time."""
    runs = stage.service.resource(row.task_id).requested_runs
    if row.state == "success" and runs and hasattr(moment, "timestamp"):
        yield moment.timestamp() - runs[-1].finished_at


def faults(stage: Stage, rows: Sequence[TaskRow]) -> Iterator[str]:
    """Yield the tasks that did not succeed with exactly one run."""
    for row in rows:
        runs = stage.service.resource(row.task_id).requested_runs
        if row.state != "success":
            yield f"{row.task_id} is {row.state}"
        if len(runs) != 1:
            yield f"{row.task_id} has {len(runs)} runs"
