"""Examples of the operators that change orchestrations."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.orchestrations import (
    OrchestrationCreateOperator,
    OrchestrationDeleteOperator,
    OrchestrationUpdateOperator,
)
from tests.support.operator_examples.example import UNCHANGED, Example, changed, orchestration

SEED: dict[str, Any] = {
    "orchestrations": [
        orchestration(f"orchestration.{use}", f"Orchestration to {use}")
        for use in ("keep", "change", "update", "rename", "delete", "delete_by_name")
    ]
}


def _created(name: str, **more: str) -> dict[str, Any]:
    return {"name": name, "cron_schedule": "0 4 * * *", **more}


EXAMPLES = [
    Example(
        "orchestration_create",
        OrchestrationCreateOperator,
        _created("Created by a task"),
        changed("created", name="Created by a task"),
    ),
    Example(
        "orchestration_create_update",
        OrchestrationCreateOperator,
        _created("Orchestration to change"),
        changed("updated", id="orchestration.change"),
    ),
    Example(
        "orchestration_keep",
        OrchestrationCreateOperator,
        _created("Orchestration to keep", if_exists="keep"),
        {**UNCHANGED, "id": "orchestration.keep"},
    ),
    Example(
        "orchestration_update",
        OrchestrationUpdateOperator,
        {"orchestration_name": "Orchestration to update", "cron_schedule": "0 4 * * *"},
        {"action": "updated", "id": "orchestration.update", "name": "Orchestration to update"},
        {"action": "updated"},
    ),
    Example(
        "orchestration_rename",
        OrchestrationUpdateOperator,
        {"orchestration_id": "orchestration.rename", "new_name": "Renamed"},
        {"action": "updated", "name": "Renamed"},
        {"action": "updated"},
    ),
    Example(
        "orchestration_delete",
        OrchestrationDeleteOperator,
        {"orchestration_id": "orchestration.delete", "cron_schedule": "0 4 * * *"},
        changed("deleted", id="orchestration.delete"),
    ),
    Example(
        "orchestration_delete_by_name",
        OrchestrationDeleteOperator,
        {"orchestration_name": "Orchestration to delete_by_name", "cron_schedule": "0 4 * * *"},
        changed("deleted", id="orchestration.delete_by_name"),
        {**UNCHANGED, "id": None},
    ),
]
