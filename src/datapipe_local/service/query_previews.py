"""Query previews: SQL that somebody tries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.query_previews import QueryPreviewState
from datapipe_local.clock import later
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.ids import new_id
from datapipe_local.service import jobs, templates
from datapipe_local.service.references import Catalogue
from datapipe_local.store.records import JobKind, QueryPreview

if TYPE_CHECKING:
    from datapipe_local.service.context import Context

_KEPT = 1_000
_SECONDS_KEPT = 24 * 60 * 60


def create(context: Context, sql_template: str) -> QueryPreview:
    """
    Have a query run, in the background.

    Its references are resolved at once. What else is wrong with its SQL, the preview's status says.

    :param context: The service.
    :param sql_template: The query.
    :raises BadRequestError: a reference is unknown, or that can be no SQL.
    """
    templates.check("sql_template", sql_template)
    with context.store.transaction():
        now = context.clock.now()
        preview = QueryPreview(
            id=new_id(),
            dw_sql=Catalogue(context).resolve(sql_template),
            status=QueryPreviewState.RUNNING,
            created_at=now,
        )
        context.store.query_previews.insert(preview)
        jobs.add(context, JobKind.QUERY_PREVIEW, preview.id, now, begun=True)
        _forget_old(context)
    context.wake.set()
    return preview


def get(context: Context, preview_id: str) -> QueryPreview:
    """
    Give a preview.

    :raises NotFoundError: there is none with this id, or none any more.
    """
    preview = context.store.query_previews.get(preview_id)
    if preview is None:
        raise NotFoundError("query preview", preview_id)
    return preview


def result(context: Context, preview_id: str) -> QueryPreview:
    """
    Give a preview that has a result.

    :raises NotFoundError: there is none with this id, or none any more.
    :raises BadRequestError: it is running, or has failed.
    """
    preview = get(context, preview_id)
    if preview.status == QueryPreviewState.RUNNING:
        raise BadRequestError(
            f"The query preview {preview_id!r} is still running: wait until its status is DONE.",
            error_code="query_preview_not_done",
        )
    if preview.status == QueryPreviewState.FAILED:
        raise BadRequestError(
            f"The query preview {preview_id!r} has failed: its status says why.", error_code="query_preview_failed"
        )
    return preview


def give_up_cut_off(context: Context) -> None:
    """
    Fail the previews that the end of the process has cut off: it may be that one of them has ended it.

    Only for the start, when none is at work.
    """
    with context.store.transaction():
        for preview in context.store.query_previews.all("WHERE status = ?", QueryPreviewState.RUNNING):
            context.store.query_previews.update(
                preview.id,
                status=QueryPreviewState.FAILED,
                error="The service ended while the query was running: ask again.",
            )
            jobs.withdraw(context, JobKind.QUERY_PREVIEW, preview.id)


def _forget_old(context: Context) -> None:
    """Keep those of the last day, and of them the newest; what is running stays."""
    context.store.database.run(
        "DELETE FROM query_previews WHERE status <> ? AND"
        " (created_at < ? OR seq <= (SELECT max(seq) FROM query_previews) - ?)",
        QueryPreviewState.RUNNING,
        later(context.clock.now(), -_SECONDS_KEPT),
        _KEPT,
    )
