"""Reverse ETL syncs, their runs and failed records."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from airflow_provider_datapipe.api.models.common import (
    OPEN_ENUM,
    Answer,
    Body,
    FreeObject,
    Number,
    OptionalNumber,
    OptionalTimestamp,
    Timestamp,
)
from airflow_provider_datapipe.api.models.rules import Cron, JsonObject, Omissible


class ReverseEtlSyncRunStatus(StrEnum):
    """Status of a reverse ETL sync run. A completed run can have failed rows."""

    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class OperationName(StrEnum):
    """Operation of a reverse ETL sync on the destination's records."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    MIRROR = "mirror"


class SourceType(StrEnum):
    """Source type of a reverse ETL sync."""

    RAW_VIEW = "RawView"
    TRANSFORM = "Transform"


class Mapping(Answer):
    """``ReverseEtlSyncMappingDto``: a source column and the destination property that it is mapped to."""

    source_property_id: str
    destination_property_id: str
    primary_key: bool | None = None


class Operation(Answer):
    """``ReverseEtlSyncOperationDto``: mode and column mappings of a sync."""

    mode: Annotated[OperationName | str, OPEN_ENUM]
    mappings: tuple[Mapping, ...]


class ReverseEtlSync(Answer):
    """``ReverseEtlSyncDto``: copies the rows of a transform to a destination connection."""

    id: str
    enabled: bool
    source_type: Annotated[SourceType | str, OPEN_ENUM]
    source_id: str
    transform_id: str | None = None
    destination_connection_id: str
    destination_integration_id: str
    object_type_id: str
    sync_interval: str | None = None
    orchestration_workflow_id: str | None = None
    operation: Operation | None = None
    created_at: Timestamp
    updated_at: Timestamp


class ReverseEtlSyncWithSettings(ReverseEtlSync):
    """``ReverseEtlSyncWithSettingsDto``: a sync with its settings, which lists omit."""

    # Settings may hold secrets.
    settings: FreeObject = Field(repr=False)


class ReverseEtlSyncRun(Answer):
    """``ReverseEtlSyncRunDto``: one run of a reverse ETL sync."""

    id: str
    reverse_etl_sync_id: str
    started_at: Timestamp
    finished_at: OptionalTimestamp = None
    status: Annotated[ReverseEtlSyncRunStatus | str, OPEN_ENUM]
    total_rows: OptionalNumber = None
    distinct_rows: OptionalNumber = None
    new_rows: OptionalNumber = None
    synced_rows: OptionalNumber = None
    failed_rows: OptionalNumber = None
    error: str | None = None


class FailedRecord(Answer):
    """``ReverseEtlSyncRecordErrorDto``: a record that the destination rejected, and the reason."""

    sync_id: str
    record_id: str
    error: str


class FailedRecords(Answer):
    """``ReverseEtlSyncFailedRecordErrorsDto``: unresolved errors; the list has no cursor."""

    data: tuple[FailedRecord, ...]


class FailedRecordCount(Answer):
    """``ReverseEtlSyncFailedRecordCountDto``."""

    count: Number


class OperationType(StrEnum):
    """Target of an available operation."""

    PRIMARY = "primary"
    ASSOCIATION = "association"


class DestinationProperty(Answer):
    """``ReverseEtlDestinationPropertyDto``: a destination property that a column can be mapped to."""

    id: str
    property_name: str
    property_type: str
    readonly: bool
    is_required: bool
    is_primary_key: bool


class DestinationSchema(Answer):
    """``ReverseEtlDestinationSchemaDto``: the properties that columns can be mapped to."""

    data: tuple[DestinationProperty, ...]


class AvailableOperation(Answer):
    """``ReverseEtlAvailableOperationDto``."""

    type: Annotated[OperationType | str, OPEN_ENUM]
    mode: Annotated[OperationName | str, OPEN_ENUM]
    primary_key_required: bool


class AvailableOperations(Answer):
    """``ReverseEtlAvailableOperationsDto``."""

    data: tuple[AvailableOperation, ...]


class ObjectType(Answer):
    """``ReverseEtlObjectTypeDto``: an object type of a destination, such as a contact."""

    id: str
    name: str
    type: str
    associations: tuple[str, ...]


class ObjectTypes(Answer):
    """``ReverseEtlObjectTypesDto``."""

    data: tuple[ObjectType, ...]


class MappingRequest(Body):
    """``ReverseEtlSyncMappingRequestDto``: a source column and the destination property that it is mapped to."""

    source_property_id: str
    destination_property_id: str
    primary_key: Omissible[bool] = None


class OperationRequest(Body):
    """``ReverseEtlSyncOperationRequestDto``: mode and column mappings of a sync."""

    mode: OperationName
    mappings: tuple[MappingRequest, ...]


class _ScheduledRequest(Body):
    """Requested state of a reverse ETL sync, with its own schedule or an orchestration."""

    object_type_id: str
    operation: OperationRequest
    sync_interval: Omissible[Cron] = None
    orchestration_workflow_id: Omissible[str] = None
    # Settings may hold secrets.
    settings: Omissible[JsonObject] = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _is_scheduled(self) -> Self:
        if self.sync_interval is None and self.orchestration_workflow_id is None:
            raise ValueError("sync_interval is required unless orchestration_workflow_id is given")
        return self


class ReverseEtlSyncCreateRequest(_ScheduledRequest):
    """``CreateReverseEtlSyncRequestDto``."""

    destination_connection_id: str
    source_id: str


class ReverseEtlSyncUpdateRequest(_ScheduledRequest):
    """``UpdateReverseEtlSyncRequestDto``."""


class SettingsRequest(Body):
    """``ReverseEtlSettingsRequestDto``: settings that other settings depend on."""

    partial_settings: Omissible[JsonObject] = Field(default=None, repr=False)


class RetryRecordsRequest(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``: the records to send again at the next run."""

    record_ids: tuple[str, ...]
