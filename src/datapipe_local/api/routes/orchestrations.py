"""Routes of orchestrations and their runs."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from datapipe_local.api.models.common import PageDto, serialized
from datapipe_local.api.models.orchestrations import (
    ChangedOrchestration,
    NewOrchestration,
    OrchestrationDto,
    OrchestrationRunDto,
    orchestration,
)
from datapipe_local.api.routes.common import (
    DEFAULT_LIMIT,
    After,
    CurrentContext,
    Limit,
    NoFields,
    envelope,
    no_content,
    unvalidated_json,
)
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import orchestrations

router = APIRouter(tags=["orchestrations"])


@router.get("/orchestrations", **answering(PageDto[OrchestrationDto]))
def list_orchestrations(
    context: CurrentContext, starting_after: After = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List orchestrations by name."""
    return envelope(
        orchestrations.page(context, after=starting_after, limit=limit),
        partial(orchestration, newer=context.shows_newer_fields),
    )


@router.post("/orchestrations", **answering(OrchestrationDto, status=201))
def create_orchestration(context: CurrentContext, body: NewOrchestration) -> dict[str, Any]:
    """Create an orchestration."""
    created = orchestrations.create(context, name=body.name, cron_schedule=body.cron_schedule)
    return orchestration(created, newer=context.shows_newer_fields)


@router.get("/orchestrations/{orchestration_id}", **answering(OrchestrationDto, 404))
def get_orchestration(context: CurrentContext, orchestration_id: str) -> dict[str, Any]:
    """Return an orchestration."""
    return orchestration(orchestrations.get(context, orchestration_id), newer=context.shows_newer_fields)


@router.post("/orchestrations/{orchestration_id}", **answering(OrchestrationDto, 404))
def update_orchestration(context: CurrentContext, orchestration_id: str, body: ChangedOrchestration) -> dict[str, Any]:
    """Update an orchestration."""
    changed = orchestrations.update(context, orchestration_id, name=body.name, cron_schedule=body.cron_schedule)
    return orchestration(changed, newer=context.shows_newer_fields)


@router.delete("/orchestrations/{orchestration_id}", **answering(None, 404, status=204))
def delete_orchestration(
    context: CurrentContext, orchestration_id: str, cron_schedule: Annotated[str, Query()]
) -> Response:
    """Delete an orchestration. Attached resources run on the given schedule from then on."""
    orchestrations.delete(context, orchestration_id, cron_schedule=cron_schedule)
    return no_content()


@router.post("/orchestrations/{orchestration_id}/request_run", **answering(OrchestrationRunDto, 404))
def request_run(context: CurrentContext, orchestration_id: str, body: NoFields | None = None) -> dict[str, Any]:
    """Schedule a run."""
    return serialized(OrchestrationRunDto, orchestrations.request_run(context, orchestration_id))


@router.get("/orchestration_runs", **answering(PageDto[OrchestrationRunDto], 404))
def list_runs(
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    orchestration_id: str | None = None,
) -> Response:
    """List runs, latest due date first, optionally of one orchestration."""
    page = orchestrations.page_of_runs(context, after=starting_after, limit=limit, orchestration_id=orchestration_id)
    return unvalidated_json(envelope(page, partial(serialized, OrchestrationRunDto)))


@router.get("/orchestration_runs/{run_id}", **answering(OrchestrationRunDto, 404))
def get_run(context: CurrentContext, run_id: str) -> Response:
    """Return a run of an orchestration."""
    return unvalidated_json(serialized(OrchestrationRunDto, orchestrations.get_run(context, run_id)))
