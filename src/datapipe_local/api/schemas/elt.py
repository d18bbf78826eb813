"""Schemas of ELT syncs, their streams and runs."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import (
    EltSyncState,
    FullSyncTrigger,
    OperationMode,
    SnapshotStatus,
)
from datapipe_local.api.schemas.common import AnyObject, Count, Moment, dto


@dto
class EltStreamDto(TypedDict):
    """Stream. ``sync_interval`` is its own schedule or null. The older description does not declare it."""

    id: str
    elt_sync_id: str
    name: str
    incremental_primary_key_name: NotRequired[list[str]]
    incremental_pointer_id: NotRequired[str]
    full_sync_at_midnight: bool
    full_sync_always: bool
    protected_from_full_sync: bool
    created_at: Moment
    updated_at: Moment
    excluded_substreams: list[str]
    enabled_history_table: bool
    sync_interval: NotRequired[str | None]


@dto
class EltStreamRunDto(TypedDict):
    """Run of a stream."""

    id: str
    elt_sync_id: str
    elt_stream_id: str
    started_at: Moment
    finished_at: NotRequired[Moment]
    status: NotRequired[EltStreamRunStatus]
    rows_synced: NotRequired[Count]


@dto
class EltSyncDto(TypedDict):
    """Sync. ``sync_interval`` is omitted while the sync is attached to an orchestration."""

    account_id: str
    config: NotRequired[AnyObject]
    created_at: Moment
    destination_connection_id: str
    destination_integration_id: str
    destination_schema_name: NotRequired[str]
    enabled: bool
    id: str
    orchestration_workflow_id: NotRequired[str]
    source_connection_id: str
    source_integration_id: str
    source_streams: NotRequired[list[EltStreamDto]]
    start_date: NotRequired[Moment]
    status: EltSyncState
    sync_interval: NotRequired[str]
    updated_at: Moment


@dto
class SourceStreamSnapshotDto(TypedDict):
    """Progress of a stream run."""

    bytes_synced: Count
    error_message: NotRequired[str]
    estimated_total_count: NotRequired[Count]
    finished_at: NotRequired[Moment]
    full_sync_trigger: NotRequired[FullSyncTrigger]
    operation_mode: NotRequired[OperationMode]
    records_synced: NotRequired[Count]
    retry_attempt: NotRequired[Count]
    started_at: NotRequired[Moment]
    status: NotRequired[SnapshotStatus]
    details: NotRequired[str]


@dto
class SourceStreamSnapshotStatesDto(TypedDict):
    """Active and latest run of a stream."""

    name: str
    active_sync: NotRequired[SourceStreamSnapshotDto]
    latest_sync: NotRequired[SourceStreamSnapshotDto]


@dto
class EltSyncStatusDto(TypedDict):
    """Run states of a sync's streams."""

    elt_sync_id: str
    source_streams: list[SourceStreamSnapshotStatesDto]


@dto
class RetirementDetails(TypedDict):
    """Reason why a stream is retired."""

    in_favor_of: NotRequired[str]
    removal_date: NotRequired[str]
    details: NotRequired[str]
    link: NotRequired[str]


@dto
class AvailableStreamDto(TypedDict):
    """Stream that a sync has or can add."""

    name: str
    is_selectable: NotRequired[bool]
    preselect: NotRequired[bool]
    sub_streams: NotRequired[list[str]]
    retired: bool
    retirement_details: NotRequired[RetirementDetails]


@dto
class EltSyncAddSourceStreamsResponseDto(TypedDict):
    """Added streams."""

    source_streams: list[EltStreamDto]
