"""What the service takes for ELT: as the provider sends it, and nothing that is only like it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, StrictBool
from pydantic.json_schema import SkipJsonSchema

from airflow_provider_datapipe.api.models import custom_reports, elt_streams, elt_syncs
from airflow_provider_datapipe.api.models.rules import Day, refuse_null

T = TypeVar("T")

#: May be left out, and must not be null, which the document says, too.
Given = Annotated[T | SkipJsonSchema[None], BeforeValidator(refuse_null)]


def _without_null(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        if "default" in field and field["default"] is None:
            del field["default"]


_DOCUMENTED = ConfigDict(json_schema_extra=_without_null)


class FullRefreshRequest(elt_streams.FullRefreshRequest):
    """``EltStreamFullRefreshRequestDto``."""

    reset_history_table: StrictBool = False


class SyncIntervalRequest(elt_streams.SyncIntervalRequest):
    """``EltStreamSyncIntervalRequestDto``: the stream's own schedule, which the service checks."""

    sync_interval: str


class EltSyncCreateRequest(elt_syncs.EltSyncCreateRequest):
    """``EltSyncCreateRequestDto``."""

    model_config = _DOCUMENTED

    elt_settings: Given[dict[str, Any]] = None
    sync_interval: str
    start_date: Given[Day] = None


class EltSyncUpdateRequest(elt_syncs.EltSyncUpdateRequest):
    """``EltSyncUpdateRequestDto``: what is left out stays as it is."""

    model_config = _DOCUMENTED

    elt_settings: Given[dict[str, Any]] = None
    sync_interval: Given[str] = None


class SourceStream(elt_syncs.SourceStream):
    """``SourceStreamDto``: a stream to add, or to update, by its name."""

    model_config = _DOCUMENTED

    incremental_pointer_id: Given[str] = None
    excluded_columns: Given[tuple[str, ...]] = None
    hashed_columns: Given[tuple[str, ...]] = None
    full_sync_always: Given[StrictBool] = None
    full_sync_at_midnight: Given[StrictBool] = None
    protected_from_full_sync: Given[StrictBool] = None
    excluded_substreams: Given[tuple[str, ...]] = None
    enabled_history_table: StrictBool = False


class SourceStreamsRequest(elt_syncs.SourceStreamsRequest):
    """``EltSyncAddSourceStreamsRequestDto``."""

    model_config = _DOCUMENTED

    source_streams: Given[tuple[SourceStream, ...]] = None


class CustomReportsRequest(custom_reports.CustomReportsRequest):
    """``CreateCustomReportsRequestDto``."""

    add_as_source_stream: StrictBool = True
