"""Reverse ETL: syncs, runs, failed records, and what destinations offer."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.reverse_etl import (
    OperationName,
    OperationType,
    ReverseEtlSyncRunStatus,
    SourceType,
)
from datapipe_local.dto.common import AnyObject, Count, Moment, dto


@dto
class ReverseEtlSyncMappingDto(TypedDict):
    """A column of the source and the property that it becomes."""

    source_property_id: str
    destination_property_id: str
    primary_key: NotRequired[bool]


@dto
class ReverseEtlSyncOperationDto(TypedDict):
    """What is done with which columns."""

    mode: OperationName
    mappings: list[ReverseEtlSyncMappingDto]


@dto
class ReverseEtlSyncDto(TypedDict):
    """A reverse ETL sync; ``sync_interval`` is omitted while it is attached, ``transform_id`` for other sources."""

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
    """A reverse ETL sync with its settings."""

    settings: AnyObject


@dto
class ReverseEtlSyncRunDto(TypedDict):
    """A run of a reverse ETL sync."""

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
    """A record that the destination refused, and why."""

    sync_id: str
    record_id: str
    error: str


@dto
class ReverseEtlSyncFailedRecordCountDto(TypedDict):
    """How many records the destination has refused."""

    count: Count


@dto
class ReverseEtlDestinationPropertyDto(TypedDict):
    """Something at the destination that a column can become."""

    id: str
    property_name: str
    property_type: str
    readonly: bool
    is_required: bool
    is_primary_key: bool


@dto
class ReverseEtlAvailableOperationDto(TypedDict):
    """Something that the destination can do with records."""

    type: OperationType
    mode: OperationName
    primary_key_required: bool


@dto
class ReverseEtlObjectTypeDto(TypedDict):
    """A kind of thing that a destination holds."""

    id: str
    name: str
    type: str
    associations: list[str]


# The name of one of its fields is none of Python's.
_Schema = TypedDict("_Schema", {"$schema": str})


@dto
class SyncSettingsSchemaDto(_Schema):
    """What settings a sync takes: a JSON Schema (draft-07)."""

    title: str
    type: Literal["object"]
    properties: dict[str, Any]
    required: NotRequired[list[str]]
    dependencies: NotRequired[dict[str, list[str]]]
    additionalProperties: NotRequired[bool]  # noqa: N815 - as JSON Schema has it
