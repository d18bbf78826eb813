"""Transforms."""

import asyncio
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool

from airflow_provider_datapipe.api.models.transforms import (
    MaterializationStatus,
    PublishRequest,
    RematerializeRequest,
    TransformStatus,
)
from datapipe_local.routes.answers import transforms as answers
from datapipe_local.routes.common import DEFAULT_LIMIT, After, CurrentContext, Limit, envelope
from datapipe_local.service import publishing, transforms
from datapipe_local.service.context import Context
from datapipe_local.service.references import Catalogue

router = APIRouter(prefix="/transforms", tags=["transforms"])

_LONGEST_WAIT = 45.0
_BETWEEN_LOOKS = 0.05


@router.get("")
def list_transforms(  # noqa: PLR0917 - FastAPI passes them by name
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    status: TransformStatus | None = None,
    name: str | None = None,
    folder_path: str | None = None,
) -> dict[str, Any]:
    """List transforms by creation date; ``name`` is a part of the name."""
    page = transforms.page(
        context, after=starting_after, limit=limit, status=status, name=name, folder_path=folder_path
    )
    return envelope(page, partial(answers.transform, context, Catalogue(context)))


@router.get("/available_references")
def list_references(context: CurrentContext) -> dict[str, Any]:
    """List what SQL templates can name."""
    return {"data": [answers.reference(entry) for entry in Catalogue(context).available()]}


@router.get("/{transform_id}")
def get_transform(context: CurrentContext, transform_id: str) -> dict[str, Any]:
    """Give a transform."""
    return answers.transform(context, Catalogue(context), transforms.get(context, transform_id))


@router.get("/{transform_id}/schema")
def get_schema(context: CurrentContext, transform_id: str) -> dict[str, Any]:
    """Tell a transform's columns."""
    return {"data": [answers.column(entry) for entry in transforms.columns(context, transform_id)]}


@router.post("/{transform_id}/publish")
async def publish(context: CurrentContext, transform_id: str, body: PublishRequest | None = None) -> dict[str, Any]:
    """Publish a transform as a view, at once, or as a table, in the background."""
    wanted = body or PublishRequest()
    await run_in_threadpool(
        publishing.publish,
        context,
        transform_id,
        version_id=wanted.version_id,
        name=wanted.name,
        folder_path=wanted.folder_path,
        materialization=wanted.materialization,
    )
    return await _answer(context, transform_id, wait=wanted.wait_for_completion)


@router.post("/{transform_id}/rematerialize")
async def rematerialize(
    context: CurrentContext, transform_id: str, body: RematerializeRequest | None = None
) -> dict[str, Any]:
    """Build a published transform again."""
    await run_in_threadpool(publishing.rematerialize, context, transform_id)
    return await _answer(context, transform_id, wait=body is not None and body.wait_for_completion)


async def _answer(context: Context, transform_id: str, *, wait: bool) -> dict[str, Any]:
    if wait:
        await _completion(context, transform_id)
    return await run_in_threadpool(get_transform, context, transform_id)


async def _completion(context: Context, transform_id: str) -> None:
    """Wait until nothing is being built, or for so long as a call may take."""
    deadline = asyncio.get_running_loop().time() + _LONGEST_WAIT
    while asyncio.get_running_loop().time() < deadline:
        transform = await run_in_threadpool(transforms.get, context, transform_id)
        if transform.materialization_status != MaterializationStatus.RUNNING:
            return
        await asyncio.sleep(_BETWEEN_LOOKS)
