"""State, faults and journal of the hostile service. It is thread-safe; HTTP is in :mod:`.server`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tests.support.hostile.dto import Shown
from tests.support.hostile.faults import Faults, Loss, Plan, Response
from tests.support.hostile.routes import BAD_ID, COLLECTIONS, NOT_FOUND, RUN_LISTS, Call, page, refused, run_list
from tests.support.hostile.state import DAY, Kind, Resource, Run

API_KEY = "hostile-key-0123456789"
_MALFORMED = b'{"data": [{"id": '
_HTML = b"<html><body>Service temporarily unavailable</body></html>"


@dataclass(eq=False)
class Entry:
    """
    Request in the journal.

    :param number: counts the requests.
    :param at: arrival time, as seconds since the epoch.
    :param target: path and query.
    :param resource: the resource of the request, if any.
    :param is_start: it requests a run.
    :param status: status of the response; 0 without a response.
    :param fault: the fault that made the response, if any.
    :param started: the run that it started.
    """

    number: int
    at: float
    method: str
    target: str
    resource: Resource | None = None
    is_start: bool = False
    status: int = 0
    fault: str | None = None
    started: Run | None = None

    def __str__(self) -> str:
        """Return one line of the journal."""
        started = f" started run {self.started.number}" if self.started else ""
        return f"{self.number} {self.at:.3f} {self.method} {self.target} {self.status} {self.fault or ''}{started}"


class Service:
    """
    State of a service.

    :param faults: faults of the whole account; each resource has its own in addition.
    :param seed: selects the replica of each read.
    :param latency: seconds that each request takes by the clock.
    :param most_requests: from this request on each one takes an hour, so that a loop without a pause ends by its
        deadline. None for no limit.
    """

    def __init__(
        self, faults: Faults | None = None, *, seed: int = 0, latency: float = 0.0, most_requests: int | None = None
    ) -> None:
        self.faults = faults or Faults()
        self.journal: list[Entry] = []
        self.began = time.time()
        self._latency = latency
        self._most_requests = most_requests
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._resources: dict[str, Resource] = {}
        self._syncs: dict[str, Resource] = {}
        #: Requests that are executed later: when, and what to do.
        self._late: list[tuple[float, Callable[[], Response]]] = []

    # Resources.

    def add(self, kind: Kind, resource_id: str, **fields: Any) -> Resource:
        """Add a resource and return it; ``fields`` are those of :class:`.state.Resource`."""
        resource = Resource(kind, resource_id, **fields)
        resource.created_at = self.began - 30 * DAY
        self._resources[resource_id] = resource
        if resource.parent_id is not None:
            self._syncs.setdefault(resource.parent_id, resource)
        faults = resource.faults
        for number in range(faults.planned if kind in ("orchestration", "reverse_etl") else 0):
            plan = Plan(outcome="CANCELED" if faults.planned_canceled else "COMPLETED")
            due = self.began + (number + 1) * DAY
            self._new_run(resource, self.began - 60, due, plan, due_at=due)
        return resource

    def add_history(self, resource: Resource, ended_before: float, *, plan: Plan | None = None) -> Run:
        """Add an earlier run that ended some seconds before now (negative: that is still running)."""
        plan = plan or Plan()
        started = time.time() - ended_before - plan.duration
        return self._new_run(resource, started, started, plan, due_at=started)

    def runs_of(self, resource_id: str) -> list[Run]:
        """Return the runs that requests started, in order."""
        self._execute_late(everything=True)
        return self._resources[resource_id].requested_runs

    def resource(self, resource_id: str) -> Resource:
        """Return a resource."""
        return self._resources[resource_id]

    def run_with_id(self, run_id: str) -> Run | None:
        """Return the run with an ID in any format."""
        runs = (run for resource in self._resources.values() for run in resource.runs)
        return next((run for run in runs if run_id in (run.id_in(0), run.id_in(1))), None)

    def busiest(self, seconds: float, resource: Resource | None = None) -> int:
        """Return the largest number of requests within a span of seconds."""
        times = [entry.at for entry in self.journal if resource is None or entry.resource is resource]
        return max((sum(begin <= at < begin + seconds for at in times) for begin in times), default=0)

    # Requests.

    def respond(self, call: Call, target: str, key: str | None, replica: int) -> Response:
        """
        Execute one request, and return the response.

        :param target: path and query as sent.
        :param key: the API key of the request.
        :param replica: number of the connection, which selects a sticky replica.
        """
        if self._latency:
            over = self._most_requests is not None and len(self.journal) >= self._most_requests
            time.sleep(3600.0 if over else self._latency)
        with self._lock:
            self._execute_late()
            entry = Entry(len(self.journal), time.time(), call.method, target, is_start=call.is_start)
            self.journal.append(entry)
            if key != API_KEY:
                response = refused(401, "unauthorized", "The API key is missing or invalid.")
            else:
                entry.resource = self._resource_of(call)
                response = self._faulty(call, entry, replica) or self._routed(call, entry, replica)
            entry.status, entry.fault = response.status, response.fault
        return response

    def _faulty(self, call: Call, entry: Entry, replica: int) -> Response | None:
        """Return the response of a fault that does not execute the request."""
        for faults in {self.faults, self._faults_of(entry.resource)}:
            since = entry.at - self.began
            if faults.unavailable and since in faults.unavailable:
                headers = (("retry-after", faults.retry_after),) if faults.retry_after else ()
                body = {"error_code": "unavailable", "message": "Try again later."}
                return Response(faults.unavailable_status, body, headers, fault="unavailable")
            if faults.other_account and since in faults.other_account:
                return Response(faults.other_account_status, NOT_FOUND.body, fault="other_account")
            if call.is_single_run and faults.not_found and since in faults.not_found:
                return replace(NOT_FOUND, fault="not_found")
            if call.is_single_run and faults.bad_request and since in faults.bad_request:
                return replace(BAD_ID, fault="bad_request")
        resource = entry.resource
        if call.method == "GET" and resource is not None:
            resource.reads += 1
            glitch = dict(resource.faults.glitches).get(resource.reads - 1)
            if resource.faults.broken and entry.at - self.began in resource.faults.broken:
                glitch = resource.faults.broken_as
            if glitch is not None:
                return _bad(glitch)
        return None

    def _routed(self, call: Call, entry: Entry, replica: int) -> Response:
        match call.method, call.parts:
            case "POST", _ if call.is_start:
                return self._start(entry)
            case "POST", ["elt_streams", _, "request_full_refresh" | "cancel_full_refresh" as action]:
                return self._full_refresh(entry.resource, requested=action == "request_full_refresh")
            case "POST", ["reverse_etl_failed_records", "retry" | "retry_all" as action]:
                return self._retry_records(entry.resource, call, everything=action == "retry_all")
            case "GET", _:
                return self._read(call, entry, replica)
        return replace(NOT_FOUND, fault=None)

    # Starts.

    def _start(self, entry: Entry) -> Response:
        resource = entry.resource
        if resource is None:
            return NOT_FOUND
        faults = resource.faults
        order = resource.start_requests
        resource.start_requests += 1
        loss: Loss | None = faults.losses[order] if order < len(faults.losses) else None
        if loss in ("drop", "502"):
            if faults.stranger and order == 0:
                self._new_run(resource, entry.at, entry.at + 1, Plan(duration=240.0), due_at=entry.at + 1)
            return _lost(loss)
        if loss == "late":
            due = entry.at + faults.late_by
            self._late.append((due, lambda: self._execute(resource, entry, due)))
            return Response(0, fault="late")
        response = self._execute(resource, entry, entry.at)
        return response if loss is None else _lost(loss)

    def _execute(self, resource: Resource, entry: Entry, now: float) -> Response:
        faults = resource.faults
        if resource.kind in ("elt_stream", "reverse_etl"):
            if faults.stuck_conflict and now - self.began in faults.stuck_conflict:
                return self._conflict(resource, None, now)
            if active := resource.active_at(now):
                return self._conflict(resource, active, now)
        before = [run for run in resource.visible_at(now) if not run.is_planned]
        number = len(resource.requested_runs)
        plan = resource.plans[min(number, len(resource.plans) - 1)]
        run = self._new_run(resource, now, now + plan.delay, plan, request=entry.number, due_at=now)
        entry.started = run
        self._continue(run)
        if resource.kind == "orchestration":
            return Response(200, self._shown(resource, now).run(run))
        if resource.kind == "transform":
            return Response(200, self._shown(resource, now).transform(resource))
        name = next(name for name, (kind, _) in RUN_LISTS.items() if kind == resource.kind)
        parameter = RUN_LISTS[name][1]
        after = f"&starting_after={before[-1].id_in(self._form(now))}" if before else ""
        url = f"/{name}?{parameter}={resource.id}{after}&limit=1&sort_direction=asc"
        return Response(200, {"status_url": url})

    def _continue(self, run: Run) -> None:
        """Continue a load after one of its slices."""
        if run.plan.outcome == "CHUNK_COMPLETED":
            begin = run.finished_at + 1
            rest = self._new_run(
                run.resource, run.finished_at, begin, replace(run.plan, outcome="COMPLETED"), due_at=begin
            )
            rest.continues, rest.full_refresh = run, run.full_refresh

    def _conflict(self, resource: Resource, active: Run | None, now: float) -> Response:
        conflict, form, named = resource.faults.conflict, self._form(now), None
        if conflict == "missing":
            named = _unknown_id_like(Run(0, resource, now, now, Plan(), None).id_in(form))
        elif conflict == "finished" or (active is None and conflict == "named"):
            over = [run for run in resource.visible_at(now) if not run.is_active_at(now)]
            named = over[-1].id_in(form) if over else None
        elif conflict == "named" and active is not None and now >= active.started_at:
            named = active.id_in(form)
        more = {} if named is None else {"active_run_id": named}
        return refused(409, "already_running", "A run is active or scheduled.", **more)

    def _full_refresh(self, stream: Resource | None, *, requested: bool) -> Response:
        if stream is None:
            return NOT_FOUND
        stream.full_refresh = requested
        return Response(204)

    def _retry_records(self, sync: Resource | None, call: Call, *, everything: bool) -> Response:
        if sync is None:
            return NOT_FOUND
        wanted = sync.failed_records if everything else (call.body or {}).get("record_ids", [])
        sync.to_retry = [record for record in sync.failed_records if record in wanted]
        return Response(204)

    def _new_run(
        self,
        resource: Resource,
        requested_at: float,
        started_at: float,
        plan: Plan,
        *,
        request: int | None = None,
        due_at: float = 0.0,
    ) -> Run:
        run = Run(next(self._numbers), resource, requested_at, started_at, plan, request, due_at=due_at)
        if request is not None:
            run.full_refresh, resource.full_refresh = resource.full_refresh, False
            run.retried, resource.to_retry = tuple(resource.to_retry), []
        resource.runs.append(run)
        return run

    def _execute_late(self, *, everything: bool = False) -> None:
        """Execute the late requests that are due."""
        now = time.time()
        due = [work for at, work in self._late if at <= now or everything]
        self._late = [] if everything else [(at, work) for at, work in self._late if at > now]
        for work in due:
            work()

    # Reads.

    def _read(self, call: Call, entry: Entry, replica: int) -> Response:  # noqa: PLR0911 - a route each
        resource, now = entry.resource, entry.at
        faults = self._faults_of(resource)
        lags = faults.lags if faults.lags != (0.0,) else self.faults.lags
        lag = lags[replica % len(lags)] if faults.sticky or self.faults.sticky else self._chance.choice(lags)
        at = now - lag
        collection, *rest = call.parts
        if collection in RUN_LISTS:
            return self._read_runs(call, entry, at)
        if collection == "elt_syncs" and rest[1:] == ["status"]:
            sync_id = rest[0]
            streams = [each for each in self._resources.values() if each.parent_id == sync_id]
            snapshots = [self._shown(stream, at).snapshots(stream) for stream in streams]
            return Response(200, {"elt_sync_id": sync_id, "source_streams": snapshots}) if streams else NOT_FOUND
        if collection == "elt_syncs" and len(rest) == 1:
            return self._sync(rest[0], at)
        if collection == "reverse_etl_failed_records" and resource is not None:
            return self._failed_records(resource, counted=rest == ["count"])
        if collection in COLLECTIONS and not rest:
            return self._list(call, at)
        if collection in COLLECTIONS and len(rest) == 1 and resource is not None:
            return Response(200, self._resource_body(resource, at))
        return NOT_FOUND

    def _read_runs(self, call: Call, entry: Entry, at: float) -> Response:
        form = self._form(entry.at)
        resource = entry.resource
        if len(call.parts) == 2:
            run = self._run_in_form(call.parts[1], form)
            if run is None:
                known = self.run_with_id(call.parts[1])
                return NOT_FOUND if known is None and _looks_valid(call.parts[1], form) else BAD_ID
            if run.status_at(at) is None or run not in run.resource.visible_at(at):
                # A replica that does not know the run yet.
                return replace(NOT_FOUND, fault="lag")
            return Response(200, self._shown(run.resource, at).run(run))
        kind, parameter = RUN_LISTS[call.parts[0]]
        named = parameter in call.query
        if kind != "orchestration" and not named:
            return refused(400, "invalid_request", f"{parameter} is required.")
        if kind != "orchestration" and resource is None:
            return NOT_FOUND
        resources = [] if named else [each for each in self._resources.values() if each.kind == kind]
        resources = [resource] if resource else resources
        runs = sorted((run for each in resources for run in each.visible_at(at)), key=lambda run: run.place)
        query = dict(call.query)
        if kind == "orchestration":
            # Always newest due date first.
            query.pop("sort_direction", None)
        shown = {run: self._shown(run.resource, at).run(run) for run in runs}
        return run_list(shown, query, lambda cursor: self._run_in_form(cursor, form), form=form)

    def _list(self, call: Call, at: float) -> Response:
        kind = COLLECTIONS[call.parts[0]]
        found = [each for each in self._resources.values() if each.kind == kind]
        if kind == "elt_stream" and "elt_sync_id" in call.query:
            found = [each for each in found if each.parent_id == call.query["elt_sync_id"]]
        ids = [each.id for each in found]
        shown = [self._resource_body(each, at) for each in found]
        return page(shown, call.query, lambda cursor: ids.index(cursor) + 1 if cursor in ids else None, ids)

    def _resource_body(self, resource: Resource, at: float) -> dict[str, Any]:
        shown = self._shown(resource, at)
        if resource.kind == "elt_stream":
            return shown.stream(resource)
        if resource.kind == "transform":
            return shown.transform(resource)
        if resource.kind == "orchestration":
            return {"id": resource.id, "name": resource.id}
        return {
            "id": resource.id,
            "enabled": True,
            "source_type": "Transform",
            "source_id": "model",
            "destination_connection_id": "destination",
            "destination_integration_id": "crm",
            "object_type_id": "contact",
            "created_at": shown.time(resource.created_at),
            "updated_at": shown.time(resource.created_at),
            "settings": {},
        }

    def _sync(self, sync_id: str, at: float) -> Response:
        stream = self._syncs.get(sync_id)
        if stream is None:
            return NOT_FOUND
        shown = self._shown(stream, at)
        body = {
            "id": sync_id,
            "account_id": "account",
            "enabled": True,
            "status": "RUNNING",
            "source_connection_id": "source",
            "source_integration_id": "shop",
            "destination_connection_id": "warehouse",
            "destination_integration_id": "bigquery",
            "destination_schema_name": "raw",
            "created_at": shown.time(stream.created_at),
            "updated_at": shown.time(stream.created_at),
        }
        return Response(200, body)

    def _failed_records(self, sync: Resource, *, counted: bool) -> Response:
        if counted:
            return Response(200, {"count": len(sync.failed_records)})
        error = f"refused {API_KEY}" if sync.faults.echo_key else "refused"
        items = [{"sync_id": sync.id, "record_id": record, "error": error} for record in sync.failed_records]
        return Response(200, {"data": items})

    # Helpers.

    def _faults_of(self, resource: Resource | None) -> Faults:
        return self.faults if resource is None else resource.faults

    def _form(self, at: float) -> int:
        change = self.faults.id_change_at
        return int(change is not None and at - self.began >= change)

    def _shown(self, resource: Resource, at: float) -> Shown:
        return Shown(at, resource.faults, self._form(time.time()), API_KEY)

    def _run_in_form(self, run_id: str, form: int) -> Run | None:
        runs = (run for resource in self._resources.values() for run in resource.runs)
        return next((run for run in runs if run.id_in(form) == run_id), None)

    def _resource_of(self, call: Call) -> Resource | None:
        collection, *rest = call.parts
        if collection in COLLECTIONS and rest:
            return self._of_kind(rest[0], COLLECTIONS[collection])
        if collection == "reverse_etl_failed_records":
            return self._of_kind(call.query.get("reverse_etl_sync_id", ""), "reverse_etl")
        if collection in RUN_LISTS:
            kind, parameter = RUN_LISTS[collection]
            if rest:
                run = self.run_with_id(rest[0])
                return run.resource if run and run.resource.kind == kind else None
            return self._of_kind(call.query.get(parameter, ""), kind)
        return None

    def _of_kind(self, resource_id: str, kind: str) -> Resource | None:
        resource = self._resources.get(resource_id)
        return resource if resource and resource.kind == kind else None


def _unknown_id_like(run_id: str) -> str:
    """Return an ID of the same format that no run has."""
    return run_id[:-1] + ("a" if run_id[-1] != "a" else "b")


def _looks_valid(run_id: str, form: int) -> bool:
    return run_id.startswith("run_") == bool(form)


def _lost(loss: str) -> Response:
    if loss.endswith("502"):
        return Response(502, _HTML, fault=loss)
    if loss.endswith("malformed"):
        return Response(200, _MALFORMED, fault=loss)
    return Response(0, fault=loss)


def _bad(glitch: str) -> Response:
    if glitch.isdigit():
        status = int(glitch)
        if status == 400:
            return replace(BAD_ID, fault=glitch)
        return Response(status, {"error_code": "glitch", "message": "A glitch."}, fault=glitch)
    body = {"malformed": _MALFORMED, "html": _HTML, "empty": b""}.get(glitch)
    return Response(0, fault=glitch) if body is None else Response(200, body, fault=glitch)
