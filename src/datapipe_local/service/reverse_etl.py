"""Reverse ETL syncs, their runs, and the records that their destinations refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.clock import later
from datapipe_local.destinations import DESTINATIONS
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.service import connections, jobs, orchestrations, transforms
from datapipe_local.service.checks import check_cron, check_id
from datapipe_local.service.runs import Runs
from datapipe_local.store.records import JobKind, Json, RecordState, ReverseEtlSync, ReverseEtlSyncRun
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.service.context import Context
    from datapipe_local.service.runs import Direction

_MODES = frozenset({OperationName.INSERT, OperationName.UPSERT})


def runs(context: Context) -> Runs[ReverseEtlSyncRun]:
    """Give the runs of reverse ETL syncs."""
    return Runs(
        context.store.reverse_etl_sync_runs,
        "reverse_etl_sync_id",
        "/reverse_etl_sync_runs",
        "reverse ETL sync run",
        visible=context.script.visible,
    )


def page(
    context: Context, *, after: str | None, limit: int, destination_connection_id: str | None = None
) -> Page[ReverseEtlSync]:
    """Give a part of the list, by creation date; of one destination connection if its id is given."""
    return context.store.reverse_etl_syncs.page(
        Order(), after=after, limit=limit, filters={"destination_connection_id = ?": destination_connection_id}
    )


def get(context: Context, sync_id: str) -> ReverseEtlSync:
    """
    Give a sync.

    :raises NotFoundError: there is none with this id.
    """
    sync = context.store.reverse_etl_syncs.get(sync_id)
    if sync is None:
        raise NotFoundError("reverse ETL sync", sync_id)
    return sync


def activate(context: Context, sync_id: str, *, enabled: bool) -> None:
    """
    Have a sync run on its schedule, or not.

    :raises NotFoundError: there is none with this id.
    """
    with context.store.transaction():
        get(context, sync_id)
        context.store.reverse_etl_syncs.update(sync_id, enabled=enabled, updated_at=context.clock.now())


def page_of_runs(
    context: Context, sync_id: str, *, after: str | None, limit: int, direction: Direction
) -> Page[ReverseEtlSyncRun]:
    """
    Give a part of the list of a sync's runs, by start date.

    :raises NotFoundError: there is no such sync.
    """
    get(context, sync_id)
    return runs(context).page(sync_id, after=after, limit=limit, direction=direction)


def request_run(context: Context, sync_id: str) -> str:
    """
    Ask for a run, now.

    :return: The status URL: its page stays empty until the run is scheduled.
    :raises NotFoundError: there is no such sync.
    :raises BadRequestError: it is deactivated, or its source is not in the warehouse.
    :raises ConflictError: it is running or scheduled already.
    """
    with context.store.transaction():
        sync = get(context, sync_id)
        if not sync.enabled:
            raise BadRequestError(
                f"The reverse ETL sync {sync_id!r} is deactivated: activate it first.", error_code="not_eligible"
            )
        source = transforms.get(context, sync.source_id)
        if transforms.stands_at(source) is None:
            raise BadRequestError(
                f"The source of the reverse ETL sync {sync_id!r}, the transform {source.id!r}, is not in the"
                " warehouse: publish it first.",
                error_code="not_eligible",
            )
        jobs.refuse_if_any(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id, f"the reverse ETL sync {sync_id!r}")
        status_url = runs(context).status_url(sync_id)
        due_at = later(context.clock.now(), context.scheduling_delay_of(sync_id))
        jobs.add(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id, due_at)
    context.wake.set()
    return status_url


def failed_records(context: Context, sync_id: str, *, limit: int) -> list[tuple[str, str]]:
    """
    Give unresolved failures: the ids of records and the reasons, by id.

    :raises NotFoundError: there is no such sync.
    """
    get(context, sync_id)
    return [
        (row["record_id"], row["error"])
        for row in context.store.database.rows(
            "SELECT record_id, error FROM reverse_etl_records WHERE sync_id = ? AND state = ?"
            " ORDER BY record_id LIMIT ?",
            sync_id,
            RecordState.FAILED,
            limit,
        )
    ]


def count_failed_records(context: Context, sync_id: str) -> int:
    """
    Count the unresolved failures.

    :raises NotFoundError: there is no such sync.
    """
    get(context, sync_id)
    return int(
        context.store.database.value(
            "SELECT count(*) FROM reverse_etl_records WHERE sync_id = ? AND state = ?", sync_id, RecordState.FAILED
        )
    )


def retry(context: Context, sync_id: str, record_ids: Sequence[str] | None = None) -> None:
    """
    Reset failures, so that the next run sends the records again.

    An id without an unresolved failure changes nothing: the failure may have been resolved in the meantime.

    :param context: The service.
    :param sync_id: The sync.
    :param record_ids: The records; all that failed if not given.
    :raises NotFoundError: there is no such sync.
    """
    with context.store.transaction():
        get(context, sync_id)
        reset = "UPDATE reverse_etl_records SET state = ?, error = NULL WHERE sync_id = ? AND state = ?"
        if record_ids is None:
            context.store.database.run(reset, RecordState.RESET, sync_id, RecordState.FAILED)
        else:
            context.store.database.run_many(
                f"{reset} AND record_id = ?",
                [(RecordState.RESET, sync_id, RecordState.FAILED, record_id) for record_id in record_ids],
            )


def put(
    context: Context,
    sync_id: str,
    *,
    source_id: str,
    destination_connection_id: str,
    object_type_id: str,
    sync_interval: str | None,
    enabled: bool,
    orchestration_workflow_id: str | None,
    operation: Json,
) -> None:
    """
    Create a sync, or change it.

    :param operation: ``mode`` and ``mappings``, as ``ReverseEtlSyncOperationDto``.
    :raises BadRequestError: a value is not allowed.
    :raises NotFoundError: the transform, the connection or the orchestration does not exist.
    """
    check_id("id", sync_id)
    check_id("object_type_id", object_type_id)
    if sync_interval is not None:
        check_cron("sync_interval", sync_interval)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    transforms.get(context, source_id)
    integration_id = connections.get(context, destination_connection_id).integration_id
    if integration_id not in DESTINATIONS:
        raise BadRequestError(
            f"destination_connection_id: {destination_connection_id!r} is one of {integration_id!r}, which is no"
            " destination."
        )
    _check_operation(operation)
    now = context.clock.now()
    fields: Json = {
        "enabled": enabled,
        "source_id": source_id,
        "destination_connection_id": destination_connection_id,
        "object_type_id": object_type_id,
        "sync_interval": sync_interval,
        "orchestration_workflow_id": orchestration_workflow_id,
        "operation": operation,
        "updated_at": now,
    }
    if context.store.reverse_etl_syncs.get(sync_id) is None:
        context.store.reverse_etl_syncs.insert(ReverseEtlSync(id=sync_id, settings={}, created_at=now, **fields))
    else:
        context.store.reverse_etl_syncs.update(sync_id, **fields)


def _check_operation(operation: Json) -> None:
    if operation["mode"] not in _MODES:
        raise BadRequestError(
            f"operation: the destination cannot {operation['mode']}: choose {' or '.join(sorted(_MODES))}."
        )
    mappings = operation["mappings"]
    if not mappings:
        raise BadRequestError("operation: there are no mappings: name at least one column and its property.")
    targets = [mapping["destination_property_id"] for mapping in mappings]
    twice = sorted({target for target in targets if targets.count(target) > 1})
    if twice:
        raise BadRequestError(f"operation: the property {twice[0]!r} is mapped more than once.")
    if operation["mode"] == OperationName.UPSERT and not any(mapping.get("primary_key") for mapping in mappings):
        raise BadRequestError("operation: to upsert, mark the mapping of the key with primary_key: true.")
