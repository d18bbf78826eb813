"""Lineage of tasks for OpenLineage's listener, which calls it in a separate process while the task waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.flows import Flow, run_blocking
from airflow_provider_datapipe.hooks.connection import ConnectionExtra, read_extra, settings_of
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.lineage.asking import Budget, LineageClient, budget_of
from airflow_provider_datapipe.lineage.collect import PUBLISHED, Work, lineage_of
from airflow_provider_datapipe.lineage.facets import operator_lineage
from airflow_provider_datapipe.lineage.names import Naming
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result, exception_for

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_datapipe.api.settings import Settings
    from airflow_provider_datapipe.runs.batch import Batch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskOfRuns:
    """
    Task that runs resources of the service.

    :param conn_id: the connection ID.
    :param kind: kind of the runs.
    :param targets: flow that returns the resources to run, without running them.
    :param queries: function that returns ad hoc SQL queries by key.
    :param version: SQL version of transforms, as in :class:`~airflow_provider_datapipe.lineage.collect.Work`.
    :param batch: the runs; None if this process has not started any, for example at the start of the task.
    """

    conn_id: str
    kind: str
    targets: Callable[[], Flow[list[RunTarget]]]
    queries: Callable[[], Mapping[str, str]] = field(default=dict)
    version: str | None = None
    batch: Batch | None = None


def lineage_of_task(task: TaskOfRuns, budget: Budget | None = None) -> OperatorLineage[Any, Any] | None:
    """
    Return the inputs, outputs and runs of a task, as far as they can be determined within the time budget.

    :param task: the task.
    :param budget: time budget for requests; None to start a new event.
    :returns: the lineage; None if the connection is not usable.
    """
    hook = DatapipeHook(task.conn_id)
    try:
        connection: Any = hook.get_connection(task.conn_id)
        extra = read_extra(connection, ConnectionExtra)
        settings = settings_of(connection, extra)
        naming = _naming_of(settings, extra.lineage_warehouse)
        client = LineageClient(settings, budget or budget_of(task.conn_id, begins=True))
    except (DatapipeError, AirflowNotFoundException) as error:
        log.warning("Cannot report the inputs and outputs of this task to OpenLineage: %s", error)
        return None
    try:
        work = run_blocking(_work(task), client.send, _no_pause)
        lineage = run_blocking(lineage_of(work, naming), client.send, _no_pause)
    finally:
        client.close()
    if problem := client.problem or lineage.problem:
        log.warning("The inputs and outputs of this task are reported incompletely to OpenLineage: %s", problem)
    return operator_lineage(lineage, naming.service)


def _naming_of(settings: Settings, warehouse: str | None) -> Naming:
    netloc = httpx.URL(settings.base_url).netloc.decode("ascii")
    try:
        return Naming.of(netloc, warehouse)
    except ValueError as error:
        log.warning("Ignoring an extra field of the connection: %s", error)
        return Naming.of(netloc)


async def _work(task: TaskOfRuns) -> Work:
    """Return the work of a task: from its runs, or from its arguments before the runs start."""
    batch = task.batch
    queries: tuple[str, ...] = ()
    # The task itself reports invalid arguments.
    with suppress(ValueError, TypeError, AttributeError):
        queries_of_task: Iterable[Any] = task.queries().values()
        # Decorated functions compute their queries later, when the task runs.
        queries = tuple(sql for sql in queries_of_task if isinstance(sql, str) and sql)
    if batch is None:
        found: list[RunTarget] = []
        with suppress(DatapipeError, ValueError, TypeError):
            found = await task.targets()
        return Work(task.kind, found, {}, queries, task.version)
    known = [*(end.reference for end in batch.ended), *batch.waiting]
    targets = {each.resource_id: RunTarget(each.resource_id, each.name, sync_id=each.sync_id) for each in known}
    targets |= {each.resource_id: each for each in [*batch.queued, *(blocked.target for blocked in batch.blocked)]}
    if not targets and (transform_id := batch.note.get("transform_id")) and not _is_draft(batch):
        # The deployment had nothing to build.
        targets[transform_id] = RunTarget(transform_id, transform_id)
    has_succeeded = bool(batch.ended) and batch.is_over and all(exception_for(end) is None for end in batch.ended)
    return Work(
        task.kind,
        list(targets.values()),
        {end.reference.resource_id: build_run_result(end) for end in batch.ended},
        queries,
        # After a successful build, the published version is the one that was built, even if a newer draft exists.
        PUBLISHED if has_succeeded else task.version,
        is_over=batch.is_over,
    )


def _is_draft(batch: Batch) -> bool:
    """Return True for a deployment of a draft: the warehouse does not contain its SQL."""
    return (batch.note.get("result") or {}).get("outcome") == Outcome.SKIPPED


def _no_pause(seconds: float) -> None:
    """Do nothing instead of pausing: lineage does not wait."""
