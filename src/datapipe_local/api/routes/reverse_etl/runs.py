"""Routes of reverse ETL sync runs."""

from fastapi import APIRouter, Response

from datapipe_local.api.routes.common import (
    DEFAULT_LIMIT,
    After,
    CurrentContext,
    Limit,
    SortDirection,
    as_it_is,
    envelope,
)
from datapipe_local.api.routes.documented import answering
from datapipe_local.api.schemas.common import PageDto
from datapipe_local.api.schemas.reverse_etl import ReverseEtlSyncRunDto
from datapipe_local.api.serializers import reverse_etl as answers
from datapipe_local.services import reverse_etl

router = APIRouter()


@router.get("/reverse_etl_sync_runs", **answering(PageDto[ReverseEtlSyncRunDto], 404))
def list_runs(
    context: CurrentContext,
    reverse_etl_sync_id: str,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    sort_direction: SortDirection = "desc",
) -> Response:
    """List the runs of a sync by start date."""
    page = reverse_etl.page_of_runs(
        context, reverse_etl_sync_id, after=starting_after, limit=limit, direction=sort_direction
    )
    return as_it_is(envelope(page, answers.reverse_etl_sync_run))


@router.get("/reverse_etl_sync_runs/{run_id}", **answering(ReverseEtlSyncRunDto, 404))
def get_run(context: CurrentContext, run_id: str) -> Response:
    """Return a run of a sync."""
    return as_it_is(answers.reverse_etl_sync_run(reverse_etl.runs(context).shown(run_id)))
