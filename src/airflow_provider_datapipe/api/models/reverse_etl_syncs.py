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
    """
    ``ReverseEtlSyncMappingDto``: a source column and the destination property that it is mapped to.

    :param source_property_id: column of the source.
    :param destination_property_id: ID of the destination property.
    :param primary_key: True if the property identifies records of the destination.
    """

    source_property_id: str
    destination_property_id: str
    primary_key: bool | None = None


class Operation(Answer):
    """
    ``ReverseEtlSyncOperationDto``: mode and column mappings of a sync.

    :param mode: effect on the destination's records.
    :param mappings: the mappings.
    """

    mode: Annotated[OperationName | str, OPEN_ENUM]
    mappings: tuple[Mapping, ...]


class ReverseEtlSync(Answer):
    """
    ``ReverseEtlSyncDto``: copies the rows of a transform to a destination connection.

    :param id: ID of the reverse ETL sync.
    :param enabled: True if the schedule of the sync is active.
    :param source_type: type of the source.
    :param source_id: ID of the source.
    :param transform_id: ID of the source transform; None if the source is a raw view.
    :param destination_connection_id: ID of the connection that the sync writes to.
    :param destination_integration_id: ID of the integration of the destination.
    :param object_type_id: ID of the destination's object type.
    :param sync_interval: cron expression of the sync's own schedule.
    :param orchestration_workflow_id: ID of the orchestration that the sync is attached to; None without one.
    :param operation: mode and column mappings.
    :param created_at: time of the creation.
    :param updated_at: time of the last change.
    """

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
    """
    ``ReverseEtlSyncWithSettingsDto``: a sync with its settings, which lists omit.

    :param settings: settings of the destination, which may hold secrets.
    """

    # Settings may hold secrets.
    settings: FreeObject = Field(repr=False)


class ReverseEtlSyncRun(Answer):
    """
    ``ReverseEtlSyncRunDto``: one run of a reverse ETL sync.

    :param id: opaque ID of the run.
    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param started_at: start of the run.
    :param finished_at: end of the run; None while it is active.
    :param status: status of the run; a completed run can have failed rows.
    :param total_rows: number of rows of the source.
    :param distinct_rows: number of rows without duplicates.
    :param new_rows: number of new, changed and deleted rows that the run sent.
    :param synced_rows: number of rows that the destination accepted.
    :param failed_rows: number of rows that the destination rejected.
    :param error: reason for a failure.
    """

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
    """
    ``ReverseEtlSyncRecordErrorDto``: a record that the destination rejected, and the reason.

    :param sync_id: ID of the reverse ETL sync.
    :param record_id: ID of the record.
    :param error: message of the destination.
    """

    sync_id: str
    record_id: str
    error: str


class FailedRecords(Answer):
    """
    ``ReverseEtlSyncFailedRecordErrorsDto``: unresolved errors; the list has no cursor.

    :param data: the unresolved errors.
    """

    data: tuple[FailedRecord, ...]


class FailedRecordCount(Answer):
    """
    ``ReverseEtlSyncFailedRecordCountDto``.

    :param count: number of unresolved errors.
    """

    count: Number


class OperationType(StrEnum):
    """Target of an available operation."""

    PRIMARY = "primary"
    ASSOCIATION = "association"


class DestinationProperty(Answer):
    """
    ``ReverseEtlDestinationPropertyDto``: a destination property that a column can be mapped to.

    :param id: ID of the property, for mappings.
    :param property_name: display name.
    :param property_type: data type.
    :param readonly: True if the property cannot be written.
    :param is_required: True if new records need a value.
    :param is_primary_key: True if the property can identify records.
    """

    id: str
    property_name: str
    property_type: str
    readonly: bool
    is_required: bool
    is_primary_key: bool


class DestinationSchema(Answer):
    """
    ``ReverseEtlDestinationSchemaDto``: the properties that columns can be mapped to.

    :param data: the properties.
    """

    data: tuple[DestinationProperty, ...]


class AvailableOperation(Answer):
    """
    ``ReverseEtlAvailableOperationDto``.

    :param type: target of the operation: records, or their associations.
    :param mode: effect on the destination's records.
    :param primary_key_required: True if a mapping must be a primary key.
    """

    type: Annotated[OperationType | str, OPEN_ENUM]
    mode: Annotated[OperationName | str, OPEN_ENUM]
    primary_key_required: bool


class AvailableOperations(Answer):
    """
    ``ReverseEtlAvailableOperationsDto``.

    :param data: the operations.
    """

    data: tuple[AvailableOperation, ...]


class ObjectType(Answer):
    """
    ``ReverseEtlObjectTypeDto``: an object type of a destination, such as a contact.

    :param id: ID of the object type.
    :param name: display name.
    :param type: category, such as ``standard``.
    :param associations: names of object types that records can be associated with.
    """

    id: str
    name: str
    type: str
    associations: tuple[str, ...]


class ObjectTypes(Answer):
    """
    ``ReverseEtlObjectTypesDto``.

    :param data: the object types.
    """

    data: tuple[ObjectType, ...]


class MappingRequest(Body):
    """
    ``ReverseEtlSyncMappingRequestDto``: a source column and the destination property that it is mapped to.

    :param source_property_id: column of the source.
    :param destination_property_id: ID of the destination property.
    :param primary_key: True if the property identifies records of the destination.
    """

    source_property_id: str
    destination_property_id: str
    primary_key: Omissible[bool] = None


class OperationRequest(Body):
    """
    ``ReverseEtlSyncOperationRequestDto``: mode and column mappings of a sync.

    :param mode: effect on the destination's records.
    :param mappings: the mappings.
    """

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
