"""Request bodies, schemas and serializer of ELT streams and their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired

from pydantic import StrictBool
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models import elt_streams
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from datapipe_local.api.models.common import Count, Json, Moment, dto, serialized

if TYPE_CHECKING:
    from datapipe_local.storage import records


class FullRefreshRequest(elt_streams.FullRefreshRequest):
    """``EltStreamFullRefreshRequestDto``."""

    reset_history_table: StrictBool = False


class SyncIntervalRequest(elt_streams.SyncIntervalRequest):
    """``EltStreamSyncIntervalRequestDto``: the stream's own schedule. The service validates it."""

    sync_interval: str


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


def elt_stream(record: records.EltStream, *, newer: bool) -> Json:
    """Return ``EltStreamDto``. With ``newer`` it includes the stream's own schedule, which can be null."""
    body = serialized(EltStreamDto, record, sync_interval=None)
    return body | {"sync_interval": record.sync_interval} if newer else body
