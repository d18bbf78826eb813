"""Hostile service that holds chosen requests open, so that the harness can kill their senders."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from tests.support.hostile import HostileServer, Kind, Plan, Resource, Response, Run, Service
from tests.support.hostile.routes import Call


class Moment(StrEnum):
    """The moment at which a request is held."""

    #: A POST that starts a run has arrived, and is executed after its sender was killed.
    REQUEST = "POST not executed yet"
    #: A POST has started a run, and its response is held.
    RESPONSE = "POST executed"
    #: A POST was answered 409, and the next GET about the resource is held.
    CONFLICT = "409 decision"


@dataclass(eq=False)
class HeldRequest:
    """
    Request that the service holds open.

    :param resource_id: the resource of the request.
    :param moment: the moment at which it is held.
    :param peer_port: the port of the connection's client.
    :param server_port: the port of the service.
    """

    resource_id: str
    moment: Moment
    peer_port: int
    server_port: int
    since: float = field(default_factory=time.monotonic)
    #: True if its sender was killed during it.
    is_killed: bool = False
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let the service continue with the request."""
        self._released.set()

    def wait(self, limit: float) -> None:
        """Wait for the release, or for the limit in seconds."""
        self._released.wait(limit)


@dataclass(frozen=True)
class Rival:
    """
    Run of another client, which starts before the first request about a resource.

    :param seconds: the time for which it continues.
    """

    seconds: float


class HeldService(Service):
    """
    Service that holds each planned request once, and signals it through :attr:`held`.

    :param hold_limit: the longest time in seconds that a request is held, shorter than the timeout of clients.
    """

    def __init__(self, *, hold_limit: float = 20.0) -> None:
        super().__init__()
        self.held: queue.SimpleQueue[HeldRequest] = queue.SimpleQueue()
        self.hold_limit = hold_limit
        self.server: HostileServer | None = None
        self._planned: dict[str, Moment] = {}
        self._rivals: dict[str, Rival] = {}
        #: Resources whose 409 was sent, and whose next GET is to be held.
        self._decisions: set[str] = set()
        self._open: set[HeldRequest] = set()
        self._plan_lock = threading.Lock()
        self._by_id: dict[str, Run] = {}

    def add(self, kind: Kind, resource_id: str, **fields: Any) -> Resource:
        """Add a resource while the server runs."""
        with self._lock:
            return super().add(kind, resource_id, **fields)

    def add_history(self, resource: Resource, ended_before: float, *, plan: Plan | None = None) -> Run:
        """Add an earlier run while the server runs."""
        with self._lock:
            return super().add_history(resource, ended_before, plan=plan)

    def run_with_id(self, run_id: str) -> Run | None:
        """Return the run with an ID, without a search through the runs of thousands of resources."""
        return self._by_id.get(run_id)

    def plan(self, holds: Mapping[str, Moment], rivals: Mapping[str, Rival]) -> None:
        """Hold one request of each of these resources, and start rival runs."""
        with self._plan_lock:
            self._planned |= holds
            self._rivals |= rivals

    def open_requests(self) -> list[HeldRequest]:
        """Return the requests that are held now."""
        with self._plan_lock:
            return list(self._open)

    def respond(self, call: Call, target: str, key: str | None, replica: int) -> Response:
        """Execute one request, and hold it before or after that if it is planned."""
        with self._lock:
            resource = self._resource_of(call)
        if resource is None:
            return super().respond(call, target, key, replica)
        self._start_rival(resource)
        if call.is_start and self._take(resource, Moment.REQUEST):
            self._hold(resource, Moment.REQUEST, replica)
        response = super().respond(call, target, key, replica)
        if call.is_start and response.status == HTTPStatus.CONFLICT:
            if self._take(resource, Moment.CONFLICT):
                with self._plan_lock:
                    self._decisions.add(resource.id)
        elif call.is_start and self._take(resource, Moment.RESPONSE):
            self._hold(resource, Moment.RESPONSE, replica)
        elif call.method == "GET" and self._is_decision(resource):
            self._hold(resource, Moment.CONFLICT, replica)
        return response

    def change_ends(self, ends: Mapping[str, float]) -> None:
        """Let the newest requested run of each resource end at a time, in seconds since the epoch."""
        with self._lock:
            for resource_id, end in ends.items():
                run = self.resource(resource_id).requested_runs[-1]
                run.plan = Plan(duration=end - run.started_at)

    def _new_run(self, *arguments: Any, **options: Any) -> Run:
        run = super()._new_run(*arguments, **options)
        self._by_id[run.id_in(0)] = run
        return run

    def _run_in_form(self, run_id: str, form: int) -> Run | None:
        return self._by_id.get(run_id)

    def _start_rival(self, resource: Resource) -> None:
        with self._plan_lock:
            rival = self._rivals.pop(resource.id, None)
        if rival is not None:
            # It began a little earlier, so that it is listed before the first request for a run.
            self.add_history(resource, -rival.seconds, plan=Plan(duration=rival.seconds + 2))

    def _take(self, resource: Resource, moment: Moment) -> bool:
        with self._plan_lock:
            if self._planned.get(resource.id) is not moment:
                return False
            del self._planned[resource.id]
            return True

    def _is_decision(self, resource: Resource) -> bool:
        with self._plan_lock:
            if resource.id not in self._decisions:
                return False
            self._decisions.remove(resource.id)
            return True

    def _hold(self, resource: Resource, moment: Moment, connection: int) -> None:
        assert self.server is not None
        port = int(self.server.url.rpartition(":")[2])
        held = HeldRequest(resource.id, moment, self.server.peer_port(connection), port)
        with self._plan_lock:
            self._open.add(held)
        self.held.put(held)
        held.wait(self.hold_limit)
        with self._plan_lock:
            self._open.remove(held)


@contextmanager
def held_server() -> Iterator[tuple[HeldService, HostileServer]]:
    """Run a server of a :class:`HeldService`."""
    service = HeldService()
    with HostileServer(service) as server:
        service.server = server
        yield service, server
