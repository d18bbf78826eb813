"""
Execution of tasks against the hostile service in simulated time, and comparison of their reports with the truth.

The truth is the behavior of the service: which requests started which runs, and the outcomes of these runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal
from unittest import mock

from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator, TransformRematerializeOperator
from tests.support.hostile import API_KEY, PROXY_PASSWORD, Faults, HostileServer, Plan, Resource, Run, Service
from tests.support.hostile import Kind as ResourceKind
from tests.support.hostile.faults import changed_fields
from tests.support.simulated_time import simulated_time
from tests.support.tasks import Memory, context_of, copy_of, first_event, recreated_trigger, run

TaskKind = Literal["elt_stream", "elt_sync", "orchestration", "reverse_etl", "publish", "rematerialize"]
#: Operator of each kind of task, and its argument.
OPERATORS: dict[TaskKind, tuple[Callable[..., Any], str]] = {
    "elt_stream": (EltStreamRunOperator, "stream_id"),
    "elt_sync": (EltSyncRunOperator, "sync_id"),
    "orchestration": (OrchestrationRunOperator, "orchestration_id"),
    "reverse_etl": (ReverseEtlRunOperator, "reverse_etl_sync_id"),
    "publish": (TransformPublishOperator, "transform_id"),
    "rematerialize": (TransformRematerializeOperator, "transform_id"),
}
TASK_KINDS: tuple[TaskKind, ...] = tuple(OPERATORS)
RESOURCE_KINDS: dict[TaskKind, ResourceKind] = {
    "elt_stream": "elt_stream",
    "elt_sync": "elt_stream",
    "orchestration": "orchestration",
    "reverse_etl": "reverse_etl",
    "publish": "transform",
    "rematerialize": "transform",
}
#: Options of tasks that require an own run.
OPTIONS: dict[TaskKind, str] = {
    "elt_stream": "full_refresh",
    "elt_sync": "full_refresh",
    "reverse_etl": "retry_failed_records",
}

#: Timeout of a task, and delay between two tries, in seconds.
TIMEOUT, RETRY_DELAY = 7_200.0, 300.0
#: Latency of a request in seconds.
LATENCY = 0.0213
#: Limit of requests about one resource per minute. Without faults, a wait sends at most one request per second
#: (``WaitPolicy.fastest``), in addition to the start, its retries and the search for a lost run.
MOST_PER_MINUTE = 60
#: Limit of requests for a run of one resource per minute. Refused requests are repeated after 1, 2, 4, 8, ... s.
MOST_STARTS_PER_MINUTE = 7
#: Number of requests after which the service is slow, so that a loop without a pause ends.
_MOST_REQUESTS = 800


@dataclass(frozen=True, repr=False)
class Case:
    """
    Task, and the behavior of the service.

    :param kind: kind of task.
    :param faults: faults of the resource; of a sync, of its first stream.
    :param account: faults of the whole service.
    :param plans: courses of the runs that the task starts, in order; the last one repeats.
    :param option: use the option of this kind (:data:`OPTIONS`).
    :param if_running: policy of the task.
    :param rival: seconds for which another user's run continues when the task starts; None for no such run.
    :param killed: the process of the first try ends "before" or "after" it changes the task state for the n-th time.
    :param proxy: the service is reached through a proxy.
    :param retry_delay: seconds between two tries.
    :param tries: maximum number of tries of the task.
    :param seed: selects the replicas.
    """

    kind: TaskKind
    deferrable: bool
    faults: Faults = Faults()  # noqa: RUF009 - Faults is frozen
    account: Faults = Faults()  # noqa: RUF009 - Faults is frozen
    plans: tuple[Plan, ...] = (Plan(duration=200.0, delay=20.0),)
    option: bool = False
    if_running: Literal["attach", "wait", "fail", "skip"] = "attach"
    rival: float | None = None
    killed: tuple[Literal["before", "after"], int] | None = None
    proxy: bool = False
    retry_delay: float = RETRY_DELAY
    tries: int = 5
    seed: int = 0

    def __repr__(self) -> str:
        """Return only the fields that differ from their defaults."""
        return changed_fields(self)

    def task(self) -> Any:
        """Return the operator."""
        given: dict[str, Any] = {
            "task_id": "task",
            "deferrable": self.deferrable,
            "timeout": TIMEOUT,
            "if_running": self.if_running,
        }
        if self.option:
            given[OPTIONS[self.kind]] = True
        operator, argument = OPERATORS[self.kind]
        return operator(**{argument: "sync" if self.kind == "elt_sync" else "one"}, **given)

    def service(self) -> Service:
        """Return the service, with earlier runs of each resource."""
        service = Service(self.account, seed=self.seed, latency=LATENCY, most_requests=_MOST_REQUESTS)
        kind = RESOURCE_KINDS[self.kind]
        fields: dict[str, Any] = {"plans": self.plans, "faults": self.faults}
        if kind == "elt_stream":
            fields["parent_id"] = "sync"
        if kind == "reverse_etl":
            fields["failed_records"] = ["record-1", "record-2"]
        resources = [service.add(kind, "one", **fields)]
        if self.kind == "elt_sync":
            resources.append(service.add(kind, "two", parent_id="sync", plans=(Plan(duration=150.0, delay=10.0),)))
        for resource in resources:
            for ended_before in (7_200.0, 600.0):
                service.add_history(resource, ended_before, plan=Plan(duration=180.0))
        if self.rival is not None:
            service.add_history(resources[0], -self.rival, plan=Plan(duration=self.rival + 100.0))
        return service

    @property
    def resource_ids(self) -> tuple[str, ...]:
        """Return the IDs of the resources that the task runs."""
        return ("one", "two") if self.kind == "elt_sync" else ("one",)


class Killed(BaseException):
    """End of the process, which no handler of the code under test catches."""


@dataclass
class MortalMemory(Memory):
    """Task state that ends the process of a task."""

    killed: tuple[Literal["before", "after"], int] | None = None
    changes: int = 0

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self.changes += 1
        self._die_if("before")
        super().set(key, value)
        self._die_if("after")

    def _die_if(self, when: str) -> None:
        if self.killed == (when, self.changes):
            raise Killed


@dataclass(eq=False)
class Attempt:
    """
    Try of a task.

    :param began: start time.
    :param ended: end time.
    :param result: the returned value, or the value that a failed task left as XCom.
    :param error: the exception, None after a success.
    """

    began: float
    ended: float
    result: Any = None
    error: BaseException | None = None

    @property
    def is_skipped(self) -> bool:
        """Return True if the task was skipped."""
        return isinstance(self.error, AirflowSkipException)


@dataclass(eq=False)
class Played:
    """
    Case, and its history after it was played.

    :param service: the service, with its journal.
    :param attempts: the tries of the task.
    :param memory: its task state and XComs.
    """

    case: Case
    service: Service
    attempts: list[Attempt] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)

    def __str__(self) -> str:
        """Return the case, the tries and the requests that started something or failed."""
        lines = [repr(self.case)]
        for attempt in self.attempts:
            reported = repr(attempt.error) if attempt.error else json.dumps(attempt.result)
            lines.append(f"try from {self._at(attempt.began)} to {self._at(attempt.ended)}: {reported}")
        for resource_id in self.case.resource_ids:
            for each in self.service.runs_of(resource_id):
                begin, end = self._at(each.started_at), self._at(each.finished_at)
                lines.append(f"run {each.number} of {resource_id} from {begin} to {end}: {each.plan.outcome}")
        notable = [entry for entry in self.service.journal if entry.is_start or entry.fault or entry.method != "GET"]
        lines += [f"{self._at(entry.at)} {entry}" for entry in notable[:20]]
        lines.append(f"{len(self.service.journal)} requests")
        return "\n  ".join(lines)

    def _at(self, at: float) -> str:
        return f"{at - self.service.began:.1f} s"


@contextmanager
def connected(service: Service, *, proxy: bool = False) -> Iterator[HostileServer]:
    """Start the server, and create the default connection to it."""
    with HostileServer(service) as server:
        connection: dict[str, Any] = {"conn_type": "datapipe", "host": server.url, "password": server.api_key}
        if proxy:
            connection["host"] = "http://service.invalid"
            connection["extra"] = {"allow_plain_http": True, "proxy": server.proxy_url}
        with mock.patch.dict(os.environ, AIRFLOW_CONN_DATAPIPE_DEFAULT=json.dumps(connection)):
            yield server


def play(case: Case) -> Played:
    """Run the task of a case, and retry it while it fails. The same case always has the same course."""
    servers: list[HostileServer] = []
    # Seed of the jitter of intervals.
    random.seed(case.seed)
    with simulated_time(lambda: all(server.is_idle for server in servers)):
        played = Played(case, case.service(), memory=MortalMemory(killed=case.killed))
        with connected(played.service, proxy=case.proxy) as server:
            servers.append(server)
            for number in range(case.tries):
                if number:
                    time.sleep(case.retry_delay)
                attempt = _attempt(case, played.memory)
                played.attempts.append(attempt)
                if attempt.error is None or attempt.is_skipped:
                    break
    return played


def _attempt(case: Case, memory: Memory) -> Attempt:
    began = time.time()
    memory.pushed.clear()
    try:
        result = run(case.task(), memory)
    except (Exception, Killed) as error:  # noqa: BLE001 - unexpected errors count as wrong outcomes
        return Attempt(began, time.time(), memory.pushed.get("return_value"), error)
    return Attempt(began, time.time(), json.loads(json.dumps(result, allow_nan=False)))


def play_together(service: Service, tasks: Sequence[Any], servers: list[HostileServer]) -> list[Attempt]:
    """
    Start tasks that defer, one after another, and run their triggers concurrently on one event loop.

    :param service: has their resources. Create it within :func:`.simulated_time.simulated_time`.
    :param servers: gets the server, which the simulated time has to know.
    :return: one try of each task, which ends when its trigger ends.
    """
    with connected(service) as server:
        servers.append(server)
        return _run_together(tasks)


def _run_together(tasks: Sequence[Any]) -> list[Attempt]:
    began = time.time()
    waiting = [_deferral(task) for task in tasks]

    async def ends() -> list[tuple[Any, float]]:
        return list(await asyncio.gather(*(_event(deferral) for deferral in waiting)))

    attempts = []
    for task, deferral, (event, ended) in zip(tasks, waiting, asyncio.run(ends()), strict=True):
        attempt = Attempt(began, ended)
        try:
            attempt.result = getattr(copy_of(task), deferral.method_name)(context_of(Memory()), event=event)
        except Exception as error:  # noqa: BLE001 - the test evaluates any error
            attempt.error = error
        attempts.append(attempt)
    return attempts


def _deferral(task: Any) -> TaskDeferred:
    try:
        task.execute(context_of(Memory()))
    except TaskDeferred as deferral:
        return deferral
    raise AssertionError("the task ended without deferring")


async def _event(deferral: TaskDeferred) -> tuple[Any, float]:
    event = await first_event(recreated_trigger(deferral))
    return event, time.time()


def wrong_outcomes(played: Played, *, must_succeed: bool = False) -> list[str]:
    """
    Compare the reports of a task with the truth.

    :param must_succeed: whether its faults pass, so that the last try has to succeed.
    """
    found = [
        *_two_runs(played),
        *_false_successes(played),
        *_false_failures(played),
        *_too_many_requests(played),
        *_defects(played),
        *_secrets(played),
        *_left_behind(played),
    ]
    last = played.attempts[-1]
    if must_succeed and last.error is not None:
        found.append(f"the last try failed: {last.error!r}")
    return found


def _is_good(started: Run) -> bool:
    return started.plan.outcome in ("COMPLETED", "CHUNK_COMPLETED") and not started.plan.failed_rows


def _two_runs(played: Played) -> Iterator[str]:
    """Find a run that was started although the previous one was active or had succeeded."""
    for resource_id in played.case.resource_ids:
        starts = played.service.runs_of(resource_id)
        for earlier, later in pairwise(starts):
            if later.requested_at < earlier.finished_at:
                yield f"run {later.number} was started while run {earlier.number} was going"
            elif _is_good(earlier):
                yield f"run {later.number} was started after run {earlier.number} had succeeded"


def _reports(played: Played, attempt: Attempt) -> dict[str, dict[str, Any]]:
    """Return the reports of a try about each resource."""
    if not attempt.result:
        return {}
    if played.case.kind == "elt_sync":
        return {one["resource_id"]: one for one in attempt.result["streams"].values()}
    return {"one": attempt.result}


def _false_successes(played: Played) -> Iterator[str]:
    """Find a run that was reported as succeeded, but did not succeed for this task."""
    for attempt in played.attempts:
        reports = _reports(played, attempt)
        if attempt.error is None and set(reports) != set(played.case.resource_ids):
            yield f"the task succeeded, and reported only {sorted(reports)}"
        for resource_id, report in reports.items():
            if report["outcome"] == "succeeded":
                resource = played.service.resource(resource_id)
                yield from _wrong_in_success(played, attempt, resource, report, _reported(played, attempt, report))


def _origin(run: Run) -> Run:
    return run if run.continues is None else _origin(run.continues)


def _reported(played: Played, attempt: Attempt, report: dict[str, Any]) -> Run | None:
    """Return the run of a report; of a transform, the last build."""
    if RESOURCE_KINDS[played.case.kind] != "transform":
        return played.service.run_with_id(report["run_id"] or "")
    builds = played.service.resource("one").requested_runs
    return next((build for build in reversed(builds) if build.requested_at <= attempt.ended), None)


def _wrong_in_success(
    played: Played, attempt: Attempt, resource: Resource, report: dict[str, Any], reported: Run | None
) -> Iterator[str]:
    what = f"success of {resource.id} was reported"
    if reported is None or reported.resource is not resource:
        yield f"{what} by the run {report['run_id']}, which does not exist"
        return
    if reported.plan.outcome != "COMPLETED" or reported.finished_at > attempt.ended:
        yield f"{what} by run {reported.number}, which is {reported.status_at(attempt.ended)}"
    if reported.finished_at < played.attempts[0].began:
        yield f"{what} by run {reported.number}, which had ended before the task began"
    if _origin(reported).request is None and not report["attached"]:
        yield f"{what} by run {reported.number} as the task's own, which it did not start"
    if played.case.option and resource.kind == "elt_stream" and not reported.full_refresh:
        yield f"{what} by run {reported.number}, which is no full refresh"
    if played.case.option and resource.kind == "reverse_etl" and not reported.retried:
        yield f"{what} by run {reported.number}, which did not retry the failed records"


def _false_failures(played: Played) -> Iterator[str]:
    """Find a run that was reported as failed, but had not failed."""
    for attempt in played.attempts:
        for report in _reports(played, attempt).values():
            reported = _reported(played, attempt, report)
            if reported is None or report["outcome"] not in ("failed", "canceled", "partial"):
                continue
            if reported.finished_at > attempt.ended or _is_good(reported):
                state = reported.status_at(attempt.ended)
                yield f"run {reported.number} is {state}, and was reported as {report['outcome']}"


def _too_many_requests(played: Played) -> Iterator[str]:
    service = played.service
    for resource_id in played.case.resource_ids:
        resource = service.resource(resource_id)
        if (most := service.busiest(60.0, resource)) > MOST_PER_MINUTE:
            yield f"{most} requests about {resource_id} in a minute"
        starts = [entry.at for entry in service.journal if entry.is_start and entry.resource is resource]
        most = max((sum(begin <= at < begin + 60 for at in starts) for begin in starts), default=0)
        if most > MOST_STARTS_PER_MINUTE:
            yield f"{most} requests for a run of {resource_id} in a minute"


def _defects(played: Played) -> Iterator[str]:
    for attempt in played.attempts:
        if attempt.error is not None and not isinstance(attempt.error, DatapipeError | AirflowSkipException | Killed):
            yield f"an unexpected error was raised: {attempt.error!r}"


def _secrets(played: Played) -> Iterator[str]:
    for name, secret in (("API key", API_KEY), ("proxy password", PROXY_PASSWORD)):
        for attempt in played.attempts:
            if secret in f"{attempt.error!r} {attempt.error} {attempt.result}":
                yield f"the {name} was reported: {attempt.error!r}"
        if secret in json.dumps([played.memory.kept, played.memory.pushed]):
            yield f"the {name} is in the task state or in an XCom"


def _left_behind(played: Played) -> Iterator[str]:
    """Find a full refresh that a task without a run has left to the next scheduled run."""
    case = played.case
    for resource_id in case.resource_ids:
        resource = played.service.resource(resource_id)
        refused = case.rival is not None and case.if_running in ("skip", "fail") and not resource.requested_runs
        if refused and (resource.full_refresh or resource.to_retry):
            yield f"the option of {resource_id} stays requested, and the task started no run"
