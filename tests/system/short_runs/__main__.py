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
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.local_service import LocalService
from tests.support.postgresql import PostgreSQL
from tests.support.processes import Workspace, wait_for
from tests.system.airflow_api import ENDED
from tests.system.celery_components import database_config
from tests.system.components import AirflowComponents
from tests.system.latency.__main__ import missing

if TYPE_CHECKING:
    from collections.abc import Callable

DAG_ID = "short_runs"
DAG_FILE = Path(__file__).with_name("dag.py")
#: Seconds that a run takes at least.
DURATION = 1.0
#: Seconds for one task, with all processes on 2 cores, and for the start of the DAG.
LIMIT_PER_TASK, LIMIT_OF_DAG = 6.0, 120.0


@dataclass(frozen=True)
class Result:
    """The end of all tasks."""

    states: Counter[str]
    deferred: int
    mismatches: list[str]


def seed_of(orchestrations: list[str]) -> dict[str, Any]:
    """Return a seed with orchestrations without steps."""
    return {"orchestrations": [{"id": one, "name": one, "cron_schedule": "0 0 1 1 *"} for one in orchestrations]}


def run(
    tasks: int,
    slots: int,
    *,
    minimum_deferral_time: float | None = None,
    on_postgresql: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Result:
    """Run one DAG with all tasks at once, with the defaults of Airflow and of the provider."""
    orchestrations = [f"short_{number:03}" for number in range(tasks)]
    config = {"core.parallelism": str(slots)}
    if minimum_deferral_time is not None:
        config["datapipe.minimum_deferral_time"] = str(minimum_deferral_time)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-short-runs-"))
        dags = workspace.path / "dags"
        dags.mkdir()
        (dags / "short_runs.json").write_text(json.dumps(orchestrations), encoding="utf-8")
        shutil.copy(DAG_FILE, dags)
        service = stack.enter_context(LocalService(seed_of(orchestrations), workspace=workspace, control=True))
        service.runs({"minimum_duration": DURATION})
        connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key}
        if on_postgresql:
            config |= database_config(stack.enter_context(PostgreSQL()))
        airflow = stack.enter_context(
            AirflowComponents(
                dags,
                config=config,
                env={"AIRFLOW_CONN_DATAPIPE_DEFAULT": json.dumps(connection)},
                # The race depends on intervals of the executor and the scheduler.
                fast=False,
                progress=progress,
            )
        )
        began = time.monotonic()
        run_id = airflow.trigger(DAG_ID)
        wait_for(
            "the DAG run ends",
            lambda: airflow.api.run_state(DAG_ID, run_id) in ENDED,
            limit=LIMIT_OF_DAG + tasks * LIMIT_PER_TASK,
            interval=2,
        )
        progress(f"the DAG run took {time.monotonic() - began:.0f} s")
        states = Counter(str(one.state) for one in airflow.api.task_instances(DAG_ID, run_id))
        deferred = sum(airflow.was_deferred(DAG_ID, run_id, one) for one in orchestrations)
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
    result = run(
        given.tasks,
        given.slots,
        minimum_deferral_time=given.minimum_deferral_time,
        on_postgresql=True,
        progress=lambda line: print(line, flush=True),
    )
    print(f"tasks: {dict(result.states)}; deferred: {result.deferred}; failed by the scheduler: {result.mismatches}")
    return 0 if result.states == {"success": given.tasks} else 1


if __name__ == "__main__":
    sys.exit(main())
