"""Kills of components, and of the worker process that has sent a held request. All kills are SIGKILL, by process ID."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import cycle

import psutil  # type: ignore[import-untyped]  # Airflow brings psutil, nobody its stubs.
import psycopg

from tests.support.background import BackgroundThread
from tests.support.postgresql import PostgreSQL
from tests.support.process_table import tree_of
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
    ("api-server",),
    ("scheduler-1",),
    ("dag-processor",),
    ("worker-1",),
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

    :param service: the service that holds requests.
    :param report: function that prints a line.
    """

    def __init__(
        self,
        deployment: Deployment,
        database: PostgreSQL,
        broker: RedisServer,
        service: HeldService,
        report: Callable[[str], None],
    ) -> None:
        self._deployment = deployment
        self._database = database
        self._broker = broker
        self._service = service
        self._metadata = Metadata(deployment.database_url)
        self._report = report
        self._lock = threading.Lock()
        #: One kill of workers at a time, so that each held request has one reason for the end of its sender.
        self._worker_lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        #: Tries whose process was killed.
        self.killed_tries: set[Try] = set()

    def kill(self, victims: Sequence[str]) -> None:
        """Kill components and servers at once. Servers start again here, components by the process manager."""
        self._report(f"SIGKILL: {' and '.join(victims)}")
        workers = [each for each in victims if each in WORKERS]
        with self._worker_lock if workers else nullcontext():
            pids = [pid for each in workers for pid in self._pids(each)]
            self._note(pids)
            held = self._sent_by(pids)
            with ThreadPoolExecutor(len(victims)) as pool:
                list(pool.map(self._kill, victims))
            self._count_killed(held, WHOLE_WORKER)
        with self._lock:
            self.counts[" and ".join(victims)] += 1

    def strike(self, held: HeldRequest, scope: str) -> None:
        """Kill the worker process that has sent a held request, and count all held requests of killed processes."""
        with self._worker_lock:
            found = None if held.is_killed else self._sender(held)
            if found is None:
                return
            component, chain = found
            pids = self._pids(component) if scope == WHOLE_WORKER else tree_of(chain[1].pid)
            self._note(pids)
            others = self._sent_by(pids)
            if scope == WHOLE_WORKER:
                self._deployment.kill(component)
            else:
                # The sender first, so that it can't read a response.
                for pid in (chain[-1].pid, *pids):
                    with suppress(psutil.NoSuchProcess):
                        psutil.Process(pid).kill()
            self._count_killed({held, *others}, scope)

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
            return tree_of(self._deployment.program(component).pid)
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

    def _sent_by(self, pids: Sequence[int]) -> set[HeldRequest]:
        """Return the held requests whose sender is one of these processes."""
        ports = {pair for pid in pids for pair in _ports(pid)} if pids else set()
        return {each for each in self._service.open_requests() if (each.peer_port, each.server_port) in ports}

    def _count_killed(self, held: Iterable[HeldRequest], scope: str) -> None:
        """Count requests that are still held after the kill of their sender."""
        are_open = set(self._service.open_requests())
        with self._lock:
            for each in are_open.intersection(held):
                if not each.is_killed:
                    each.is_killed = True
                    self.counts[f"{each.moment}: {scope}"] += 1

    def _sender(self, held: HeldRequest) -> tuple[str, list[psutil.Process]] | None:
        """Return the worker and the processes from its first one down to the owner of a client's port."""
        for component in WORKERS:
            with suppress(psutil.NoSuchProcess):
                first = psutil.Process(self._deployment.program(component).pid)
                family = {each.pid: each for each in (first, *first.children(recursive=True))}
                for process in family.values():
                    if process.pid != first.pid and (held.peer_port, held.server_port) in _ports(process.pid):
                        parents = {pid: each.ppid() for pid, each in family.items()}
                        path = path_down(first.pid, process.pid, parents)
                        return None if path is None else (component, [family[pid] for pid in path])
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
                if in_time:
                    self._killer.strike(held, next(self._scopes))
                if not held.is_killed:
                    self.missed += 1
            finally:
                held.release()


def path_down(first: int, last: int, parents: Mapping[int, int]) -> list[int] | None:
    """
    Return the processes from an ancestor down to a process.

    :param first: process ID of the ancestor.
    :param last: process ID of the process.
    :param parents: the parent of each descendant of the ancestor.
    :return: None if the ancestor has ended. Its descendants then have a parent outside of its tree, and no process
        there must be killed.
    """
    path = [last]
    while path[0] != first:
        parent = parents.get(path[0])
        if parent is None or parent not in parents:
            return None
        path.insert(0, parent)
    return path


def _ports(pid: int) -> list[tuple[int, int]]:
    """Return the own and the other port of each TCP connection of a process."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return [(each.laddr.port, each.raddr.port) for each in psutil.Process(pid).net_connections("tcp") if each.raddr]
    return []
