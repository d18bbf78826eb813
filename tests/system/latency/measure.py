"""Measurement of runs on real components of Airflow, with datapipe-local as the service."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.local_service import LocalService
from tests.support.postgresql import PostgreSQL
from tests.support.processes import Workspace
from tests.support.redis_server import RedisServer
from tests.system.celery_components import CeleryComponents, celery_config, database_config
from tests.system.components import AirflowComponents
from tests.system.latency.figures import EXECUTORS, Measurement
from tests.system.latency.plan import GAP, Lane, Wave, lanes_of, wave_size, waves_of
from tests.system.resources import seed_of

ROOT = Path(__file__).parents[3]
DAG_FILE = Path(__file__).with_name("dag.py")
#: Time limit of a task in seconds, in addition to its run.
LIMIT = 180


def measure(
    executor: str, durations: Sequence[float], runs: int, progress: Callable[[str], None]
) -> Iterator[Measurement]:
    """Start all components of an executor, and measure runs of each duration in each mode."""
    lanes = [lane for duration in durations for lane in lanes_of(duration, runs)]
    slots = 2 * max(wave_size(duration) for duration in durations)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-latency-"))
        dags = workspace.path / "dags"
        dags.mkdir()
        # A sync for each lane: streams of one sync would share polls.
        service = stack.enter_context(
            LocalService(seed_of([lane.stream_id for lane in lanes], workspace.path), workspace=workspace, control=True)
        )
        service.runs({"resources": {lane.stream_id: {"minimum_duration": lane.duration} for lane in lanes}})
        shutil.copy(DAG_FILE, dags)
        database = stack.enter_context(PostgreSQL())
        options: dict[str, Any] = {
            "env": {"AIRFLOW_CONN_DATAPIPE_DEFAULT": service.connection(), "PYTHONPATH": str(ROOT)},
            # The defaults of a user's deployment.
            "fast": False,
            "progress": progress,
        }
        components: AirflowComponents
        if executor == "celery":
            config = celery_config(database, stack.enter_context(RedisServer()), concurrency=slots)
            components = CeleryComponents(dags, config=config, **options)
        else:
            config = {**database_config(database), "core.parallelism": str(slots)}
            components = AirflowComponents(dags, config=config, **options)
        airflow = stack.enter_context(components)
        for duration in durations:
            for wave in waves_of(duration, runs):
                measured = list(_measured(executor, wave, airflow, service))
                yield from measured
                progress(_line(wave, measured))


def _measured(executor: str, wave: Wave, airflow: AirflowComponents, service: LocalService) -> Iterator[Measurement]:
    """Run a wave, and return its measurements in the order of their ends."""
    before = max((run["seq"] for run in service.journal_runs()), default=0)
    started: list[tuple[Lane, str, str]] = []
    for number, lane in enumerate(wave.lanes):
        if number:
            time.sleep(GAP)
        dag_id = f"latency_{lane.mode}"
        conf = {"stream": lane.stream_id, "seconds": lane.duration}
        started.append((lane, dag_id, airflow.trigger(dag_id, conf)))
    for lane, dag_id, run_id in started:
        state = airflow.wait(dag_id, run_id, limit=lane.duration + LIMIT)
        latency = None
        if state == "success":
            (task,) = airflow.api.task_instances(dag_id, run_id)
            assert task.end_date is not None
            if lane.mode == "baseline":
                finished_at = float(airflow.api.xcom(dag_id, run_id, task.task_id))
            else:
                (run,) = service.journal_runs(lane.stream_id, after=before)
                finished_at = datetime.fromisoformat(run["finished_at"]).timestamp()
            latency = task.end_date.timestamp() - finished_at
        yield Measurement(executor, lane.mode, lane.duration, latency, wave.warm_up)


def _line(wave: Wave, measured: Sequence[Measurement]) -> str:
    found = ", ".join(f"{one.mode} {'failed' if one.latency is None else f'{one.latency:.2f} s'}" for one in measured)
    return f"{EXECUTORS[measured[0].executor]}, {wave.duration:g} s{', first runs' if wave.warm_up else ''}: {found}"
