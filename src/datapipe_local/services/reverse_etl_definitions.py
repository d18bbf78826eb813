"""Creation, update and validation of reverse ETL sync definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import BadRequestError, NotFoundError
from datapipe_local.connectors import destinations
from datapipe_local.connectors.destinations.settings import LONGEST_NAME
from datapipe_local.services import connections, jobs, orchestrations, reverse_etl_sources, reverse_etl_syncs
from datapipe_local.services import reverse_etl_catalog as offers
from datapipe_local.services.checks import check_cron, check_id, check_text
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import Connection, JobKind, Json, ReverseEtlSync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipe_local.services.context import Context
    from datapipe_local.services.reverse_etl_sources import Source

#: Path segments that the interface uses in place of a sync ID.
_RESERVED = frozenset({"available_operations", "destination_schema", "object_types", "settings_schema"})


def create(
    context: Context,
    *,
    source_id: str,
    destination_connection_id: str,
    object_type_id: str,
    operation: Json,
    sync_interval: str | None = None,
    orchestration_workflow_id: str | None = None,
    settings: Json | None = None,
) -> ReverseEtlSync:
    """
    Create an active sync.

    :param operation: ``mode`` and ``mappings``, as in ``ReverseEtlSyncOperationDto``.
    :raises BadRequestError: if a value is invalid, or refers to a resource that does not exist.
    """
    # Outside the transaction, because it may read the warehouse and files.
    source = _found_source(context, source_id)
    if not source.is_published:
        raise BadRequestError(f"source_id: {source.title} {source.obstacle}.", error_code="source_not_in_warehouse")
    connection = _found_connection(context, destination_connection_id)
    now = context.clock.now()
    sync = ReverseEtlSync(
        id=new_id(),
        enabled=True,
        source_type=source.type,
        source_id=source.id,
        destination_connection_id=connection.id,
        object_type_id=object_type_id,
        sync_interval=sync_interval,
        orchestration_workflow_id=orchestration_workflow_id,
        operation=operation,
        settings=settings or {},
        created_at=now,
        updated_at=now,
    )
    _check(sync, connection)
    _check_columns(context, source, operation)
    with context.store.transaction():
        _check_schedule(context, sync)
        # The connection may have been deleted since the first check.
        _found_connection(context, connection.id)
        context.store.reverse_etl_syncs.insert(sync)
    context.wake.set()
    return sync


def update(
    context: Context,
    sync_id: str,
    *,
    object_type_id: str,
    operation: Json,
    sync_interval: str | None = None,
    orchestration_workflow_id: str | None = None,
    settings: Json | None = None,
) -> ReverseEtlSync:
    """
    Update a deactivated sync.

    The given schedule replaces the old one completely. Settings stay unless new ones are given.

    :raises NotFoundError: if the sync does not exist.
    :raises BadRequestError: if the sync is active or has an active run, or a value is invalid.
    """
    while True:
        before = reverse_etl_syncs.get(context, sync_id)
        _refuse_if_active(context, before)
        connection = connections.get(context, before.destination_connection_id)
        after = replace(
            before,
            object_type_id=object_type_id,
            operation=operation,
            sync_interval=sync_interval,
            orchestration_workflow_id=orchestration_workflow_id,
            settings=before.settings if settings is None else settings,
            updated_at=context.clock.now(),
        )
        # Outside the transaction, because it reads the warehouse and files.
        _check(after, connection)
        _check_columns(context, reverse_etl_sources.of(context, before), operation)
        with context.store.transaction():
            if reverse_etl_syncs.get(context, sync_id) != before:
                # Another request changed the sync, so validate again.
                continue
            _refuse_if_active(context, before)
            _check_schedule(context, after)
            _change(context, before, after)
        context.wake.set()
        return after


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
    settings: Json,
) -> None:
    """
    Create or update a sync from a seed. Its source does not have to be in the warehouse yet.

    :raises BadRequestError: if a value is invalid.
    :raises NotFoundError: if the source, the connection or the orchestration does not exist.
    """
    check_id("id", sync_id)
    if sync_id in _RESERVED:
        raise BadRequestError(f"id: {sync_id!r} is a reserved path of the interface: choose another ID.")
    source = reverse_etl_sources.find(context, source_id)
    connection = connections.get(context, destination_connection_id)
    offers.check_destination("destination_connection_id", connection)
    now = context.clock.now()
    sync = ReverseEtlSync(
        id=sync_id,
        enabled=enabled,
        source_type=source.type,
        source_id=source.id,
        destination_connection_id=destination_connection_id,
        object_type_id=object_type_id,
        sync_interval=sync_interval,
        orchestration_workflow_id=orchestration_workflow_id,
        operation=operation,
        settings=settings,
        created_at=now,
        updated_at=now,
    )
    _check(sync, connection)
    if sync_interval is not None:
        check_cron("sync_interval", sync_interval)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    before = context.store.reverse_etl_syncs.get(sync_id)
    if before is None:
        context.store.reverse_etl_syncs.insert(sync)
    else:
        _change(context, before, sync)


def _change(context: Context, before: ReverseEtlSync, after: ReverseEtlSync) -> None:
    """
    Store the new definition of a sync.

    Record states apply to one target: connection, object type, settings and key. If the target changes, they are
    deleted, so that the next run sends all records. Records that the sync has already written stay at the destination.
    """

    def target(sync: ReverseEtlSync) -> Sequence[object]:
        keys = {each["destination_property_id"] for each in sync.operation["mappings"] if each.get("primary_key")}
        return sync.destination_connection_id, sync.object_type_id, sync.settings, keys

    database = context.store.database
    if target(before) != target(after):
        database.run("DELETE FROM reverse_etl_records WHERE sync_id = ?", after.id)
    if target(before) != target(after) or before.operation["mode"] != after.operation["mode"]:
        reverse_etl_syncs.forget_checkpoints(context, after.id)
    context.store.reverse_etl_syncs.save(after)


def _found_source(context: Context, source_id: str) -> Source:
    try:
        return reverse_etl_sources.find(context, source_id)
    except NotFoundError as error:
        raise BadRequestError(f"source_id: {error.message}") from error


def _found_connection(context: Context, connection_id: str) -> Connection:
    try:
        connection = connections.get(context, connection_id)
    except NotFoundError as error:
        raise BadRequestError(f"destination_connection_id: {error.message}") from error
    offers.check_destination("destination_connection_id", connection)
    return connection


def _refuse_if_active(context: Context, sync: ReverseEtlSync) -> None:
    if sync.enabled:
        raise BadRequestError(
            f"The reverse ETL sync {sync.id!r} is active: deactivate it first.", error_code="sync_still_active"
        )
    if jobs.get(context, JobKind.REVERSE_ETL_SYNC_RUN, sync.id) is not None:
        raise BadRequestError(
            f"The reverse ETL sync {sync.id!r} has an active run: wait until it has ended.",
            error_code="sync_still_active",
        )


def _check_schedule(context: Context, sync: ReverseEtlSync) -> None:
    if sync.sync_interval is None and sync.orchestration_workflow_id is None:
        raise BadRequestError(
            "sync_interval: the schedule is missing: give sync_interval or orchestration_workflow_id.",
            error_code="no_schedule",
        )
    if sync.sync_interval is not None:
        check_cron("sync_interval", sync.sync_interval)
    if sync.orchestration_workflow_id is not None:
        try:
            orchestrations.get(context, sync.orchestration_workflow_id)
        except NotFoundError as error:
            raise BadRequestError(f"orchestration_workflow_id: {error.message}") from error


def _check(sync: ReverseEtlSync, connection: Connection) -> None:
    """Raise if the destination does not support the definition."""
    kind = offers.offered(connection, "object_type_id", sync.object_type_id)
    mode = OperationName(sync.operation["mode"])
    offers.check_mode("operation", mode, kind.object_type)
    offers.checked_settings("settings", connection, sync.settings)
    catalog = destinations.catalog_of(connection)
    conflict = catalog.conflict(mode, sync.settings)
    if conflict is not None:
        raise BadRequestError(f"settings.{conflict}", error_code="invalid_settings")
    mappings: list[Json] = sync.operation["mappings"]
    if not mappings:
        raise BadRequestError("operation: there are no mappings: map at least one column to a property.")
    for mapping in mappings:
        for field in ("source_property_id", "destination_property_id"):
            if not 0 < len(check_text(f"operation.mappings.{field}", mapping[field])) <= LONGEST_NAME:
                raise BadRequestError(
                    f"operation.mappings.{field}: it is empty or too long: give 1 to {LONGEST_NAME} characters."
                )
    targets = [mapping["destination_property_id"] for mapping in mappings]
    most = Counter(targets).most_common(1)
    if most[0][1] > 1:
        raise BadRequestError(f"operation: the property {most[0][0]!r} is mapped more than once.")
    needs_key = mode in offers.WITH_KEY or catalog.addresses_by_key(sync.settings)
    if needs_key and not _keys(mappings):
        raise BadRequestError(f"operation: to {mode}, mark the mapping of the key with primary_key: true.")
    if kind.object_type.properties is not None:
        _check_properties(kind, mode, mappings)


def _check_properties(kind: offers.Offered, mode: OperationName, mappings: Sequence[Mapping[str, str]]) -> None:
    """Raise if the mappings do not match the declared properties of the object type."""
    name, known = kind.object_type.id, {one.id: one for one in kind.object_type.properties or ()}
    keys, declared_keys = _keys(mappings), set(kind.object_type.keys)
    targets = {mapping["destination_property_id"] for mapping in mappings}
    for target in sorted(targets - set(known)):
        raise BadRequestError(
            f"operation: {name} has no property {target[:100]!r}: choose among {', '.join(sorted(known))}."
        )
    for target in sorted(targets - keys):
        if known[target].readonly:
            raise BadRequestError(f"operation: the property {target!r} of {name} is read-only: remove it.")
    if mode in offers.WITH_KEY and declared_keys and keys != declared_keys:
        raise BadRequestError(
            f"operation: the key of {name} is {', '.join(sorted(declared_keys))}: mark exactly these mappings with"
            " primary_key: true."
        )
    missing = sorted(one.id for one in known.values() if one.required and one.id not in targets)
    if missing and mode != OperationName.UPDATE:
        raise BadRequestError(f"operation: {name} requires the property {missing[0]!r}: map a column to it.")


def _check_columns(context: Context, source: Source, operation: Json) -> None:
    """Raise if a mapped column is missing. Skip the check if the source is not in the warehouse."""
    if source.place is None:
        return
    columns = offers.source_columns(context, "source_id", source)
    present = {column.lower() for column in columns}
    for mapping in operation["mappings"]:
        name = mapping["source_property_id"]
        if name.lower() not in present:
            raise BadRequestError(
                f"operation: {source.title} has no column {name[:100]!r}: choose among {', '.join(columns)}."
            )


def _keys(mappings: Sequence[Mapping[str, object]]) -> set[object]:
    return {mapping["destination_property_id"] for mapping in mappings if mapping.get("primary_key")}
