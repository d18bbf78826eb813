"""Query previews: trial runs of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.query_previews import QueryPreviewState
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import jobs, templates
from datapipe_local.services.references import Catalog
from datapipe_local.storage.clock import later
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import JobKind, QueryPreview

if TYPE_CHECKING:
    from datapipe_local.services.context import Context

_KEPT = 1_000
_SECONDS_KEPT = 24 * 60 * 60


def create(context: Context, sql_template: str) -> QueryPreview:
    """
    Start a query in the background.

    References are resolved immediately. Other errors in the SQL appear in the status of the preview.

    :param context: Service context.
    :param sql_template: SQL template.
    :raises BadRequestError: if the template is not valid text, or a reference is unknown.
    """
    templates.check("sql_template", sql_template)
    with context.store.transaction():
        now = context.clock.now()
        preview = QueryPreview(
            id=new_id(), dw_sql=Catalog(context).resolve(sql_template), status=QueryPreviewState.RUNNING, created_at=now
        )
        context.store.query_previews.insert(preview)
        jobs.add(context, JobKind.QUERY_PREVIEW, preview.id, now, begun=True)
        _forget_old(context)
    context.wake.set()
    return preview


def get(context: Context, preview_id: str) -> QueryPreview:
    """
    Return a preview.

    :raises NotFoundError: if the preview does not exist or has expired.
    """
    return context.store.query_previews.existing(preview_id)


def result(context: Context, preview_id: str) -> QueryPreview:
    """
    Return a preview that has a result.

    :raises NotFoundError: if the preview does not exist or has expired.
    :raises BadRequestError: if the query is running or has failed.
    """
    preview = get(context, preview_id)
    if preview.status == QueryPreviewState.RUNNING:
        raise BadRequestError(
            f"The query preview {preview_id!r} is still running: wait until its status is DONE.",
            error_code="query_preview_not_done",
        )
    if preview.status == QueryPreviewState.FAILED:
        raise BadRequestError(
            f"The query preview {preview_id!r} failed: its status contains the reason.",
            error_code="query_preview_failed",
        )
    return preview


def fail_interrupted(context: Context) -> None:
    """
    Mark previews as failed that were running when the previous process ended, because one of them may have ended it.

    Call this only at the start, while no preview is running.
    """
    with context.store.transaction():
        for preview in context.store.query_previews.all("WHERE status = ?", QueryPreviewState.RUNNING):
            context.store.query_previews.update(
                preview.id,
                status=QueryPreviewState.FAILED,
                error="The service ended while the query was running: create the preview again.",
            )
            jobs.cancel(context, JobKind.QUERY_PREVIEW, preview.id)


def _forget_old(context: Context) -> None:
    """Delete finished previews that are older than a day or not among the last 1,000."""
    context.store.database.run(
        "DELETE FROM query_previews WHERE status <> ? AND"
        " (created_at < ? OR seq <= (SELECT max(seq) FROM query_previews) - ?)",
        QueryPreviewState.RUNNING,
        later(context.clock.now(), -_SECONDS_KEPT),
        _KEPT,
    )
