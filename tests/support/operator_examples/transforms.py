"""Examples of the operators that change transforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator, TransformPlanOperator
from airflow_provider_datapipe.operators.transforms import (
    TransformAttachOperator,
    TransformDeleteOperator,
    TransformDeployOperator,
    TransformDetachOperator,
    TransformRematerializeOperator,
)
from tests.support.operator_examples.example import UNCHANGED, Example, changed, orchestration, transform

#: Folders of SQL files with references between them.
MODELS = Path(__file__).parent / "models"
_ATTACHED = {"orchestration_workflow_id": "orchestration.builds"}


def _seeded(use: str, **more: Any) -> dict[str, Any]:
    fields = {"name": use, "folder_path": "changed", "materialization": "table"}
    return transform(f"transform.{use}", **fields | more)


SEED: dict[str, Any] = {
    "orchestrations": [orchestration("orchestration.builds", "Builds")],
    "transforms": [
        *(_seeded(use) for use in ("update", "rebuild", "delete", "attach")),
        *(_seeded(use, materialization="view") for use in ("read", "delete_by_name")),
        _seeded("detach", **_ATTACHED),
        _seeded("detached", folder_path="declared", **_ATTACHED),
        _seeded("orphan", folder_path="declared"),
        # A copy for the plan, because examples run concurrently.
        _seeded("planned", name="detached", folder_path="planned", **_ATTACHED),
        _seeded("planned_orphan", folder_path="planned"),
        _seeded("numbers", folder_path="bulk_update", materialization="view"),
    ],
}

_DONE = {"outcome": "succeeded", "error": None}


def _bulk(**counts: int) -> dict[str, Any]:
    none = dict.fromkeys(("created", "updated", "unchanged", "failed", "skipped"), 0)
    return {"outcome": "succeeded", "counts": none | counts}


_PLANNED = {"changed": True, "counts": {"create": 1, "update": 1, "publish": 0, "delete": 1, "none": 0}}

EXAMPLES = [
    Example(
        "transform_deploy",
        TransformDeployOperator,
        {
            "name": "created",
            "folder_path": "deployed/here",
            "sql_template": "SELECT id FROM {{model.changed.read}}",
            "materialization": "table",
            "documentation": "Made by a task.",
            "cron_expression": "0 4 * * *",
        },
        _DONE | changed("created", published=True, name="deployed/here/created"),
        {**_DONE, **UNCHANGED, "published": False, "name": "deployed/here/created"},
        mapped="documentation",
    ),
    Example(
        "transform_deploy_update",
        TransformDeployOperator,
        {"name": "update", "folder_path": "changed", "sql_template": "SELECT 2 AS id", "cron_expression": "5 4 * * *"},
        _DONE | {"action": "updated", "published": True, "resource_id": "transform.update", "status": "completed"},
        _DONE | {"action": "none", "published": False, "resource_id": "transform.update"},
        mapped="cron_expression",
    ),
    Example(
        "transform_deploy_draft",
        TransformDeployOperator,
        {"name": "draft", "sql_template": "SELECT id FROM {{raw.not.yet}}", "publish": False},
        {"action": "created", "published": False, "outcome": "skipped", "status": "draft"},
        {"action": "none", "published": False, "outcome": "skipped"},
    ),
    Example(
        "transform_rematerialize",
        TransformRematerializeOperator,
        {"transform_name": "rebuild", "folder_path": "changed"},
        _DONE | {"resource_id": "transform.rebuild", "status": "completed"},
        _DONE,
    ),
    Example(
        "transform_delete",
        TransformDeleteOperator,
        {"transform_id": "transform.delete"},
        changed("deleted", id="transform.delete"),
    ),
    Example(
        "transform_delete_by_name",
        TransformDeleteOperator,
        {"transform_name": "delete_by_name", "folder_path": "changed"},
        changed("deleted", id="transform.delete_by_name"),
        {**UNCHANGED, "id": None},
    ),
    Example(
        "transform_attach",
        TransformAttachOperator,
        {"transform_name": "attach", "orchestration_name": "Builds"},
        changed("attached", id="transform.attach", name="attach"),
    ),
    Example(
        "transform_detach",
        TransformDetachOperator,
        {"transform_id": "transform.detach", "cron_expression": "0 6 * * *"},
        changed("detached", id="transform.detach"),
    ),
    Example(
        "transform_bulk_deploy",
        TransformBulkDeployOperator,
        {"folder": str(MODELS / "new")},
        _bulk(created=2),
        _bulk(unchanged=2),
    ),
    Example(
        "transform_bulk_deploy_update",
        TransformBulkDeployOperator,
        {"folder": str(MODELS / "changed"), "materialization": "table"},
        _bulk(created=1, updated=1),
        _bulk(unchanged=2),
    ),
    Example(
        "transform_bulk_deploy_declared",
        TransformBulkDeployOperator,
        {"folder": str(MODELS / "declared"), "folder_path": "declared", "delete_orphans": True},
        _bulk(created=1, updated=1, deleted=1),
        _bulk(unchanged=2, deleted=0),
    ),
    Example(
        "transform_plan",
        TransformPlanOperator,
        {"folder": str(MODELS / "declared"), "folder_path": "planned", "delete_orphans": True},
        _PLANNED,
        _PLANNED,
    ),
]
