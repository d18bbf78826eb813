"""Schemas of reverse ETL syncs, runs, failed records and destination catalogs."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.reverse_etl_syncs import (
    OperationName,
    OperationType,
    ReverseEtlSyncRunStatus,
    SourceType,
)
from datapipe_local.api.schemas.common import AnyObject, Count, Moment, dto


@dto
class ReverseEtlSyncMappingDto(TypedDict):
    """Mapping of a source column to a destination property."""

    source_property_id: str
    destination_property_id: str
    primary_key: NotRequired[bool]


@dto
class ReverseEtlSyncOperationDto(TypedDict):
    """Operation and its column mappings."""

    mode: OperationName
    mappings: list[ReverseEtlSyncMappingDto]


@dto
class ReverseEtlSyncDto(TypedDict):
    """
    Reverse ETL sync.

    ``sync_interval`` is omitted while the sync is attached to an orchestration, ``transform_id`` for other sources.
    """

    id: str
    enabled: bool
    source_type: SourceType
    source_id: str
    transform_id: NotRequired[str]
    destination_connection_id: str
    destination_integration_id: str
    object_type_id: str
    sync_interval: NotRequired[str]
    orchestration_workflow_id: NotRequired[str]
    operation: NotRequired[ReverseEtlSyncOperationDto]
    created_at: Moment
    updated_at: Moment


@dto
class ReverseEtlSyncWithSettingsDto(ReverseEtlSyncDto):
    """Reverse ETL sync with its settings."""

    settings: AnyObject


@dto
class ReverseEtlSyncRunDto(TypedDict):
    """Run of a reverse ETL sync."""

    id: str
    reverse_etl_sync_id: str
    started_at: Moment
    finished_at: NotRequired[Moment]
    status: ReverseEtlSyncRunStatus
    total_rows: NotRequired[Count]
    distinct_rows: NotRequired[Count]
    new_rows: NotRequired[Count]
    synced_rows: NotRequired[Count]
    failed_rows: NotRequired[Count]
    error: NotRequired[str]


@dto
class ReverseEtlSyncRecordErrorDto(TypedDict):
    """Record that the destination rejected, with the reason."""

    sync_id: str
    record_id: str
    error: str


@dto
class ReverseEtlSyncFailedRecordCountDto(TypedDict):
    """Number of unresolved failed records."""

    count: Count


@dto
class ReverseEtlDestinationPropertyDto(TypedDict):
    """Destination property that a column can be mapped to."""

    id: str
    property_name: str
    property_type: str
    readonly: bool
    is_required: bool
    is_primary_key: bool


@dto
class ReverseEtlAvailableOperationDto(TypedDict):
    """Operation that the destination supports."""

    type: OperationType
    mode: OperationName
    primary_key_required: bool


@dto
class ReverseEtlObjectTypeDto(TypedDict):
    """Object type of a destination."""

    id: str
    name: str
    type: str
    associations: list[str]


# The functional syntax, because ``$schema`` is not a Python identifier.
_Schema = TypedDict("_Schema", {"$schema": str})


@dto
class SyncSettingsSchemaDto(_Schema):
    """JSON Schema (draft-07) of a sync's settings."""

    title: str
    type: Literal["object"]
    properties: dict[str, Any]
    required: NotRequired[list[str]]
    dependencies: NotRequired[dict[str, list[str]]]
    additionalProperties: NotRequired[bool]  # noqa: N815 - name from JSON Schema
