"""Reverse ETL syncs, their runs, and the records that failed."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from airflow_provider_datapipe.api.models.reverse_etl import RetryRecordsRequest
from datapipe_local.routes.answers import reverse_etl as answers
from datapipe_local.routes.common import (
    DEFAULT_LIMIT,
    NO_CONTENT,
    After,
    CurrentContext,
    Limit,
    NoFields,
    SortDirection,
    envelope,
    no_content,
)
from datapipe_local.service import reverse_etl

router = APIRouter(tags=["reverse ETL"])


@router.get("/reverse_etl_syncs")
def list_syncs(
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    destination_connection_id: str | None = None,
) -> dict[str, Any]:
    """List syncs by creation date, of one destination connection if its id is given."""
    page = reverse_etl.page(
        context, after=starting_after, limit=limit, destination_connection_id=destination_connection_id
    )
    return envelope(page, partial(answers.reverse_etl_sync, context))


@router.get("/reverse_etl_syncs/{sync_id}")
def get_sync(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Give a sync with its settings."""
    return answers.reverse_etl_sync(context, reverse_etl.get(context, sync_id), with_settings=True)


@router.post("/reverse_etl_syncs/{sync_id}/activate", status_code=NO_CONTENT)
def activate_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Have a sync run on its schedule."""
    reverse_etl.activate(context, sync_id, enabled=True)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/deactivate", status_code=NO_CONTENT)
def deactivate_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Have a sync no longer run on its schedule."""
    reverse_etl.activate(context, sync_id, enabled=False)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/request_run")
def request_run(
    context: CurrentContext,
    sync_id: str,
    body: NoFields | None = None,
) -> dict[str, str]:
    """Ask for a run, now."""
    return {"status_url": reverse_etl.request_run(context, sync_id)}


@router.get("/reverse_etl_sync_runs")
def list_runs(
    context: CurrentContext,
    reverse_etl_sync_id: str,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    sort_direction: SortDirection = "desc",
) -> dict[str, Any]:
    """List the runs of a sync by start date."""
    page = reverse_etl.page_of_runs(
        context, reverse_etl_sync_id, after=starting_after, limit=limit, direction=sort_direction
    )
    return envelope(page, answers.reverse_etl_sync_run)


@router.get("/reverse_etl_sync_runs/{run_id}")
def get_run(context: CurrentContext, run_id: str) -> dict[str, Any]:
    """Give a run of a sync."""
    return answers.reverse_etl_sync_run(reverse_etl.runs(context).shown(run_id))


@router.get("/reverse_etl_failed_records")
def list_failed_records(
    context: CurrentContext, reverse_etl_sync_id: str, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List unresolved failures of records."""
    failures = reverse_etl.failed_records(context, reverse_etl_sync_id, limit=limit)
    return {
        "data": [
            {"sync_id": reverse_etl_sync_id, "record_id": record_id, "error": error} for record_id, error in failures
        ]
    }


@router.get("/reverse_etl_failed_records/count")
def count_failed_records(context: CurrentContext, reverse_etl_sync_id: str) -> dict[str, int]:
    """Count unresolved failures of records."""
    return {"count": reverse_etl.count_failed_records(context, reverse_etl_sync_id)}


@router.post("/reverse_etl_failed_records/retry", status_code=NO_CONTENT)
def retry(context: CurrentContext, reverse_etl_sync_id: str, body: RetryRecordsRequest) -> Response:
    """Have the next run send records again."""
    reverse_etl.retry(context, reverse_etl_sync_id, body.record_ids)
    return no_content()


@router.post("/reverse_etl_failed_records/retry_all", status_code=NO_CONTENT)
def retry_all(
    context: CurrentContext,
    reverse_etl_sync_id: str,
    body: NoFields | None = None,
) -> Response:
    """Have the next run send all records again that failed."""
    reverse_etl.retry(context, reverse_etl_sync_id)
    return no_content()
