"""
Soak test: ``make soak HOURS=2``, or ``python -m tests.system.distributed.soak --hours 2``.

Starts DAG runs with mixed tasks at a constant rate on the distributed deployment, and kills something every few
minutes. ``worker-1`` and ``triggerer-1`` are never killed, so that their curves show the whole time. Takes a sample of
memory, file descriptors, connections and rows once a minute, fits a line through the samples of each metric, and
writes ``soak.csv`` and ``soak.svg``.

Exit status: 0 if the curves of these two components and of the rows are flat, and no resource has more runs than the
tasks asked for.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from tests.support.command import run_command
from tests.support.hostile import Plan
from tests.support.processes import ProgramError, wait_for
from tests.system.airflow_api import ENDED, AirflowApiError
from tests.system.demo import ROOT, terminated
from tests.system.distributed.__main__ import stage_of
from tests.system.distributed.cases import KINDS
from tests.system.distributed.chaos import Stage
from tests.system.distributed.kills import POSTGRESQL_RESTARTED, REDIS_EMPTY, REDIS_KEPT
from tests.system.distributed.plans import write_plan
from tests.system.distributed.plot import plot
from tests.system.distributed.report import Report
from tests.system.distributed.samples import Samples
from tests.system.distributed.trend import trends
from tests.system.latency.__main__ import missing

FOLDER = ROOT / ".bench"
PICTURE = ROOT / "docs" / "static" / "soak.svg"
#: DAGs that start in turn. Each has tasks of all kinds and one run at a time.
DAGS = 20
#: Tasks of each DAG: kind and mode.
TASKS = (
    ("elt_stream", "deferred"),
    ("elt_sync", "blocking"),
    ("orchestration", "deferred"),
    ("reverse_etl", "deferred"),
    ("transform", "blocking"),
    ("stream_sensor", "deferred"),
)
#: Seconds that the runs take.
DURATION = 20.0
#: ``worker-1`` and ``triggerer-1`` are left out.
VICTIMS = (
    "triggerer-2",
    "worker-2",
    "scheduler-1",
    "api-server",
    REDIS_KEPT,
    "scheduler-2",
    "dag-processor",
    POSTGRESQL_RESTARTED,
    REDIS_EMPTY,
)
SPARED = ("worker-1", "triggerer-1")
#: Seconds between two samples, and for the last DAG runs to end.
SAMPLE_INTERVAL, LAST_LIMIT = 60.0, 1_200.0


class Soak:
    """
    One run of the soak test.

    :param stage: the running programs.
    :param samples: the samples.
    """

    def __init__(self, stage: Stage, samples: Samples) -> None:
        self._stage = stage
        self._samples = samples
        self.kills: list[float] = []
        self.started = 0
        self.refused = 0

    def run(self, seconds: float, runs_per_hour: float, kill_interval: float) -> None:
        """Start DAG runs, kill, and take samples for a time."""
        self._prepare()
        begun = time.monotonic()
        next_run, next_sample, next_kill = 0.0, 0.0, kill_interval
        dags, victims = cycle(_dag_ids()), cycle(VICTIMS)
        while (now := time.monotonic() - begun) < seconds:
            if now >= next_run:
                self._start(next(dags))
                next_run += 3600 / runs_per_hour
            if now >= next_sample:
                self._samples.take(now / 60)
                next_sample += SAMPLE_INTERVAL
                self._stage.report(f"minute {now / 60:.0f}: {self.started} DAG runs, {len(self.kills)} kills")
            if now >= next_kill:
                self._stage.killer.kill([next(victims)])
                self.kills.append(now / 60)
                next_kill += kill_interval
            time.sleep(0.5)
        wait_for("all DAG runs have ended", self._all_over, limit=LAST_LIMIT, interval=5)
        self._samples.take((time.monotonic() - begun) / 60)

    def states(self) -> Counter[str]:
        """Count the task instances by state."""
        rows = self._stage.metadata.select("SELECT state, count(*) FROM task_instance GROUP BY 1")
        return Counter({str(state): number for state, number in rows})

    def faults(self) -> Iterator[str]:
        """Yield the resources with another number of runs than their tasks asked for."""
        for dag_id in _dag_ids():
            states: dict[str, Counter[str]] = {}
            for row in self._stage.metadata.tasks(dag_id):
                states.setdefault(row.task_id, Counter())[str(row.state)] += 1
            for task_id, counts in states.items():
                if "sensor" in task_id:
                    continue
                for resource_id in _resources(task_id):
                    runs = len(self._stage.service.resource(resource_id).requested_runs)
                    # A try without a further one can have started its run before it was lost.
                    if not counts["success"] <= runs <= counts["success"] + counts["failed"]:
                        yield f"{resource_id}: {runs} runs for tasks with the states {dict(counts)}"

    def _prepare(self) -> None:
        for dag_id in _dag_ids():
            tasks = []
            for kind, mode in TASKS:
                task_id = f"{dag_id}_{kind}"
                if "sensor" in kind:
                    arguments: dict[str, Any] = {"stream_id": f"{dag_id}_elt_stream", "newest": True}
                else:
                    arguments = {KINDS[kind][0]: task_id, "poll_interval": 2}
                    self._add_resources(task_id, kind)
                arguments |= {"retries": 2, "deferrable": mode == "deferred"}
                tasks.append({"task_id": task_id, "kind": kind, "arguments": arguments})
            write_plan(self._stage.dags, dag_id, tasks, max_active_runs=1)
        api = self._stage.deployment.api
        wait_for("all DAGs are parsed", lambda: all(map(api.knows_dag, _dag_ids())), limit=600, interval=2)

    def _add_resources(self, task_id: str, kind: str) -> None:
        for resource_id in _resources(task_id):
            fields = {"parent_id": task_id} if KINDS[kind][1] == "elt_stream" else {}
            plans = (Plan(duration=DURATION),)
            resource = self._stage.service.add(KINDS[kind][1], resource_id, plans=plans, **fields)
            self._stage.service.add_history(resource, 3_600.0, plan=Plan(duration=DURATION))

    def _start(self, dag_id: str) -> None:
        try:
            self._stage.deployment.api.trigger(dag_id)
        except (httpx.HTTPError, AirflowApiError):
            # The API server or the database is down.
            self.refused += 1
            return
        self.started += 1

    def _all_over(self) -> bool:
        states = self._stage.metadata.select("SELECT DISTINCT state FROM dag_run")
        return {str(state) for (state,) in states} <= ENDED


def _dag_ids() -> list[str]:
    return [f"soak_{number:02}" for number in range(DAGS)]


def _resources(task_id: str) -> list[str]:
    return [f"{task_id}_{number}" for number in range(2)] if task_id.endswith("elt_sync") else [task_id]


def soak(given: argparse.Namespace, report: Report) -> None:
    """Run the soak test, and add its results to a report."""
    folder = Path(given.output)
    folder.mkdir(parents=True, exist_ok=True)
    with stage_of(given.concurrency) as (stage, manager):
        samples = Samples(stage.deployment, folder / "soak.csv")
        run = Soak(stage, samples)
        try:
            run.run(given.hours * 3600, given.runs_per_hour, given.kill_every * 60)
        finally:
            picture = plot(samples.minutes, samples.values, run.kills)
            (folder / "soak.svg").write_text(picture, encoding="utf-8")
        faults = list(run.faults())
        report.add("DAG runs", f"{run.started} started, {run.refused} refused while a server was down")
        report.add("tasks", dict(run.states()))
        report.add("resources with a wrong number of runs", "; ".join(faults[:5]) or 0, holds=not faults)
        report.add("kills", len(run.kills))
        report.add("restarts by the process manager", dict(manager.restarts))
        stage.leaks.check_rows()
        stage.leaks.check_files(stage.deployment.log_files())
        found = "; ".join(sorted(stage.leaks.found))
        report.add("secrets in logs and database", found or "none", holds=not found)
    for trend in trends(samples.minutes, samples.values):
        is_checked = trend.metric.startswith(SPARED) or trend.metric.endswith("_rows")
        value = f"mean {trend.mean:.1f}, growth {trend.growth:+.1f}, flat up to {trend.allowed:.1f}"
        report.add(trend.metric, value, holds=trend.is_flat if is_checked else None)
    if given.write:
        PICTURE.write_text(picture, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.distributed.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2, help="(default: %(default)s)")
    parser.add_argument("--runs-per-hour", type=float, default=200, help="DAG runs (default: %(default)s)")
    parser.add_argument("--kill-every", type=float, default=5, help="minutes between two kills (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=6, help="tasks of a worker (default: %(default)s)")
    parser.add_argument("--output", default=str(FOLDER), help="folder of soak.csv and soak.svg (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help=f"write the plot to {PICTURE.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    if lines := missing(["celery"]):
        parser.exit(2, "".join(f"{line}\n" for line in lines))
    signal.signal(signal.SIGTERM, terminated)
    report = Report()
    try:
        soak(given, report)
    except (ProgramError, AirflowApiError) as error:
        report.add("error", error, holds=False)
    print(f"\n{report}")
    return 0 if report.holds else 1


if __name__ == "__main__":
    run_command(lambda: main(sys.argv[1:]))
