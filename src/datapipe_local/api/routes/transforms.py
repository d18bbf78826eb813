"""Routes of transforms."""

import asyncio
from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from airflow_provider_datapipe.api.models.orchestrations import AttachRequest
from airflow_provider_datapipe.api.models.transforms import MaterializationStatus, TransformStatus
from datapipe_local.api.models import transforms as models
from datapipe_local.api.models.common import ListDto, PageDto, serialized
from datapipe_local.api.models.transforms import (
    PublishRequest,
    RematerializeRequest,
    TransformBulkCreateResponseDto,
    TransformBulkRequest,
    TransformCreateRequest,
    TransformDto,
    TransformParameterDto,
    TransformSchemaFieldDto,
    TransformUpdateRequest,
    TransformVersionDto,
)
from datapipe_local.api.routes.common import DEFAULT_LIMIT, After, CurrentContext, Limit, NoFields, envelope, no_content
from datapipe_local.api.routes.documented import answering
from datapipe_local.common.errors import NotFoundError
from datapipe_local.services import (
    transform_drafts,
    transform_publication,
    transform_removal,
    transform_triggers,
    transforms,
    version_control,
)
from datapipe_local.services.context import Context
from datapipe_local.services.references import Catalog

router = APIRouter(prefix="/transforms", tags=["transforms"])

_LONGEST_WAIT = 45.0
_SECONDS_BETWEEN_POLLS = 0.05
#: Arguments of ``model_dump`` that return the given fields of a transform.
_GIVEN: dict[str, Any] = {"exclude_unset": True, "exclude": {"publish", "wait_for_completion"}}


@router.get("", **answering(PageDto[TransformDto]))
def list_transforms(  # noqa: PLR0917 - FastAPI passes them by name
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    status: TransformStatus | None = None,
    name: str | None = None,
    folder_path: str | None = None,
) -> dict[str, Any]:
    """List transforms by creation date. ``name`` filters by a substring."""
    page = transforms.page(
        context, after=starting_after, limit=limit, status=status, name=name, folder_path=folder_path
    )
    return envelope(page, partial(models.transform, context, Catalog(context)))


@router.post("", **answering(TransformDto, status=201))
async def create_transform(context: CurrentContext, body: TransformCreateRequest) -> dict[str, Any]:
    """Create a transform as a draft or published."""
    created = await run_in_threadpool(
        partial(transform_drafts.create, context, publish=body.publish, **body.model_dump(**_GIVEN))
    )
    return await _answer(context, created.id, wait=body.wait_for_completion)


@router.post("/bulk", **answering(TransformBulkCreateResponseDto))
async def create_many(context: CurrentContext, body: TransformBulkRequest) -> dict[str, Any]:
    """Create transforms in order and independently of each other. A transform can refer to previous ones."""
    await run_in_threadpool(version_control.refuse_if_managed, context, "Creating transforms")
    results, deadline = [], _deadline()
    for wanted in body.transforms:
        fields = {"publish": wanted.publish, **wanted.model_dump(**_GIVEN)}
        result = await run_in_threadpool(transform_drafts.create_one, context, fields)
        if wanted.wait_for_completion and result.transform_id is not None:
            await _completion(context, result.transform_id, deadline)
        results.append(models.bulk_result(result))
    return {"results": results}


@router.get("/available_references", **answering(ListDto[TransformParameterDto]))
def list_references(context: CurrentContext) -> dict[str, Any]:
    """List the references that SQL templates can contain."""
    return {"data": [models.reference(entry) for entry in Catalog(context).available()]}


@router.get("/{transform_id}", **answering(TransformDto, 404))
def get_transform(context: CurrentContext, transform_id: str) -> dict[str, Any]:
    """Return a transform."""
    return models.transform(context, Catalog(context), transforms.get(context, transform_id))


@router.patch("/{transform_id}", **answering(TransformDto, 404))
async def update_transform(context: CurrentContext, transform_id: str, body: TransformUpdateRequest) -> dict[str, Any]:
    """Update a transform. Missing fields keep their value."""
    changes = body.model_dump(**_GIVEN)
    await run_in_threadpool(partial(transform_drafts.update, context, transform_id, changes, publish=body.publish))
    return await _answer(context, transform_id, wait=body.wait_for_completion)


@router.delete("/{transform_id}", **answering(None, 404, status=204))
def delete_transform(context: CurrentContext, transform_id: str, body: NoFields | None = None) -> Response:
    """Delete a transform and its object in the warehouse."""
    transform_removal.delete(context, transform_id)
    return no_content()


@router.get("/{transform_id}/schema", **answering(ListDto[TransformSchemaFieldDto], 404))
def get_schema(context: CurrentContext, transform_id: str) -> dict[str, Any]:
    """Return the columns of a transform."""
    return {"data": [serialized(TransformSchemaFieldDto, entry) for entry in transforms.columns(context, transform_id)]}


@router.get("/{transform_id}/versions", **answering(PageDto[TransformVersionDto], 404))
def list_versions(
    context: CurrentContext, transform_id: str, starting_after: After = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List the versions of a transform's SQL, newest first."""
    transform, page = transforms.page_of_versions(context, transform_id, after=starting_after, limit=limit)
    return envelope(page, partial(models.version, Catalog(context), transform))


@router.post("/{transform_id}/orchestration", **answering(TransformDto, 404))
def attach_orchestration(context: CurrentContext, transform_id: str, body: AttachRequest) -> dict[str, Any]:
    """Attach a transform to an orchestration, whose runs rebuild it."""
    transform_triggers.attach(context, transform_id, body.orchestration_workflow_id)
    return get_transform(context, transform_id)


@router.delete("/{transform_id}/orchestration", **answering(TransformDto, 404))
def detach_orchestration(
    context: CurrentContext, transform_id: str, cron_expression: str | None = None, body: NoFields | None = None
) -> dict[str, Any]:
    """Detach a transform from its orchestration."""
    transform_triggers.detach(context, transform_id, cron_expression=cron_expression)
    return get_transform(context, transform_id)


@router.post("/{transform_id}/publish", **answering(TransformDto, 404))
async def publish(context: CurrentContext, transform_id: str, body: PublishRequest | None = None) -> dict[str, Any]:
    """Publish a transform as a view, immediately, or as a table, in the background."""
    wanted = body or PublishRequest()
    await run_in_threadpool(
        transform_publication.publish,
        context,
        transform_id,
        version_id=wanted.version_id,
        name=wanted.name,
        folder_path=wanted.folder_path,
        materialization=wanted.materialization,
    )
    return await _answer(context, transform_id, wait=wanted.wait_for_completion)


@router.post("/{transform_id}/rematerialize", **answering(TransformDto, 404))
async def rematerialize(
    context: CurrentContext, transform_id: str, body: RematerializeRequest | None = None
) -> dict[str, Any]:
    """Rebuild a published transform."""
    await run_in_threadpool(transform_publication.rematerialize, context, transform_id)
    return await _answer(context, transform_id, wait=body is not None and body.wait_for_completion)


async def _answer(context: Context, transform_id: str, *, wait: bool) -> dict[str, Any]:
    if wait:
        await _completion(context, transform_id, _deadline())
    return await run_in_threadpool(get_transform, context, transform_id)


def _deadline() -> float:
    return asyncio.get_running_loop().time() + _LONGEST_WAIT


async def _completion(context: Context, transform_id: str, deadline: float) -> None:
    """Wait until the build has finished or the deadline has passed."""
    while asyncio.get_running_loop().time() < deadline:
        try:
            transform = await run_in_threadpool(transforms.get, context, transform_id)
        except NotFoundError:
            # The transform was deleted in the meantime.
            return
        if transform.materialization_status != MaterializationStatus.RUNNING:
            return
        await asyncio.sleep(_SECONDS_BETWEEN_POLLS)
