"""Examples of the operators for workspace files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_datapipe.operators.workspace import WorkspaceApplyOperator, WorkspacePlanOperator
from tests.support.operator_examples.example import Example

_FILES = Path(__file__).parent / "files"
_CONNECTION = "workspace.files"


def _sync(use: str, **more: Any) -> dict[str, Any]:
    fields = {"id": f"workspace.{use}", "connection_id": _CONNECTION, "destination_schema_name": f"workspace_{use}"}
    return fields | {"sync_interval": "0 3 * * *"} | more


def _rows(use: str, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"workspace.{use}.rows", "name": "rows", "file": "rows.csv"} | more]


SEED: dict[str, Any] = {
    "connections": [
        {
            "id": _CONNECTION,
            "integration_id": "files",
            "label": "Files of the workspace",
            "settings": {"path": "{folder}"},
        }
    ],
    "orchestrations": [{"id": "workspace.changed", "name": "Workspace changed", "cron_schedule": "0 2 * * *"}],
    "elt_syncs": [
        _sync(
            "changed",
            orchestration_workflow_id="workspace.changed",
            source_streams=_rows("changed", sync_interval="0 5 * * *"),
        ),
        _sync("off", enabled=False),
        _sync("planned", source_streams=_rows("planned")),
    ],
    "transforms": [
        {
            "id": "workspace.people",
            "name": "people",
            "folder_path": "workspace",
            "publish": True,
            "sql_template": "SELECT 1 AS id, 'Ada' AS name",
        }
    ],
    "reverse_etl_syncs": [
        {
            "id": f"workspace.to_{use}",
            "source_id": "workspace.people",
            "destination_connection_id": "out",
            "object_type_id": f"workspace_{use}",
            "sync_interval": "0 2 * * *",
            "enabled": use != "off",
            "operation": {
                "mode": "upsert",
                "mappings": [{"source_property_id": "id", "destination_property_id": "id", "primary_key": True}],
            },
        }
        for use in ("changed", "off")
    ],
}

EXAMPLES = [
    Example(
        "workspace_apply",
        WorkspaceApplyOperator,
        {
            "workspace": str(_FILES / "applied.yaml"),
            "environment": {"WORKSPACE_TOKEN": "a-token"},
            "wait_for_run": "60",
        },
        {"failed": False},
        {"failed": False},
    ),
    Example(
        "workspace_plan",
        WorkspacePlanOperator,
        {"workspace": str(_FILES / "planned.yaml"), "delete_orphans": "False", "fail_on_changes": "False"},
        {"changed": True},
        {"changed": True},
    ),
]

#: What nothing else can be beside: whatever the file does not name is deleted.
ALONE = [
    Example(
        "workspace_delete_orphans",
        WorkspaceApplyOperator,
        {"workspace": str(_FILES / "emptied.yaml"), "delete_orphans": "True"},
        {"failed": False},
        {"failed": False},
    )
]
