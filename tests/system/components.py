"""Real components of Airflow in a temporary home, for tests."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.support.process_table import tree_of
from tests.support.processes import Program, ProgramError, ReservedPort, Workspace, wait_for
from tests.system.airflow_api import AirflowApi, TaskInstance
from tests.system.metadata_database import is_unlocked, sqlite_url

API_SERVER = "api-server"
# Command of each component, and its job type in the metadata database.
JOBS = {"scheduler": "SchedulerJob", "dag-processor": "DagProcessorJob", "triggerer": "TriggererJob"}
COMMANDS = {
    API_SERVER: ["api-server", "--workers", "1"],
    # Log servers would listen on all addresses of the machine. All components share one log folder instead.
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
SECOND_TRIGGERER = "second triggerer"
LOGIN = "admin"
DATABASE = "database.sql_alchemy_conn"
#: Shorter intervals than Airflow's defaults, for faster tests.
FAST = {
    # Shorter than the defaults: the pause of an idle scheduler, and the detection of a dead triggerer or scheduler.
    "scheduler.scheduler_idle_sleep_time": "0.5",
    "scheduler.job_heartbeat_sec": "2",
    # With less than Airflow's 30 s, a scheduler on a busy machine treats its own tasks as those of a dead one.
    "scheduler.scheduler_health_check_threshold": "30",
    "scheduler.orphaned_tasks_check_interval": "5",
    "scheduler.trigger_timeout_check_interval": "5",
    # The default of 5 s delayed the detection of a third of all ended processes.
    "workers.min_heartbeat_interval": "1",
    "triggerer.job_heartbeat_sec": "2",
    "triggerer.triggerer_health_check_threshold": "10",
    # Short runs test the triggerer, too.
    "datapipe.defer_after": "0",
}


def airflow_environment(
    home: Path, dags: Path, port: int, *, config: Mapping[str, str], extra: Mapping[str, str], fast: bool = True
) -> dict[str, str]:
    settings = {
        "core.dags_folder": str(dags),
        "core.load_examples": "False",
        "core.executor": "LocalExecutor",
        # LocalExecutor forks all of its workers at once, when it starts.
        "core.parallelism": "4",
        "core.dags_are_paused_at_creation": "False",
        "core.test_connection": "Enabled",
        "core.simple_auth_manager_users": f"{LOGIN}:admin",
        "core.simple_auth_manager_passwords_file": str(home / "passwords.json"),
        "core.execution_api_server_url": f"http://127.0.0.1:{port}/execution/",
        "core.fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        DATABASE: sqlite_url(home),
        "api.host": "127.0.0.1",
        "api.port": str(port),
        "api.base_url": f"http://127.0.0.1:{port}",
        "api.secret_key": secrets.token_hex(32),
        "api_auth.jwt_secret": secrets.token_hex(32),
        "logging.base_log_folder": str(home / "task-logs"),
        "logging.dag_processor_child_process_log_directory": str(home / "logs" / "dag_processor"),
        "logging.colored_console_log": "False",
        "dag_processor.refresh_interval": "5",
        # New and changed files are parsed at once. The default parses all files every 30 s.
        "dag_processor.min_file_process_interval": "3600",
        # Disable usage reports to the developers of Airflow.
        "usage_data_collection.enabled": "False",
        **(FAST if fast else {}),
        **config,
    }
    # Settings of the caller's Airflow must not have an effect.
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env["AIRFLOW_HOME"] = str(home)
    for name, value in settings.items():
        section, _, option = name.partition(".")
        env[f"AIRFLOW__{section.upper()}__{option.upper()}"] = value
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    # Requests to 127.0.0.1 must not use a proxy of the environment.
    env["NO_PROXY"] = env["no_proxy"] = "127.0.0.1,localhost"
    env.update(extra)
    return env


def readable(line: str) -> str:
    """Return level, message and errors of a JSON line of a task log."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    causes = "".join(f": {cause['exc_type']}: {cause['exc_value']}" for cause in entry.get("error_detail", ()))
    return f"{entry.get('level', '')}: {entry.get('event', '')}{causes}"


class AirflowComponents:
    """
    api-server, scheduler (LocalExecutor), dag-processor and triggerer with a new metadata database.

    Context manager that starts the components, waits until each is ready, and stops them. They also stop if this
    process ends.
    """

    #: The arguments of ``airflow`` for each component.
    commands: ClassVar[Mapping[str, list[str]]] = COMMANDS

    def __init__(
        self,
        dags: Path,
        *,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        start_limit: float = 180,
        progress: Callable[[str], None] | None = None,
        fast: bool = True,
    ) -> None:
        self.login = LOGIN
        self.password = secrets.token_urlsafe(12)
        self._dags = dags
        self._extra = dict(env or {})
        self._config = dict(config or {})
        self._start_limit = start_limit
        self._fast = fast
        self._progress = progress or (lambda line: None)
        self._programs: dict[str, Program] = {}

    def __enter__(self) -> Self:
        self._port = ReservedPort()
        self._workspace = Workspace("datapipe-airflow-")
        self.address = f"http://127.0.0.1:{self._port.number}"
        self.api = AirflowApi(self.address, self.login, self.password)
        try:
            self._start()
        except BaseException:  # including KeyboardInterrupt
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def home(self) -> Path:
        """AIRFLOW_HOME, which :meth:`stop` removes."""
        return self._workspace.path

    @property
    def database_url(self) -> str:
        return self._config.get(DATABASE, sqlite_url(self.home))

    def _start(self) -> None:
        self._env = airflow_environment(
            self.home, self._dags, self._port.number, config=self._config, extra=self._extra, fast=self._fast
        )
        (self.home / "passwords.json").write_text(json.dumps({self.login: self.password}))
        begun = time.monotonic()
        self._progress("creating the metadata database")
        # Migrate before the start, because components do not start without the database.
        self._migrate()
        self._progress("starting " + ", ".join(self.commands))
        for component in self.commands:
            self._launch(component)
        for component in self.commands:
            self._wait_until_ready(component, after=0)
            self._progress(f"{component} is ready after {time.monotonic() - begun:.1f} s")

    def _migrate(self) -> None:
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        self._workspace.start("db-migrate", command, env=self._env).wait(self._start_limit)

    def _launch(self, component: str, name: str | None = None) -> None:
        command = [sys.executable, "-m", "airflow", *self.commands[component]]
        self._programs[name or component] = self._workspace.start(name or component, command, env=self._env)

    def _wait_until_ready(self, component: str, *, after: int) -> None:
        wait_for(
            f"Airflow's {component} is ready",
            lambda: self._is_ready(component, after),
            limit=self._start_limit,
            interval=0.5,
            watch=list(self._programs.values()),
        )

    def _is_ready(self, component: str, after: int) -> bool:
        if not self.api.answers():
            return False
        return component == API_SERVER or any(job > after for job in self.api.live_jobs(JOBS[component]))

    def pid(self, component: str) -> int:
        """Return the process id of a component, the root of its process tree."""
        return self._programs[component].pid

    def kill(self, component: str) -> None:
        """Kill a component and its descendants with SIGKILL."""
        self._programs[component].kill()

    def restart(self, component: str) -> None:
        """Stop a component unless it was killed, start it, and wait until it is ready."""
        newest = max(self.api.live_jobs(JOBS[component]), default=0) if component in JOBS else 0
        self._programs[component].stop()
        self._launch(component)
        self._wait_until_ready(component, after=newest)

    def kill_task(self, task: TaskInstance, signum: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process of a task in a worker."""
        assert task.pid in tree_of(self.pid("scheduler"))
        os.kill(task.pid, signum)

    @contextmanager
    def second_triggerer(self) -> Iterator[None]:
        """Run a second triggerer, SECOND_TRIGGERER. It is ready as soon as it runs a trigger."""
        self._launch("triggerer", SECOND_TRIGGERER)
        try:
            yield
        finally:
            self._programs.pop(SECOND_TRIGGERER).stop()

    def freeze(self, component: str) -> None:
        """
        Suspend a component and its descendants until :meth:`thaw`.

        It is not suspended while it holds a lock of the database, which would block the others.
        """

        def frozen() -> bool:
            self._send(component, signal.SIGSTOP)
            if is_unlocked(self.database_url):
                return True
            self.thaw(component)
            return False

        wait_for(f"{component} stands still without a lock", frozen, limit=60)

    def thaw(self, component: str) -> None:
        """Resume a component that :meth:`freeze` has suspended."""
        self._send(component, signal.SIGCONT)

    def _send(self, component: str, signum: signal.Signals) -> None:
        for pid in tree_of(self.pid(component)):
            with suppress(ProcessLookupError):
                os.kill(pid, signum)

    def stop(self) -> None:
        """Stop all components, and remove the home. A second call has no effect."""
        self.api.close()
        self._workspace.close()
        self._port.release()

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None, *, limit: float = 300) -> str:
        """Wait until a DAG has been parsed, start a DAG run, and return its ID."""

        def parsed() -> bool:
            if self.api.knows_dag(dag_id):
                return True
            if errors := self.api.import_errors():
                raise ProgramError(f"No DAG {dag_id}, and DAG files that fail:\n" + "\n".join(errors))
            return False

        watch = [self._programs["dag-processor"]]
        wait_for(f"the DAG {dag_id} is parsed", parsed, limit=limit, interval=0.5, watch=watch)
        return self.api.trigger(dag_id, conf)

    def wait(
        self, dag_id: str, run_id: str, *, limit: float = 300, watch: Callable[[list[TaskInstance]], None] | None = None
    ) -> str:
        """Wait for a DAG run to end, and return its final state."""
        return self.api.wait_for_run(dag_id, run_id, limit=limit, watch=watch)

    def ends(
        self,
        dag_id: str,
        run_id: str,
        state: str = "success",
        *,
        limit: float = 300,
        watch: Callable[[list[TaskInstance]], None] | None = None,
    ) -> None:
        """Wait for a DAG run to end, and assert its state. The error contains the logs of other tasks."""
        found = self.wait(dag_id, run_id, limit=limit, watch=watch)
        if found != state:
            others = [one for one in self.api.task_instances(dag_id, run_id) if one.state != state]
            raise AssertionError("\n".join([found, *(self.log_tail(dag_id, run_id, one) for one in others)]))

    def run(self, dag_id: str, state: str = "success", *, limit: float = 300) -> str:
        """Run a DAG, assert its final state, and return the ID of the DAG run."""
        run_id = self.trigger(dag_id)
        self.ends(dag_id, run_id, state, limit=limit)
        return run_id

    def tasks(self, dag_id: str, run_id: str) -> dict[str, TaskInstance]:
        """Return the task instances of a DAG run by label."""
        return {one.label: one for one in self.api.task_instances(dag_id, run_id)}

    def logs(self, dag_id: str, run_id: str, task: TaskInstance) -> str:
        """Return the logs of all tries, as the pages of Airflow show them. A starved scheduler can run a task twice."""
        tries = range(1, task.try_number + 1)
        return "\n".join(self.api.log(dag_id, run_id, task.task_id, number) for number in tries)

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """Return the extra links of a task."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
        found: dict[str, str | None] = self.api.request("GET", path)["extra_links"]
        return found

    def log_files(self) -> Iterator[Path]:
        """Yield all log files: of the components, of the processes of the DAG processor, and of the tasks."""
        for folder in ("logs", "task-logs"):
            yield from (path for path in (self.home / folder).rglob("*") if path.is_file())

    def task_logs(self, dag_id: str, run_id: str, task_id: str) -> list[Path]:
        """Return the log files of a task. The names of those of a triggerer contain ``.trigger.``."""
        folder = self.home / "task-logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return sorted(path for path in folder.rglob("*.log*") if path.is_file())

    def log_tail(self, dag_id: str, run_id: str, instance: TaskInstance, lines: int = 25) -> str:
        """Return the end of the log of the last attempt of a task instance in a worker."""
        folder = f"map_index={instance.map_index}" if instance.map_index >= 0 else instance.task_id
        name = f"attempt={instance.try_number}.log"
        for path in self.task_logs(dag_id, run_id, instance.task_id):
            if path.name == name and path.parent.name in (folder, f"task_id={folder}"):
                logged = path.read_text(errors="replace").splitlines()[-lines:]
                return "\n".join(map(readable, logged))
        return f"no log {name} of {instance.label}"

    def was_deferred(self, dag_id: str, run_id: str, task_id: str) -> bool:
        """Return True if a triggerer has run a trigger of a task."""
        return any(".trigger." in path.name for path in self.task_logs(dag_id, run_id, task_id))
