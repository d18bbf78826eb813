"""Airflow's components with CeleryExecutor, two of each that can have several, and their process manager."""

from __future__ import annotations

import base64
import re
import secrets
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.support.background import BackgroundThread
from tests.support.postgresql import PostgreSQL
from tests.support.processes import Program
from tests.support.redis_server import RedisServer
from tests.system.celery_components import WORKER_READY, celery_config
from tests.system.components import API_SERVER, COMMANDS, JOBS, AirflowComponents

SCHEDULERS = ("scheduler-1", "scheduler-2")
TRIGGERERS = ("triggerer-1", "triggerer-2")
WORKERS = ("worker-1", "worker-2")
#: All components: each is a process tree of its own.
COMPONENTS = (API_SERVER, *SCHEDULERS, "dag-processor", *TRIGGERERS, *WORKERS)
#: Connections of all components to PostgreSQL. Each process has a pool.
MAX_CONNECTIONS = 400
#: Seconds between the end of a component and its next start, and between two checks.
_RESTART_DELAY, _CHECK_INTERVAL = 1.0, 0.5
CONFIG = {
    "core.max_active_tasks_per_dag": "2000",
    "scheduler.max_tis_per_query": "64",
    # Airflow's default. A supervisor ends its task after three failed heartbeats, hence after 3 s without API server.
    "workers.min_heartbeat_interval": "5",
    # Airflow's defaults are 300 s and 10 s: the time after which a try counts as lost with its worker.
    "scheduler.task_instance_heartbeat_timeout": "30",
    "scheduler.task_instance_heartbeat_timeout_detection_interval": "5",
    # The defaults are 600 s and 120 s: the time after which a task that Redis has lost is sent again.
    "scheduler.task_queued_timeout": "60",
    "scheduler.task_queued_timeout_check_interval": "10",
    # After that, the scheduler fails the task without a retry. Tasks wait so long while no worker has a free slot.
    "scheduler.num_stuck_in_queued_retries": "30",
}


def kind_of(component: str) -> str:
    """Return the kind of a component, without its number."""
    return re.sub(r"-\d+$", "", component)


class Deployment(AirflowComponents):
    """
    The components, with a metadata database in PostgreSQL and a broker in Redis.

    :param dags: the folder of the DAG files.
    :param database: the running database server.
    :param broker: the running broker.
    :param concurrency: the number of tasks that each worker runs at the same time.
    """

    commands: ClassVar[Mapping[str, list[str]]] = {
        each: ["celery", "worker", "--skip-serve-logs"] if each in WORKERS else COMMANDS[kind_of(each)]
        for each in COMPONENTS
    }

    def __init__(
        self,
        dags: Path,
        database: PostgreSQL,
        broker: RedisServer,
        *,
        concurrency: int,
        **options: Any,
    ) -> None:
        self.fernet_key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        settings = {
            **celery_config(database, broker, concurrency=concurrency),
            **CONFIG,
            "core.parallelism": str(2 * concurrency * len(WORKERS)),
            "core.fernet_key": self.fernet_key,
        }
        super().__init__(dags, config=settings, start_limit=900, **options)
        self._database = database
        self._lock = threading.Lock()

    @property
    def database_url(self) -> str:
        return self._database.url

    def program(self, component: str) -> Program:
        """Return the newest process tree of a component."""
        with self._lock:
            return self._programs[component]

    def has_ended(self, component: str) -> bool:
        """Return True if no process of a component runs."""
        return self.program(component).exit_status is not None

    def kill(self, component: str) -> None:
        """Kill a component and its descendants with SIGKILL. The process manager restarts it."""
        self.program(component).kill()

    def relaunch(self, component: str) -> None:
        """Start a component that has ended, without a wait until it is ready."""
        self._launch(component)

    def _launch(self, component: str, name: str | None = None) -> None:
        arguments = list(self.commands[component])
        if component in WORKERS:
            # A killed worker leaves the file behind, and the next one would refuse to start.
            pid_file = self.home / f"{component}.pid"
            pid_file.unlink(missing_ok=True)
            arguments += ["--celery-hostname", f"{component}@%h", "--pid", str(pid_file)]
        program = self._workspace.start(component, [sys.executable, "-m", "airflow", *arguments], env=self._env)
        with self._lock:
            self._programs[component] = program

    def _is_ready(self, component: str, after: int) -> bool:
        if component in WORKERS:
            return WORKER_READY in self.program(component).log.read_bytes()
        if component == API_SERVER:
            return self.api.answers()
        kind = kind_of(component)
        wanted = sum(kind_of(each) == kind for each in self.commands)
        return self.api.answers() and len(self.api.live_jobs(JOBS[kind])) >= wanted


class ProcessManager(BackgroundThread):
    """
    Restarts each component that has ended, in a thread, as systemd or Kubernetes would do.

    :param deployment: the running components.
    :param report: function that prints a line.
    """

    def __init__(self, deployment: Deployment, report: Callable[[str], None]) -> None:
        super().__init__()
        self._deployment = deployment
        self._report = report
        self.restarts: Counter[str] = Counter()

    def _run(self) -> None:
        while not self._stopping.wait(_CHECK_INTERVAL):
            ended = [each for each in COMPONENTS if self._deployment.has_ended(each)]
            if not ended or self._stopping.wait(_RESTART_DELAY):
                continue
            for component in ended:
                status = self._deployment.program(component).exit_status
                self._report(f"{component} has ended with status {status}, and is started again")
                self.restarts[component] += 1
                self._deployment.relaunch(component)
