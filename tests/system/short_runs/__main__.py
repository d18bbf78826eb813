"""
Short deferred tasks on LocalExecutor, without retries: ``python -m tests.system.short_runs``.

The scheduler of some versions of Airflow fails a task whose trigger event arrives too early (docs/architecture.md).
``--minimum-deferral-time 0`` shows how often that occurs without the minimum deferral time. Needs PostgreSQL and the
packages of ``make latency``. Exit status: 0 if all tasks succeeded.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.local_service import LocalService
from tests.support.postgresql import PostgreSQL
from tests.support.processes import Workspace, wait_for
from tests.system.airflow_api import ENDED
from tests.system.celery_components import database_config
from tests.system.components import AirflowComponents
from tests.system.latency.__main__ import missing

DAG_ID = "short_runs"
DAG_FILE = Path(__file__).with_name("dag.py")
#: Minimum duration of a run in seconds.
DURATION = 1.0
#: Time limits in seconds for one task, with all processes on 2 cores, and for the start of the DAG.
LIMIT_PER_TASK, LIMIT_OF_DAG = 6.0, 120.0


@dataclass(frozen=True)
class Result:
    """
    Final states of all tasks.

    :param mismatches: Messages of the scheduler about tasks that it failed.
    """

    states: Counter[str]
    deferred: int
    mismatches: list[str]


def service_of(tasks: int, workspace: Workspace | None = None) -> LocalService:
    """Return a service with an orchestration without steps for each task."""
    orchestrations = [{"id": one, "name": one, "cron_schedule": "0 0 1 1 *"} for one in _ids(tasks)]
    return LocalService({"orchestrations": orchestrations}, workspace=workspace, control=True)


def _ids(tasks: int) -> list[str]:
    return [f"short_{number:03}" for number in range(tasks)]


def run(airflow: AirflowComponents, service: LocalService, dags: Path, conn_id: str, tasks: int) -> Result:
    """Run one DAG with all tasks at once, each for a separate resource, with the defaults of the provider."""
    service.runs({"minimum_duration": DURATION})
    plan = {"conn_id": conn_id, "orchestrations": _ids(tasks)}
    (dags / "short_runs.json").write_text(json.dumps(plan), encoding="utf-8")
    shutil.copy(DAG_FILE, dags / f"{DAG_ID}.py")
    run_id = airflow.trigger(DAG_ID)
    wait_for(
        "the DAG run ends",
        lambda: airflow.api.run_state(DAG_ID, run_id) in ENDED,
        limit=LIMIT_OF_DAG + tasks * LIMIT_PER_TASK,
        interval=2,
    )
    states = Counter(str(one.state) for one in airflow.api.task_instances(DAG_ID, run_id))
    deferred = sum(airflow.was_deferred(DAG_ID, run_id, one) for one in _ids(tasks))
    path = f"/eventLogs?dag_id={DAG_ID}&event=state%20mismatch&limit=100"
    mismatches = [entry["extra"] for entry in airflow.api.request("GET", path)["event_logs"]]
    return Result(states, deferred, mismatches)


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.short_runs", description=__doc__)
    parser.add_argument("--tasks", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--slots", type=int, default=24, help="[core] parallelism (default: %(default)s)")
    parser.add_argument("--minimum-deferral-time", type=float, help="s (default: the default of the provider)")
    given = parser.parse_args()
    if lines := missing(["local"]):
        parser.exit(2, "".join(f"{line}\n" for line in lines))
    config = {"core.parallelism": str(given.slots)}
    if given.minimum_deferral_time is not None:
        config["datapipe.minimum_deferral_time"] = str(given.minimum_deferral_time)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-short-runs-"))
        (dags := workspace.path / "dags").mkdir()
        service = stack.enter_context(service_of(given.tasks, workspace))
        config |= database_config(stack.enter_context(PostgreSQL()))
        env = {"AIRFLOW_CONN_DATAPIPE_DEFAULT": service.connection()}
        # The race depends on intervals of the executor and the scheduler, which have Airflow's defaults here.
        components = AirflowComponents(dags, config=config, env=env, fast=False, progress=partial(print, flush=True))
        result = run(stack.enter_context(components), service, dags, "datapipe_default", given.tasks)
    print(f"tasks: {dict(result.states)}; deferred: {result.deferred}; failed by the scheduler: {result.mismatches}")
    return 0 if result.states == {"success": given.tasks} else 1


if __name__ == "__main__":
    sys.exit(main())
