"""ELT streams: the tables that ELT syncs load."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, RunRequested, Unset
from airflow_provider_datapipe.api.models.elt_streams import EltStream, FullRefreshRequest, SyncIntervalRequest
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/elt_streams", answer=Page[EltStream], repeat=Repeat.READ)
def list_(*, elt_sync_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> None:
    """
    List streams, sorted by creation date.

    :param elt_sync_id: return only the streams of this sync.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint("GET", "/elt_streams/{id}", answer=EltStream, repeat=Repeat.READ)
def get(stream_id: str) -> None:
    """
    Read one stream.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.
    """


@endpoint("DELETE", "/elt_streams/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(stream_id: str) -> None:
    """
    Delete a stream.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.
    """


@endpoint("POST", "/elt_streams/{id}/request_run", answer=RunRequested, repeat=Repeat.STARTS_A_RUN)
def request_run(stream_id: str) -> None:
    """
    Request an immediate run of one stream.

    The response contains a status URL, not the run: scheduling takes from moments up to an hour.

    :param stream_id: ID of the stream.
    :raises InvalidRequestError: the sync is not running, or the stream's job is stopped.
    :raises NotFoundError: the stream does not exist.
    :raises ConflictError: a run is already active or scheduled.
    """


@endpoint(
    "POST",
    "/elt_streams/{id}/request_full_refresh",
    answer=NO_CONTENT,
    repeat=Repeat.IDEMPOTENT,
    body=FullRefreshRequest,
    body_is_optional=True,
)
def request_full_refresh(stream_id: str, *, reset_history_table: bool | Unset = UNSET) -> None:
    """
    Make the next run of a stream a full refresh. This does not start a run.

    :param stream_id: ID of the stream.
    :param reset_history_table: True to reset the history table, too (service default: false).
    :raises InvalidRequestError: the sync is not running, or the stream's job is stopped.
    :raises NotFoundError: the stream does not exist.
    """


@endpoint("POST", "/elt_streams/{id}/cancel_full_refresh", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def cancel_full_refresh(stream_id: str) -> None:
    """
    Cancel a requested full refresh, so that the stream loads incrementally again.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.
    """


@endpoint(
    "POST", "/elt_streams/{id}/set_sync_interval", answer=EltStream, repeat=Repeat.IDEMPOTENT, body=SyncIntervalRequest
)
def set_sync_interval(stream_id: str, *, sync_interval: str) -> None:
    """
    Set a schedule for a stream that is independent of its sync and of the sync's orchestration.

    :param stream_id: ID of the stream.
    :param sync_interval: cron expression with five fields.
    :raises InvalidRequestError: the service rejects the cron expression.
    :raises NotFoundError: the stream does not exist.
    """


@endpoint("POST", "/elt_streams/{id}/clear_sync_interval", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def clear_sync_interval(stream_id: str) -> None:
    """
    Remove a stream's own schedule. The stream then uses the schedule of its sync or of the sync's orchestration.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.
    """
