"""What the listener of OpenLineage is told of a task. It asks in a process of its own, for which the task waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.hooks.connection import settings_of
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.lineage.asking import Asker, Budget, budget_of
from airflow_provider_datapipe.lineage.collect import PUBLISHED, Work, lineage_of
from airflow_provider_datapipe.lineage.facets import operator_lineage
from airflow_provider_datapipe.lineage.names import Naming
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Target
from airflow_provider_datapipe.runs.steps import Steps, drive
from airflow_provider_datapipe.runs.verdict import error_of, result_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_datapipe.api.settings import Settings
    from airflow_provider_datapipe.runs.batch import Batch

log = logging.getLogger(__name__)

#: The connection's further field that says what the warehouse is.
WAREHOUSE = "lineage_warehouse"


@dataclass(frozen=True, slots=True)
class TaskOfRuns:
    """
    A task that runs things on the service.

    :param conn_id: the connection.
    :param kind: the kind of its runs.
    :param targets: finds what it is going to run, without running it.
    :param queries: gives the SQL that it is going to run as it is, by what each is for.
    :param version: which SQL of transforms it runs, as :class:`~airflow_provider_datapipe.lineage.collect.Work` has it.
    :param batch: its runs; None in a process in which it has not got to them, as at its start.
    """

    conn_id: str
    kind: str
    targets: Callable[[], Steps[list[Target]]]
    queries: Callable[[], Mapping[str, str]] = field(default=dict)
    version: str | None = None
    batch: Batch | None = None


def lineage_of_task(task: TaskOfRuns, budget: Budget | None = None) -> OperatorLineage[Any, Any] | None:
    """
    Say what a task reads, writes and runs, as far as that can be found out soon.

    :param task: the task.
    :param budget: the time that requests may take; None where an event begins with this task.
    :returns: the lineage; None if the connection can't be used.
    """
    hook = DatapipeHook(task.conn_id)
    try:
        connection: Any = hook.get_connection(task.conn_id)
        settings = settings_of(connection, hook.extra)
        naming = naming_of(settings, connection.extra_dejson)
        asker = Asker(settings, budget or budget_of(task.conn_id, begins=True))
    except (DatapipeError, AirflowNotFoundException) as error:
        log.warning("OpenLineage is told nothing of what this task reads and writes: %s", error)
        return None
    try:
        work = drive(_work(task), asker.send, _no_pause)
        lineage = drive(lineage_of(work, naming), asker.send, _no_pause)
    finally:
        asker.close()
    if problem := asker.problem or lineage.problem:
        log.warning("OpenLineage is not told all of what this task reads and writes: %s", problem)
    return operator_lineage(lineage, naming.service)


def naming_of(settings: Settings, extra: Mapping[str, Any]) -> Naming:
    """
    Say how the datasets of a service are called.

    :param settings: how it is reached.
    :param extra: the connection's further fields.
    """
    netloc = httpx.URL(settings.base_url).netloc.decode("ascii")
    try:
        return Naming.of(netloc, extra.get(WAREHOUSE) or None)
    except ValueError as error:
        log.warning("The connection's extra field is not used: %s", error)
        return Naming.of(netloc)


def _work(task: TaskOfRuns) -> Steps[Work]:
    """Say what runs: as it was run, or as far as it can be found out before."""
    batch = task.batch
    queries: tuple[str, ...] = ()
    # What is wrong with the arguments is said by the task itself.
    with suppress(ValueError, TypeError, AttributeError):
        given: Iterable[Any] = task.queries().values()
        # What a function computes is not there before it was called.
        queries = tuple(sql for sql in given if isinstance(sql, str) and sql)
    if batch is None:
        found: list[Target] = []
        with suppress(DatapipeError, ValueError, TypeError):
            found = yield from task.targets()
        return Work(task.kind, found, {}, queries, task.version)
    known = [*(end.reference for end in batch.ended), *batch.waiting]
    targets = {each.resource_id: Target(each.resource_id, each.name, sync_id=each.sync_id) for each in known}
    targets |= {each.resource_id: each for each in [*batch.queued, *(one.target for one in batch.hindered)]}
    if not targets and (transform_id := batch.note.get("transform_id")) and not _is_draft(batch):
        # A deployment that found nothing to be built.
        targets[transform_id] = Target(transform_id, transform_id)
    has_succeeded = bool(batch.ended) and batch.is_over and all(error_of(end) is None for end in batch.ended)
    return Work(
        task.kind,
        list(targets.values()),
        {end.reference.resource_id: result_of(end) for end in batch.ended},
        queries,
        # What was built stands now, whatever has been written since.
        PUBLISHED if has_succeeded else task.version,
        is_over=batch.is_over,
    )


def _is_draft(batch: Batch) -> bool:
    """Tell whether a deployment was not to publish: what stands in the warehouse is none of its own."""
    return (batch.note.get("result") or {}).get("outcome") == Outcome.SKIPPED


def _no_pause(seconds: float) -> None:
    """Pass over a pause: lineage does not wait."""
