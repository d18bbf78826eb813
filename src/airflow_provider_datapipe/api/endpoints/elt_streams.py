"""ELT streams."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, RunRequested, Unset
from airflow_provider_datapipe.api.models.elt_streams import EltStream, FullRefreshRequest, SyncIntervalRequest
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/elt_streams", answer=Page[EltStream], repeat=Repeat.READ)
def list_(*, elt_sync_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List streams, sorted by creation date.

    :param elt_sync_id: return only the streams of this sync.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.

    Source: interface.md, "GET /elt_streams".
    """
    return Parts(query={"elt_sync_id": elt_sync_id, "limit": limit, "starting_after": starting_after})


@endpoint("GET", "/elt_streams/{id}", answer=EltStream, repeat=Repeat.READ)
def get(stream_id: str) -> Parts:
    """
    Read one stream.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.

    Source: interface.md, "GET /elt_streams/{id}".
    """
    return Parts(path={"id": stream_id})


@endpoint("DELETE", "/elt_streams/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(stream_id: str) -> Parts:
    """
    Delete a stream.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.

    Source: interface.md, "DELETE /elt_streams/{id}".
    """
    return Parts(path={"id": stream_id})


@endpoint("POST", "/elt_streams/{id}/request_run", answer=RunRequested, repeat=Repeat.STARTS_A_RUN)
def request_run(stream_id: str) -> Parts:
    """
    Request an immediate run of one stream.

    The response contains a status URL, not the run: scheduling takes from moments up to an hour.

    :param stream_id: ID of the stream.
    :raises InvalidRequestError: the sync is not running, or the stream's job is stopped.
    :raises NotFoundError: the stream does not exist.
    :raises ConflictError: a run is already active or scheduled.

    Source: interface.md, "POST /elt_streams/{id}/request_run".
    """
    return Parts(path={"id": stream_id})


@endpoint("POST", "/elt_streams/{id}/request_full_refresh", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def request_full_refresh(stream_id: str, *, reset_history_table: bool | Unset = UNSET) -> Parts:
    """
    Make the next run of a stream a full refresh. This does not start a run.

    :param stream_id: ID of the stream.
    :param reset_history_table: True to reset the history table, too (service default: false).
    :raises InvalidRequestError: the sync is not running, or the stream's job is stopped.
    :raises NotFoundError: the stream does not exist.

    Source: interface.md, "POST /elt_streams/{id}/request_full_refresh".
    """
    body = FullRefreshRequest.of(reset_history_table=reset_history_table)
    return Parts(path={"id": stream_id}, body=body if body.model_fields_set else None)


@endpoint("POST", "/elt_streams/{id}/cancel_full_refresh", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def cancel_full_refresh(stream_id: str) -> Parts:
    """
    Cancel a requested full refresh, so that the stream loads incrementally again.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.

    Source: interface.md, "POST /elt_streams/{id}/cancel_full_refresh".
    """
    return Parts(path={"id": stream_id})


@endpoint("POST", "/elt_streams/{id}/set_sync_interval", answer=EltStream, repeat=Repeat.IDEMPOTENT)
def set_sync_interval(stream_id: str, *, sync_interval: str) -> Parts:
    """
    Set a schedule for a stream that is independent of its sync and of the sync's orchestration.

    :param stream_id: ID of the stream.
    :param sync_interval: cron expression with five fields.
    :raises InvalidRequestError: the service rejects the cron expression.
    :raises NotFoundError: the stream does not exist.

    Source: interface.md, "POST /elt_streams/{id}/set_sync_interval".
    """
    return Parts(path={"id": stream_id}, body=SyncIntervalRequest.of(sync_interval=sync_interval))


@endpoint("POST", "/elt_streams/{id}/clear_sync_interval", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def clear_sync_interval(stream_id: str) -> Parts:
    """
    Remove a stream's own schedule. The stream then uses the schedule of its sync or of the sync's orchestration.

    :param stream_id: ID of the stream.
    :raises NotFoundError: the stream does not exist.

    Source: interface.md, "POST /elt_streams/{id}/clear_sync_interval".
    """
    return Parts(path={"id": stream_id})
