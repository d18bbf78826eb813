"""Models of the seed file."""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from datapipe_local.common.base_model import Strict

Seconds = float | int


def _as_day(value: object) -> object:
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise ValueError("give a day, such as 2026-01-31") from None
    return value


Day = Annotated[dt.date, BeforeValidator(_as_day)]


class RunSettings(Strict):
    """Behavior of runs; times are in seconds."""

    schedules: bool = True
    scheduling_delay: Seconds = Field(default=0, ge=0, le=3600)
    minimum_duration: Seconds = Field(default=0, ge=0, le=3600)
    first_load_slice_rows: int | None = Field(default=None, ge=1)


class Limits(Strict):
    """Limits of the service."""

    syncs_per_connection: int = Field(default=10, ge=0, le=1_000_000)
    webhook_request_bytes: int = Field(default=1 << 20, ge=1, le=1 << 30)


class Responses(Strict):
    """Options for the fields of responses."""

    older_description: bool = False


class Connection(Strict):
    """Connection to a source or a destination."""

    id: str | None = None
    integration_id: str
    label: str = Field(min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict)


class SourceStream(Strict):
    """Stream. Its other fields depend on the kind of its source, which checks them."""

    model_config = ConfigDict(extra="allow")

    id: str | None = None
    name: str
    custom_report_id: str | None = None
    sync_interval: str | None = None
    incremental_pointer_id: str | None = None
    incremental_primary_key_name: list[str] | None = Field(default=None, min_length=1)
    excluded_columns: list[str] = Field(default_factory=list)
    hashed_columns: list[str] = Field(default_factory=list)
    full_sync_always: bool = False
    full_sync_at_midnight: bool = False
    protected_from_full_sync: bool = False
    excluded_substreams: list[str] = Field(default_factory=list)
    enabled_history_table: bool = False


class CustomReport(Strict):
    """Custom report."""

    id: str | None = None
    elt_sync_id: str
    name: str = Field(min_length=1)
    query: str = Field(min_length=1)
    source_stream_name: str | None = Field(default=None, min_length=1)
    add_as_source_stream: bool = True


class EltSync(Strict):
    """ELT sync with its streams."""

    id: str | None = None
    connection_id: str
    destination_schema_name: str
    sync_interval: str | None = None
    enabled: bool = True
    orchestration_workflow_id: str | None = None
    start_date: Day | None = None
    elt_settings: dict[str, Any] = Field(default_factory=dict)
    source_streams: list[SourceStream] = Field(default_factory=list)


class Orchestration(Strict):
    """Orchestration."""

    id: str | None = None
    name: str = Field(min_length=1)
    cron_schedule: str


class Transform(Strict):
    """Transform, which is published if ``publish`` is true."""

    id: str | None = None
    name: str
    folder_path: str = ""
    materialization: Literal["view", "table"] = "view"
    publish: bool = False
    sql_template: str = Field(min_length=1)
    documentation: str | None = None
    cron_expression: str | None = None
    orchestration_workflow_id: str | None = None


class Mapping(Strict):
    """Column of the source, and the property of the destination that gets its values."""

    source_property_id: str = Field(min_length=1)
    destination_property_id: str = Field(min_length=1)
    primary_key: bool = False


class Operation(Strict):
    """Mode of a reverse ETL sync, and its column mappings."""

    mode: Literal["insert", "update", "upsert", "mirror"]
    mappings: list[Mapping] = Field(min_length=1)


class ReverseEtlSync(Strict):
    """Reverse ETL sync."""

    id: str | None = None
    source_id: str
    destination_connection_id: str
    object_type_id: str
    sync_interval: str | None = None
    enabled: bool = True
    orchestration_workflow_id: str | None = None
    operation: Operation
    settings: dict[str, Any] = Field(default_factory=dict)


class Seed(Strict):
    """Seed file."""

    runs: RunSettings | None = None
    transforms_managed_by_version_control: bool | None = None
    limits: Limits | None = None
    responses: Responses | None = None
    connections: list[Connection] = Field(default_factory=list)
    orchestrations: list[Orchestration] = Field(default_factory=list)
    elt_syncs: list[EltSync] = Field(default_factory=list)
    custom_reports: list[CustomReport] = Field(default_factory=list)
    transforms: list[Transform] = Field(default_factory=list)
    reverse_etl_syncs: list[ReverseEtlSync] = Field(default_factory=list)
