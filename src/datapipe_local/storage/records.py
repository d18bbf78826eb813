"""Records of the store: one dataclass per table, one field per column."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from datapipe_local.storage.clock import Timestamp

Json = dict[str, Any]


class JobKind(StrEnum):
    """Kind of background work."""

    ELT_STREAM_RUN = "elt_stream_run"
    MATERIALIZATION = "materialization"
    REVERSE_ETL_SYNC_RUN = "reverse_etl_sync_run"
    QUERY_PREVIEW = "query_preview"


class ItemState(StrEnum):
    """State of an item of an orchestration run."""

    WAITING = "waiting"
    GOING = "going"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class RecordState(StrEnum):
    """State of a reverse ETL record."""

    SYNCED = "synced"
    FAILED = "failed"
    RESET = "reset"
    DELETED = "deleted"


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Connection to a source or a destination."""

    id: str
    integration_id: str
    label: str
    settings: Json
    created_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class ConnectionBridge:
    """Session in which a user authorizes a connection."""

    id: str
    redirect_uri: str
    integration_id: str
    connection_id: str | None = None
    state: str | None = None
    label: str
    created_at: Timestamp
    expires_at: Timestamp
    authorized_at: Timestamp | None = None


@dataclass(frozen=True, kw_only=True)
class WebhookRecord:
    """Request body that was pushed to a table of a webhook connection."""

    connection_id: str
    table_name: str
    received_at: Timestamp
    record: str


@dataclass(frozen=True, kw_only=True)
class Orchestration:
    """Workflow with a cron schedule."""

    id: str
    name: str
    cron_schedule: str
    created_at: Timestamp
    updated_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class EltSync:
    """Sync from a source connection to a schema of the warehouse."""

    id: str
    connection_id: str
    destination_schema_name: str
    sync_interval: str | None
    enabled: bool
    orchestration_workflow_id: str | None
    start_date: Timestamp | None = None
    settings: Json = field(default_factory=dict)
    created_at: Timestamp
    updated_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class EltStream:
    """Stream of a sync, which loads one table."""

    id: str
    elt_sync_id: str
    name: str
    origin: Json
    incremental_primary_key_name: list[str] | None = None
    incremental_pointer_id: str | None = None
    sync_interval: str | None = None
    excluded_columns: list[str] = field(default_factory=list)
    hashed_columns: list[str] = field(default_factory=list)
    full_sync_at_midnight: bool = False
    full_sync_always: bool = False
    protected_from_full_sync: bool = False
    excluded_substreams: list[str] = field(default_factory=list)
    enabled_history_table: bool = False
    full_refresh_requested: bool = False
    history_reset_requested: bool = False
    loaded: bool = False
    rows_so_far: int = 0
    created_at: Timestamp
    updated_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class EltStreamRun:
    """Run of a stream."""

    id: str
    elt_sync_id: str
    elt_stream_id: str
    started_at: Timestamp
    finished_at: Timestamp | None = None
    status: str
    rows_synced: int | None = None
    bytes_synced: int = 0
    full_sync_trigger: str
    operation_mode: str
    error_message: str | None = None


@dataclass(frozen=True, kw_only=True)
class CustomReport:
    """Query that a sync can have as a stream."""

    id: str
    elt_sync_id: str
    name: str
    query: str
    source_stream_name: str
    created_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class Transform:
    """
    SQL model, with its object in the warehouse (``object_...``).

    After publication, name, folder and materialization are the published ones. ``next_...`` contains later changes.
    """

    id: str
    name: str
    folder_path: str
    status: str
    materialization: str
    next_name: str | None = None
    next_folder_path: str | None = None
    next_materialization: str | None = None
    documentation: str | None = None
    latest_version_id: str
    published_version_id: str | None = None
    publication: int = 0
    materialization_status: str | None = None
    materialization_error: str | None = None
    object_tag: str | None = None
    object_kind: str | None = None
    object_schema: str | None = None
    object_name: str | None = None
    orchestration_workflow_id: str | None = None
    cron_expression: str | None = None
    rebuild_trigger: str = "none"
    deleted_at: Timestamp | None = None
    created_at: Timestamp
    updated_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class TransformVersion:
    """Version of a transform's SQL."""

    id: str
    transform_id: str
    sql_template: str
    created_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class QueryPreview:
    """Trial run of a query."""

    id: str
    dw_sql: str
    status: str
    error: str | None = None
    rows: list[Json] | None = None
    num_rows_total: int | None = None
    created_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class ReverseEtlSync:
    """Sync from a transform or a raw view to a destination."""

    id: str
    enabled: bool
    source_type: str = "Transform"
    source_id: str
    destination_connection_id: str
    object_type_id: str
    sync_interval: str | None
    orchestration_workflow_id: str | None
    operation: Json
    settings: Json
    created_at: Timestamp
    updated_at: Timestamp


@dataclass(frozen=True, kw_only=True)
class ReverseEtlSyncRun:
    """Run of a reverse ETL sync."""

    id: str
    reverse_etl_sync_id: str
    started_at: Timestamp
    finished_at: Timestamp | None = None
    status: str
    total_rows: int | None = None
    distinct_rows: int | None = None
    new_rows: int | None = None
    synced_rows: int | None = None
    failed_rows: int | None = None
    error: str | None = None
    checkpoint: str | None = None


@dataclass(frozen=True, kw_only=True)
class OrchestrationRun:
    """Run of an orchestration."""

    id: str
    orchestration_id: str
    status: str
    due_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


@dataclass(frozen=True, kw_only=True)
class OrchestrationItem:
    """Task of an orchestration run."""

    run_id: str
    position: int
    job_kind: str
    subject_id: str
    depends_on: list[int]
    state: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """Pending work of the service."""

    seq: int
    kind: str
    subject_id: str
    run_id: str | None = None
    due_at: Timestamp
    begun: bool = False
    orchestration_run_id: str | None = None
    orchestration_position: int | None = None

    @property
    def key(self) -> str:
        """Return a key of the run that is unique within the resource and survives a restart."""
        return self.run_id or f"{self.seq} {self.due_at}"
