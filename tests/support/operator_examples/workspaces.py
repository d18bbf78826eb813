"""Examples of the operators for workspace files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_datapipe.operators.workspaces import WorkspaceApplyOperator, WorkspacePlanOperator
from tests.support.operator_examples.example import (
    Example,
    elt_sync,
    files_connection,
    orchestration,
    reverse_etl_sync,
    rows,
    transform,
)

_FILES = Path(__file__).parent / "files"
_CONNECTION = "workspace.files"


def _sync(use: str, **more: Any) -> dict[str, Any]:
    return elt_sync(f"workspace.{use}", f"workspace_{use}", connection_id=_CONNECTION, **more)


def _rows(use: str, **more: Any) -> list[dict[str, Any]]:
    return [rows(f"workspace.{use}.rows", **more)]


SEED: dict[str, Any] = {
    "connections": [files_connection(_CONNECTION, "Files of the workspace")],
    "orchestrations": [orchestration("workspace.changed", "Workspace changed")],
    "elt_syncs": [
        _sync(
            "changed",
            orchestration_workflow_id="workspace.changed",
            source_streams=_rows("changed", sync_interval="0 5 * * *"),
        ),
        _sync("off", enabled=False),
        _sync("planned", source_streams=_rows("planned")),
    ],
    "transforms": [transform("workspace.people", "people", "workspace", sql_template="SELECT 1 AS id, 'Ada' AS name")],
    "reverse_etl_syncs": [
        reverse_etl_sync(
            f"workspace.to_{use}",
            "workspace.people",
            f"workspace_{use}",
            sync_interval="0 2 * * *",
            enabled=use != "off",
        )
        for use in ("changed", "off")
    ],
}


def _apply(name: str, file: str, **more: Any) -> Example:
    arguments = {"workspace": str(_FILES / file), **more}
    return Example(name, WorkspaceApplyOperator, arguments, {"failed": False}, {"failed": False})


EXAMPLES = [
    _apply("workspace_apply", "applied.yaml", environment={"WORKSPACE_TOKEN": "a-token"}, wait_for_run="60"),
    Example(
        "workspace_plan",
        WorkspacePlanOperator,
        {"workspace": str(_FILES / "planned.yaml"), "delete_orphans": "False", "fail_on_changes": "False"},
        {"changed": True},
        {"changed": True},
    ),
]

#: Examples that delete all resources missing in the file, so no other example can run concurrently.
ALONE = [_apply("workspace_delete_orphans", "emptied.yaml", delete_orphans="True")]
