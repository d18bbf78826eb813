"""Serializers of orchestrations and their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.api.serializers import Json, present

if TYPE_CHECKING:
    from datapipe_local.storage import records


def orchestration(record: records.Orchestration, *, newer: bool) -> Json:
    """Return ``OrchestrationDto``. With ``newer`` it includes the schedule."""
    body = {"id": record.id, "name": record.name}
    return body | {"cron_schedule": record.cron_schedule} if newer else body


def orchestration_run(record: records.OrchestrationRun) -> Json:
    """Return ``OrchestrationRunDto``."""
    return present(
        {
            "id": record.id,
            "orchestration_id": record.orchestration_id,
            "status": record.status,
            "due_at": record.due_at,
            "started_at": record.started_at,
            "finished_at": record.finished_at,
        }
    )
