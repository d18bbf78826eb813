"""Reverse ETL syncs, their runs and the records that a destination refused."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, Number, Timestamp


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
    """``ReverseEtlSyncWithSettingsDto``; in lists ``settings`` is absent (``ReverseEtlSyncDto``)."""

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
    settings: dict[str, Any] | None = None
    created_at: Timestamp
    updated_at: Timestamp


class ReverseEtlSyncRun(Answer):
    """``ReverseEtlSyncRunDto``: one run of a reverse ETL sync."""

    id: str
    reverse_etl_sync_id: str
    started_at: Timestamp
    finished_at: Timestamp | None = None
    status: Annotated[ReverseEtlSyncRunStatus | str, OPEN_ENUM]
    total_rows: Number | None = None
    distinct_rows: Number | None = None
    new_rows: Number | None = None
    synced_rows: Number | None = None
    failed_rows: Number | None = None
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


class RetryRecordsRequest(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``: the records to send again at the next run."""

    record_ids: tuple[str, ...]
