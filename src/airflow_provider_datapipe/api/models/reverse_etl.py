"""Reverse ETL syncs, their runs and the records that a destination refused."""

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
    """Where a run of a reverse ETL sync stands. A completed run can still have failed rows."""

    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class OperationName(StrEnum):
    """What a reverse ETL sync does with a record at its destination."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    MIRROR = "mirror"


class SourceType(StrEnum):
    """What a reverse ETL sync reads."""

    RAW_VIEW = "RawView"
    TRANSFORM = "Transform"


class Mapping(Answer):
    """``ReverseEtlSyncMappingDto``: a column of the source and the property that it becomes."""

    source_property_id: str
    destination_property_id: str
    primary_key: bool | None = None


class Operation(Answer):
    """``ReverseEtlSyncOperationDto``: what is done with which columns."""

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
    """``ReverseEtlSyncWithSettingsDto``: in lists the settings are absent."""

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
    """``ReverseEtlSyncRecordErrorDto``: a record that the destination refused, and why."""

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
    """What an available operation writes."""

    PRIMARY = "primary"
    ASSOCIATION = "association"


class DestinationProperty(Answer):
    """``ReverseEtlDestinationPropertyDto``: something at the destination that a column can become."""

    id: str
    property_name: str
    property_type: str
    readonly: bool
    is_required: bool
    is_primary_key: bool


class DestinationSchema(Answer):
    """``ReverseEtlDestinationSchemaDto``: the right-hand side of mappings."""

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
    """``ReverseEtlObjectTypeDto``: a kind of thing that a destination holds, such as a contact."""

    id: str
    name: str
    type: str
    associations: tuple[str, ...]


class ObjectTypes(Answer):
    """``ReverseEtlObjectTypesDto``."""

    data: tuple[ObjectType, ...]


class MappingRequest(Body):
    """``ReverseEtlSyncMappingRequestDto``: a column of the source and the property that it becomes."""

    source_property_id: str
    destination_property_id: str
    primary_key: Omissible[bool] = None


class OperationRequest(Body):
    """``ReverseEtlSyncOperationRequestDto``: what is done with which columns."""

    mode: OperationName
    mappings: tuple[MappingRequest, ...]


class _ScheduledRequest(Body):
    """A reverse ETL sync as it is to be: on a schedule of its own, or on that of an orchestration."""

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
    """``ReverseEtlSettingsRequestDto``: the settings that are known so far, on which further ones depend."""

    partial_settings: Omissible[JsonObject] = Field(default=None, repr=False)


class RetryRecordsRequest(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``: the records to send again at the next run."""

    record_ids: tuple[str, ...]
