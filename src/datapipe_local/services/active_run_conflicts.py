"""Conflicts with active runs: the service answers 409 to a request for a run while the resource already has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import ConflictError
from datapipe_local.services import jobs

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import JobKind


def raise_if_run_active(context: Context, kind: JobKind, subject_id: str, subject: str) -> None:
    """
    Raise if the resource already has a run.

    :param context: Service context.
    :param kind: Kind of run.
    :param subject_id: Resource that the run belongs to.
    :param subject: Name of the resource in the error message.
    :raises ConflictError: if a run is active or scheduled. The error contains the ID of an active run.
    """
    job = jobs.get(context, kind, subject_id)
    if job is None:
        return
    if job.run_id is None:
        raise ConflictError(f"A run of {subject} is already scheduled.", error_code="run_already_scheduled")
    raise ConflictError(
        f"{subject[0].upper()}{subject[1:]} is already running.",
        error_code="run_already_active",
        active_run_id=job.run_id,
    )
