"""What the service takes for ELT: as the provider sends it, and nothing that is only like it."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, StrictBool

from airflow_provider_datapipe.api.models import custom_reports, elt_streams, elt_syncs
from airflow_provider_datapipe.api.models.rules import Day

#: May be left out, and then is None; it can't be given as null, which the document says, too.
_OMISSIBLE: Any = Field(default=None)


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

    elt_settings: dict[str, Any] = _OMISSIBLE
    sync_interval: str
    start_date: Day = _OMISSIBLE


class EltSyncUpdateRequest(elt_syncs.EltSyncUpdateRequest):
    """``EltSyncUpdateRequestDto``: what is left out stays as it is."""

    model_config = _DOCUMENTED

    elt_settings: dict[str, Any] = _OMISSIBLE
    sync_interval: str = _OMISSIBLE


class SourceStream(elt_syncs.SourceStream):
    """``SourceStreamDto``: a stream to add, or to update, by its name."""

    model_config = _DOCUMENTED

    incremental_pointer_id: str = _OMISSIBLE
    excluded_columns: tuple[str, ...] = _OMISSIBLE
    hashed_columns: tuple[str, ...] = _OMISSIBLE
    full_sync_always: StrictBool = _OMISSIBLE
    full_sync_at_midnight: StrictBool = _OMISSIBLE
    protected_from_full_sync: StrictBool = _OMISSIBLE
    excluded_substreams: tuple[str, ...] = _OMISSIBLE
    enabled_history_table: StrictBool = False


class SourceStreamsRequest(elt_syncs.SourceStreamsRequest):
    """``EltSyncAddSourceStreamsRequestDto``."""

    model_config = _DOCUMENTED

    source_streams: tuple[SourceStream, ...] = _OMISSIBLE


class CustomReportsRequest(custom_reports.CustomReportsRequest):
    """``CreateCustomReportsRequestDto``."""

    add_as_source_stream: StrictBool = True
