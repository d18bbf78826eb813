"""Reverse ETL syncs, which send the rows of a transform to an external system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, RunRequested, Unset
from airflow_provider_datapipe.api.models.reverse_etl_syncs import (
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
) -> None:
    """
    List reverse ETL syncs, sorted by creation date.

    :param destination_connection_id: return only the syncs that write to this connection.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint(
    "POST",
    "/reverse_etl_syncs",
    answer=ReverseEtlSyncWithSettings,
    repeat=Repeat.CREATES,
    body=ReverseEtlSyncCreateRequest,
)
def create(
    *,
    destination_connection_id: str,
    source_id: str,
    object_type_id: str,
    operation: OperationRequest | Operation | Mapping[str, Any],
    sync_interval: str | Unset = UNSET,
    orchestration_workflow_id: str | Unset = UNSET,
    settings: Mapping[str, Any] | Unset = UNSET,
) -> None:
    """
    Create a reverse ETL sync, which is active immediately.

    :param destination_connection_id: ID of the destination connection.
    :param source_id: ID of the source transform.
    :param object_type_id: ID of the destination's object type, see ``reverse_etl_syncs.object_types``.
    :param operation: ``mode`` (``insert``, ``update``, ``upsert`` or ``mirror``) and ``mappings``, each with
        ``source_property_id``, ``destination_property_id`` and, for keys, ``primary_key``.
    :param sync_interval: cron expression with five fields; required unless attached to an orchestration.
    :param orchestration_workflow_id: ID of the orchestration to attach the sync to.
    :param settings: settings of the destination, see ``reverse_etl_syncs.settings_schema``.
    :raises InvalidRequestError: the settings, the object type or the schedule are invalid.
    """


@endpoint("GET", "/reverse_etl_syncs/destination_schema", answer=DestinationSchema, repeat=Repeat.READ)
def destination_schema(*, connection_id: str, object_type_id: str, operation_mode: str, source_id: str) -> None:
    """
    List the properties of a destination that columns of a source can be mapped to.

    :param connection_id: ID of the destination connection.
    :param object_type_id: ID of the destination's object type.
    :param operation_mode: mode of the operation, see ``reverse_etl_syncs.available_operations``.
    :param source_id: ID of the source transform.
    """


@endpoint("GET", "/reverse_etl_syncs/available_operations", answer=AvailableOperations, repeat=Repeat.READ)
def available_operations(*, connection_id: str, object_type_id: str) -> None:
    """
    List the operations that a destination supports for an object type.

    :param connection_id: ID of the destination connection.
    :param object_type_id: ID of the destination's object type.
    """


@endpoint("GET", "/reverse_etl_syncs/object_types", answer=ObjectTypes, repeat=Repeat.READ)
def object_types(*, connection_id: str) -> None:
    """
    List the object types of a destination.

    :param connection_id: ID of the destination connection.
    """


@endpoint(
    "POST",
    "/reverse_etl_syncs/settings_schema",
    answer=SettingsSchema,
    repeat=Repeat.READ,
    body=SettingsRequest,
    body_is_optional=True,
)
def settings_schema(
    *, connection_id: str, object_type: str, partial_settings: Mapping[str, Any] | Unset = UNSET
) -> None:
    """
    Read the JSON Schema of the settings of a reverse ETL sync. The request is a POST, but read-only.

    :param connection_id: ID of the destination connection.
    :param object_type: the destination's object type.
    :param partial_settings: settings that other settings depend on (``dependencies`` of the schema).
    """


@endpoint("GET", "/reverse_etl_syncs/{id}", answer=ReverseEtlSyncWithSettings, repeat=Repeat.READ)
def get(sync_id: str) -> None:
    """
    Read one reverse ETL sync with its settings.

    :param sync_id: ID of the reverse ETL sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint(
    "POST",
    "/reverse_etl_syncs/{id}",
    answer=ReverseEtlSyncWithSettings,
    repeat=Repeat.IDEMPOTENT,
    body=ReverseEtlSyncUpdateRequest,
)
def update(
    sync_id: str,
    *,
    object_type_id: str,
    operation: OperationRequest | Operation | Mapping[str, Any],
    sync_interval: str | Unset = UNSET,
    orchestration_workflow_id: str | Unset = UNSET,
    settings: Mapping[str, Any] | Unset = UNSET,
) -> None:
    """
    Update a reverse ETL sync, which must be inactive.

    :param sync_id: ID of the reverse ETL sync.
    :param object_type_id: ID of the destination's object type, see ``reverse_etl_syncs.object_types``.
    :param operation: ``mode`` and ``mappings``, as for ``reverse_etl_syncs.create``.
    :param sync_interval: cron expression with five fields; required unless attached to an orchestration.
    :param orchestration_workflow_id: ID of the orchestration to attach the sync to.
    :param settings: settings of the destination, see ``reverse_etl_syncs.settings_schema``.
    :raises InvalidRequestError: the sync is still active, or the service rejects the change.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("DELETE", "/reverse_etl_syncs/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(sync_id: str) -> None:
    """
    Delete a reverse ETL sync.

    :param sync_id: ID of the reverse ETL sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("POST", "/reverse_etl_syncs/{id}/activate", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def activate(sync_id: str) -> None:
    """
    Enable the schedule of a reverse ETL sync.

    :param sync_id: ID of the reverse ETL sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("POST", "/reverse_etl_syncs/{id}/deactivate", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def deactivate(sync_id: str) -> None:
    """
    Disable the schedule of a reverse ETL sync.

    :param sync_id: ID of the reverse ETL sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("POST", "/reverse_etl_syncs/{id}/request_run", answer=RunRequested, repeat=Repeat.STARTS_A_RUN)
def request_run(sync_id: str) -> None:
    """
    Request an immediate run of a reverse ETL sync.

    The response contains a status URL, not the run.

    :param sync_id: ID of the reverse ETL sync.
    :raises InvalidRequestError: the sync is not eligible to run.
    :raises NotFoundError: the sync does not exist.
    :raises ConflictError: a run is already active.
    """
