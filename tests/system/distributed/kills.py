"""Kills of components, and of the worker process that has sent a held request. All kills are SIGKILL, by process ID."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle

import psutil  # type: ignore[import-untyped]  # Airflow brings psutil, nobody its stubs.
import psycopg

from tests.support.background import BackgroundThread
from tests.support.postgresql import PostgreSQL
from tests.support.redis_server import RedisServer
from tests.system.distributed.deployment import COMPONENTS, SCHEDULERS, TRIGGERERS, WORKERS, Deployment
from tests.system.distributed.held_service import HeldRequest, HeldService, Moment
from tests.system.distributed.metadata import Metadata

REDIS_EMPTY, REDIS_KEPT = "redis, data lost", "redis, data kept"
POSTGRESQL_KILLED, POSTGRESQL_RESTARTED = "postgresql", "postgresql, restarted"
SERVERS = (REDIS_EMPTY, REDIS_KEPT, POSTGRESQL_KILLED, POSTGRESQL_RESTARTED)
PAIRS = (
    ("worker-1", "triggerer-1"),
    TRIGGERERS,
    ("api-server", "scheduler-1"),
    SCHEDULERS,
    ("worker-2", REDIS_EMPTY),
    (POSTGRESQL_KILLED, "api-server"),
    WORKERS,
)
#: One kill after the other: each component and server alone, then two at once.
ALL_VICTIMS: tuple[tuple[str, ...], ...] = (*((each,) for each in (*COMPONENTS, *SERVERS)), *PAIRS)
#: The same with one component of each kind.
FEW_VICTIMS: tuple[tuple[str, ...], ...] = (
    ("triggerer-1",),
    ("worker-1",),
    ("api-server",),
    ("scheduler-1",),
    ("dag-processor",),
    (REDIS_EMPTY,),
    (REDIS_KEPT,),
    (POSTGRESQL_KILLED,),
    (POSTGRESQL_RESTARTED,),
    ("worker-2", "triggerer-2"),
)
#: The killed part of a worker: the pool process that runs the task, with the task; or the whole worker.
POOL_PROCESS, WHOLE_WORKER = "pool process", "worker"
#: Of four kills during a request, one is that of the whole worker.
SCOPES = (POOL_PROCESS, POOL_PROCESS, WHOLE_WORKER, POOL_PROCESS)
#: Seconds for which a killed server is down.
_DOWN = 3.0
#: Key of a try: DAG, run, task, and number of the try.
Try = tuple[str, str, str, int]


class Killer:
    """
    Kills and restarts, with a count of each type.

    :param report: function that prints a line.
    """

    def __init__(
        self, deployment: Deployment, database: PostgreSQL, broker: RedisServer, report: Callable[[str], None]
    ) -> None:
        self._deployment = deployment
        self._database = database
        self._broker = broker
        self._metadata = Metadata(deployment.database_url)
        self._report = report
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        #: Tries whose process was killed.
        self.killed_tries: set[Try] = set()

    def kill(self, victims: Sequence[str]) -> None:
        """Kill components and servers at once. Servers start again here, components by the process manager."""
        self._report(f"SIGKILL: {' and '.join(victims)}")
        self._note(pid for each in victims if each in WORKERS for pid in self._pids(each))
        with ThreadPoolExecutor(len(victims)) as pool:
            list(pool.map(self._kill, victims))
        with self._lock:
            self.counts[" and ".join(victims)] += 1

    def strike(self, held: HeldRequest, scope: str) -> bool:
        """
        Kill the worker process that has sent a held request.

        :return: False if no worker process has the connection any more.
        """
        found = self._sender(held)
        if found is None:
            return False
        component, chain = found
        pids = self._pids(component) if scope == WHOLE_WORKER else _tree(chain[1])
        self._note(pids)
        if scope == WHOLE_WORKER:
            self._deployment.kill(component)
        else:
            # The sender first, so that it can't read a response.
            for pid in (chain[-1].pid, *pids):
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
        with self._lock:
            self.counts[f"{held.moment}: {scope}"] += 1
        return True

    def count(self, *moments: Moment) -> int:
        """Count the kills during requests of these moments."""
        with self._lock:
            return sum(number for name, number in self.counts.items() if name.partition(":")[0] in moments)

    def _kill(self, victim: str) -> None:
        match victim:
            case "redis, data lost" | "redis, data kept":
                self._broker.kill(keep_data=victim == REDIS_KEPT)
                time.sleep(_DOWN)
                self._broker.start()
            case "postgresql":
                self._database.kill()
                time.sleep(_DOWN)
                self._database.start()
            case "postgresql, restarted":
                self._database.stop()
                self._database.start()
            case _:
                self._deployment.kill(victim)

    def _pids(self, component: str) -> list[int]:
        try:
            return _tree(psutil.Process(self._deployment.program(component).pid))
        except psutil.NoSuchProcess:
            return []

    def _note(self, pids: Iterable[int]) -> None:
        """Remember the tries that run in processes, before they are killed."""
        victims = set(pids)
        # While the database restarts, the task logs tell which tries were lost.
        with suppress(psycopg.Error):
            running = self._metadata.running() if victims else {}
            with self._lock:
                self.killed_tries |= {one for pid, one in running.items() if pid in victims}

    def _sender(self, held: HeldRequest) -> tuple[str, list[psutil.Process]] | None:
        """Return the worker and the processes from its first one down to the owner of a client's port."""
        for component in WORKERS:
            with suppress(psutil.NoSuchProcess):
                first = psutil.Process(self._deployment.program(component).pid)
                for process in first.children(recursive=True):
                    if _has_connection(process, held):
                        chain = [process]
                        while chain[0].pid != first.pid and (parent := chain[0].parent()) is not None:
                            chain.insert(0, parent)
                        return component, chain
        return None


class Striker(BackgroundThread):
    """
    Thread that kills the sender of each request that the service holds.

    :param killer: kills and counts.
    :param service: the service that holds requests.
    """

    def __init__(self, killer: Killer, service: HeldService) -> None:
        super().__init__()
        self._killer = killer
        self._service = service
        self._scopes = cycle(SCOPES)
        #: Held requests whose sender was not found in time.
        self.missed = 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                held = self._service.held.get(timeout=0.2)
            except queue.Empty:
                continue
            try:
                in_time = time.monotonic() - held.since < self._service.hold_limit / 2
                if not in_time or not self._killer.strike(held, next(self._scopes)):
                    self.missed += 1
            finally:
                held.release()


def _tree(process: psutil.Process) -> list[int]:
    return [process.pid, *(each.pid for each in process.children(recursive=True))]


def _has_connection(process: psutil.Process, held: HeldRequest) -> bool:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        for one in process.net_connections(kind="tcp"):
            if one.raddr and (one.laddr.port, one.raddr.port) == (held.peer_port, held.server_port):
                return True
    return False
