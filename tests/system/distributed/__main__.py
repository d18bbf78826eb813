"""
Distributed deployment under kills: ``make distributed``, or ``python -m tests.system.distributed``.

Starts Redis, PostgreSQL, two Celery workers, two triggerers, two schedulers, the API server and the DAG processor, each
of which is restarted when it exits. Runs the example pipeline; then tasks of all kinds, while components, servers and
workers with requests in progress are killed; then deferred tasks without kills (``--deferred``); then deferred tasks
of which a triggerer is killed (``--takeover``). Prints a table.

Needs PostgreSQL and Redis (``apt-get install postgresql redis-server``) and the packages of
``tests/system/celery-requirements.txt``. Exit status: 0 if all checks pass.
:mod:`tests.system.distributed.verdict` defines the correct outcomes.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from math import ceil

from tests.support.command import run_command
from tests.support.postgresql import PostgreSQL
from tests.support.processes import ProgramError, Workspace
from tests.support.redis_server import RedisServer
from tests.system.airflow_api import AirflowApiError
from tests.system.demo import ROOT, terminated
from tests.system.distributed import chaos, deferred, takeover
from tests.system.distributed.blocked_loop import LOGGER
from tests.system.distributed.cases import DURATIONS, Case, cases, held_cases, waves_of
from tests.system.distributed.chaos import Stage
from tests.system.distributed.deployment import MAX_CONNECTIONS, Deployment, ProcessManager
from tests.system.distributed.held_service import Moment, held_server
from tests.system.distributed.kills import ALL_VICTIMS, FEW_VICTIMS, Killer
from tests.system.distributed.leaks import LeakCheck
from tests.system.distributed.metadata import Metadata
from tests.system.distributed.pipeline import Pipeline, pipeline
from tests.system.distributed.plans import add_connection
from tests.system.distributed.report import POST, Report
from tests.system.latency.__main__ import missing, say

#: Planned kills during requests for each wanted one, because other kills come first. A refusal also needs a rival's run
#: that is still active when the task comes.
_SPARE_POSTS, _SPARE_CONFLICTS = 2.5, 3.0
#: Durations of runs in the short form: all kills of components are done while tasks wait.
SHORT_DURATIONS = (40.0, 50.0)


@contextmanager
def stage_of(
    concurrency: int, example: Pipeline | None = None, report: Callable[[str], None] = say
) -> Iterator[tuple[Stage, ProcessManager]]:
    """Run all servers and components."""
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace("datapipe-distributed-"))
        dags = workspace.path / "dags"
        dags.mkdir()
        service, server = stack.enter_context(held_server())
        database = stack.enter_context(PostgreSQL(password=secrets.token_hex(12), max_connections=MAX_CONNECTIONS))
        broker = stack.enter_context(RedisServer(persistent=True))
        deployment = stack.enter_context(
            Deployment(
                dags,
                database,
                broker,
                concurrency=concurrency,
                env={"PYTHONPATH": f"{ROOT}{os.pathsep}{LOGGER}", "AIRFLOW_CONN_FS_DEFAULT": "fs:///"},
                progress=report,
            )
        )
        manager = stack.enter_context(ProcessManager(deployment, report))
        add_connection(deployment, server)
        hidden = {"API key": server.api_key, "database password": database.password, "broker password": broker.password}
        if example is not None:
            hidden["API key of the pipeline"] = example.api_key
        leaks = LeakCheck(Metadata(deployment.database_url), deployment.fernet_key, hidden)
        killer = Killer(deployment, database, broker, service, report)
        yield Stage(dags, deployment, service, killer, leaks, report), manager


def play(given: argparse.Namespace, report: Report) -> None:
    """Run all parts, and add their results to a report."""
    with ExitStack() as stack:
        example = stack.enter_context(pipeline()) if given.pipeline else None
        stage, manager = stack.enter_context(stage_of(given.concurrency, example))
        try:
            if example is not None:
                for check in example.run(stage.dags, stage.deployment):
                    report.add(f"pipeline: {check.what}", check.found, holds=check.holds)
            if given.tasks:
                planned = ceil(_SPARE_POSTS * given.post_kills), ceil(_SPARE_CONFLICTS * given.conflict_kills)
                durations = SHORT_DURATIONS if given.short else DURATIONS
                waves = list(waves_of(cases(given.tasks, *planned, given.seed, durations), given.wave))
                result = chaos.play(
                    stage, waves, victims_of(given), given.interval, lambda first: missing_kills(stage, given, first)
                )
                report.add_chaos(result, stage.killer, given.post_kills, given.conflict_kills)
            if given.deferred:
                report.add_deferred(deferred.play(stage, given.deferred, window=given.window, spread=given.spread))
            if given.takeover:
                report.add_takeover(takeover.play(stage, given.takeover))
        finally:
            report.add("restarts by the process manager", dict(manager.restarts))
            stage.leaks.check_rows()
            stage.leaks.check_files(stage.deployment.log_files())
            searched = f"{stage.leaks.files} logs, {stage.leaks.rows} rows, {stage.leaks.triggers} triggers"
            found = "; ".join(sorted(stage.leaks.found)) or f"none in {searched}"
            report.add("secrets in logs and database", found, holds=not stage.leaks.found)


def missing_kills(stage: Stage, given: argparse.Namespace, first: int) -> list[Case]:
    """Return tasks for the kills during requests that have not succeeded, two for each; none if no kill is missing."""
    posts = given.post_kills - stage.killer.count(*POST)
    conflicts = given.conflict_kills - stage.killer.count(Moment.CONFLICT)
    return list(held_cases(2 * max(0, posts), 2 * max(0, conflicts), first))


def victims_of(given: argparse.Namespace) -> Sequence[Sequence[str]]:
    """Return the components and servers to kill, in order."""
    return list(islice(cycle(FEW_VICTIMS if given.short else ALL_VICTIMS), given.component_kills))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.distributed", description=__doc__)
    parser.add_argument("--tasks", type=int, default=200, help="tasks under kills (default: %(default)s)")
    parser.add_argument("--wave", type=int, default=100, help="tasks at the same time (default: %(default)s)")
    parser.add_argument("--post-kills", type=int, help="workers killed during a POST (default: 1 in 20 tasks)")
    parser.add_argument("--conflict-kills", type=int, help="workers killed during a 409 decision (default: the same)")
    parser.add_argument("--component-kills", type=int, help="other kills (default: 2 for each kind of kill)")
    parser.add_argument("--interval", type=float, default=25, help="seconds between those (default: %(default)s)")
    parser.add_argument("--deferred", type=int, default=0, metavar="N", help="deferred tasks (default: %(default)s)")
    parser.add_argument("--takeover", type=int, default=0, metavar="N", help="deferred tasks whose triggerer is killed")
    parser.add_argument("--window", type=float, default=60, help="seconds to count requests (default: %(default)s)")
    parser.add_argument("--spread", type=float, default=300, help="seconds in which runs end (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=8, help="tasks of a worker (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="order of the tasks (default: %(default)s)")
    parser.add_argument("--short", action="store_true", help="20 tasks, one kill of each kind, no pipeline")
    parser.add_argument("--no-pipeline", dest="pipeline", action="store_false", help="without the example pipeline")
    given = parser.parse_args(arguments)
    if given.short:
        given.tasks, given.wave, given.interval, given.pipeline = 20, 20, 8.0, False
    if given.post_kills is None:
        given.post_kills = (given.tasks + 19) // 20
    if given.conflict_kills is None:
        given.conflict_kills = given.post_kills
    if given.component_kills is None:
        given.component_kills = (len(FEW_VICTIMS) if given.short else 2 * len(ALL_VICTIMS)) if given.tasks else 0
    if max(given.deferred, given.takeover) > deferred.MOST_TASKS:
        parser.error(f"--deferred and --takeover are at most {deferred.MOST_TASKS}")
    if lines := missing(["celery"]):
        parser.exit(2, "".join(f"{line}\n" for line in lines))
    return given


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    given = parse(arguments)
    signal.signal(signal.SIGTERM, terminated)
    report = Report()
    begun = time.monotonic()
    try:
        play(given, report)
    except (ProgramError, AirflowApiError) as error:
        report.add("error", error, holds=False)
    print(f"\n{report}\n\n{(time.monotonic() - begun) / 60:.1f} minutes")
    return 0 if report.holds else 1


if __name__ == "__main__":
    run_command(lambda: main(sys.argv[1:]))
