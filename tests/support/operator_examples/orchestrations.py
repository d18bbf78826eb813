"""Examples of the operators that change orchestrations."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.orchestration_changes import (
    OrchestrationCreateOperator,
    OrchestrationDeleteOperator,
    OrchestrationUpdateOperator,
)
from tests.support.operator_examples.example import Example

SEED: dict[str, Any] = {
    "orchestrations": [
        {"id": f"orchestration.{use}", "name": f"Orchestration to {use}", "cron_schedule": "0 2 * * *"}
        for use in ("keep", "change", "update", "rename", "delete", "delete_by_name")
    ]
}

EXAMPLES = [
    Example(
        "orchestration_create",
        OrchestrationCreateOperator,
        {"name": "Created by a task", "cron_schedule": "0 4 * * *"},
        {"action": "created", "changed": True, "name": "Created by a task"},
        {"action": "none", "changed": False},
    ),
    Example(
        "orchestration_create_update",
        OrchestrationCreateOperator,
        {"name": "Orchestration to change", "cron_schedule": "0 4 * * *"},
        {"action": "updated", "changed": True, "id": "orchestration.change"},
        {"action": "none", "changed": False},
    ),
    Example(
        "orchestration_keep",
        OrchestrationCreateOperator,
        {"name": "Orchestration to keep", "cron_schedule": "0 4 * * *", "if_exists": "keep"},
        {"action": "none", "changed": False, "id": "orchestration.keep"},
        {"action": "none", "changed": False},
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
        {"action": "deleted", "changed": True, "id": "orchestration.delete"},
        {"action": "none", "changed": False},
    ),
    Example(
        "orchestration_delete_by_name",
        OrchestrationDeleteOperator,
        {"orchestration_name": "Orchestration to delete_by_name", "cron_schedule": "0 4 * * *"},
        {"action": "deleted", "changed": True, "id": "orchestration.delete_by_name"},
        {"action": "none", "changed": False, "id": None},
    ),
]
