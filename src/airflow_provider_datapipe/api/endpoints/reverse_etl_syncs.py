"""Reverse ETL syncs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, RunRequested, Unset
from airflow_provider_datapipe.api.models.reverse_etl import (
    AvailableOperations,
    DestinationSchema,
    ObjectTypes,
    Operation,
    OperationRequest,
    ReverseEtlSync,
    ReverseEtlSyncCreateRequest,
    ReverseEtlSyncUpdateRequest,
    ReverseEtlSyncWithSettings,
    SettingsRequest,
)
from airflow_provider_datapipe.api.models.settings_schema import SettingsSchema
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/reverse_etl_syncs", answer=Page[ReverseEtlSync], repeat=Repeat.READ)
def list_(
    *, destination_connection_id: str | None = None, limit: int | None = None, starting_after: str | None = None
) -> Parts:
    """
    List reverse ETL syncs by creation date.

    :param destination_connection_id: only those that write to this connection.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /reverse_etl_syncs".
    """
    return Parts(
        query={
            "destination_connection_id": destination_connection_id,
            "limit": limit,
            "starting_after": starting_after,
        }
    )


@endpoint("POST", "/reverse_etl_syncs", answer=ReverseEtlSyncWithSettings, repeat=Repeat.CREATES)
def create(
    *,
    destination_connection_id: str,
    source_id: str,
    object_type_id: str,
    operation: OperationRequest | Operation | Mapping[str, Any],
    sync_interval: str | Unset = UNSET,
    orchestration_workflow_id: str | Unset = UNSET,
    settings: Mapping[str, Any] | Unset = UNSET,
) -> Parts:
    """
    Create a reverse ETL sync, which is active at once.

    :param destination_connection_id: id of the connection that it writes to.
    :param source_id: id of the transform that it reads.
    :param object_type_id: id of the kind of object that it writes, see ``reverse_etl_syncs.object_types``.
    :param operation: ``mode`` (``insert``, ``update``, ``upsert`` or ``mirror``) and ``mappings``, each with
        ``source_property_id``, ``destination_property_id`` and, if it is so, ``primary_key``.
    :param sync_interval: cron expression of five fields; required unless attached to an orchestration.
    :param orchestration_workflow_id: id of the orchestration as part of which it runs.
    :param settings: settings of the destination, see ``reverse_etl_syncs.settings_schema``.
    :raises InvalidRequestError: the settings, the object type or the schedule are not right.

    Source: interface.md, "POST /reverse_etl_syncs".
    """
    return Parts(
        body=ReverseEtlSyncCreateRequest.of(
            destination_connection_id=destination_connection_id,
            source_id=source_id,
            object_type_id=object_type_id,
            operation=operation,
            sync_interval=sync_interval,
            orchestration_workflow_id=orchestration_workflow_id,
            settings=settings,
        )
    )


@endpoint("GET", "/reverse_etl_syncs/destination_schema", answer=DestinationSchema, repeat=Repeat.READ)
def destination_schema(*, connection_id: str, object_type_id: str, operation_mode: str, source_id: str) -> Parts:
    """
    Read what the columns of a source can become at a destination: the right-hand side of mappings.

    :param connection_id: id of the destination connection.
    :param object_type_id: id of the kind of object that is written.
    :param operation_mode: what is done with a record, see ``reverse_etl_syncs.available_operations``.
    :param source_id: id of the transform that is read.

    Source: interface.md, "GET /reverse_etl_syncs/destination_schema".
    """
    return Parts(
        query={
            "connection_id": connection_id,
            "object_type_id": object_type_id,
            "operation_mode": operation_mode,
            "source_id": source_id,
        }
    )


@endpoint("GET", "/reverse_etl_syncs/available_operations", answer=AvailableOperations, repeat=Repeat.READ)
def available_operations(*, connection_id: str, object_type_id: str) -> Parts:
    """
    Read what a destination can do with records.

    :param connection_id: id of the destination connection.
    :param object_type_id: id of the kind of object that is written.

    Source: interface.md, "GET /reverse_etl_syncs/available_operations".
    """
    return Parts(query={"connection_id": connection_id, "object_type_id": object_type_id})


@endpoint("GET", "/reverse_etl_syncs/object_types", answer=ObjectTypes, repeat=Repeat.READ)
def object_types(*, connection_id: str) -> Parts:
    """
    Read what kinds of object a destination holds.

    :param connection_id: id of the destination connection.

    Source: interface.md, "GET /reverse_etl_syncs/object_types".
    """
    return Parts(query={"connection_id": connection_id})


@endpoint("POST", "/reverse_etl_syncs/settings_schema", answer=SettingsSchema, repeat=Repeat.READ)
def settings_schema(
    *, connection_id: str, object_type: str, partial_settings: Mapping[str, Any] | Unset = UNSET
) -> Parts:
    """
    Read what settings a reverse ETL sync takes, as a JSON Schema. Changes nothing, though it is a POST.

    :param connection_id: id of the destination connection.
    :param object_type: the kind of object that is written.
    :param partial_settings: the settings on which the choices of others depend (``dependencies`` of the schema).

    Source: interface.md, "POST /reverse_etl_syncs/settings_schema".
    """
    body = SettingsRequest.of(partial_settings=partial_settings)
    return Parts(
        query={"connection_id": connection_id, "object_type": object_type},
        body=body if body.model_fields_set else None,
    )


@endpoint("GET", "/reverse_etl_syncs/{id}", answer=ReverseEtlSyncWithSettings, repeat=Repeat.READ)
def get(sync_id: str) -> Parts:
    """
    Read one reverse ETL sync with its settings.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "GET /reverse_etl_syncs/{id}".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}", answer=ReverseEtlSyncWithSettings, repeat=Repeat.IDEMPOTENT)
def update(
    sync_id: str,
    *,
    object_type_id: str,
    operation: OperationRequest | Operation | Mapping[str, Any],
    sync_interval: str | Unset = UNSET,
    orchestration_workflow_id: str | Unset = UNSET,
    settings: Mapping[str, Any] | Unset = UNSET,
) -> Parts:
    """
    Change a reverse ETL sync, which must be deactivated first.

    :param sync_id: id of the reverse ETL sync.
    :param object_type_id: id of the kind of object that it writes, see ``reverse_etl_syncs.object_types``.
    :param operation: ``mode`` and ``mappings``, as for ``reverse_etl_syncs.create``.
    :param sync_interval: cron expression of five fields; required unless attached to an orchestration.
    :param orchestration_workflow_id: id of the orchestration as part of which it runs.
    :param settings: settings of the destination, see ``reverse_etl_syncs.settings_schema``.
    :raises InvalidRequestError: the sync is still active, or the service does not take the change.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "POST /reverse_etl_syncs/{id}".
    """
    return Parts(
        path={"id": sync_id},
        body=ReverseEtlSyncUpdateRequest.of(
            object_type_id=object_type_id,
            operation=operation,
            sync_interval=sync_interval,
            orchestration_workflow_id=orchestration_workflow_id,
            settings=settings,
        ),
    )


@endpoint("DELETE", "/reverse_etl_syncs/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(sync_id: str) -> Parts:
    """
    Delete a reverse ETL sync.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "DELETE /reverse_etl_syncs/{id}".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}/activate", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def activate(sync_id: str) -> Parts:
    """
    Let a reverse ETL sync run on its schedule.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "POST /reverse_etl_syncs/{id}/activate".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}/deactivate", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def deactivate(sync_id: str) -> Parts:
    """
    Take a reverse ETL sync off its schedule.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "POST /reverse_etl_syncs/{id}/deactivate".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}/request_run", answer=RunRequested, repeat=Repeat.STARTS_A_RUN)
def request_run(sync_id: str) -> Parts:
    """
    Ask for a run of a reverse ETL sync, now.

    The answer is where the run will appear, not the run.

    :param sync_id: id of the reverse ETL sync.
    :raises InvalidRequestError: the sync is not eligible to run.
    :raises NotFoundError: there is no such sync.
    :raises ConflictError: a run is active already.

    Source: interface.md, "POST /reverse_etl_syncs/{id}/request_run".
    """
    return Parts(path={"id": sync_id})
