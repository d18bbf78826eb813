"""Workspace file that is planned, applied, and planned again without further changes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.workspaces import WorkspaceApplyOperator, WorkspacePlanOperator

ARGUMENTS: dict[str, Any] = {
    # In the folder of this file.
    "workspace": "workspace.yaml",
    "environment": {"WORKSPACE_TOKEN": "{{ conn.workspace_token.password }}"},
}

with DAG(
    dag_id="workspace",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    default_args={
        "datapipe_conn_id": "datapipe_workspace",
        "execution_timeout": timedelta(minutes=10),
        "retry_delay": timedelta(seconds=1),
    },
):
    drift = WorkspacePlanOperator(task_id="drift", **ARGUMENTS)
    apply = WorkspaceApplyOperator(task_id="apply", retries=2, **ARGUMENTS)
    same = WorkspacePlanOperator(task_id="same", fail_on_changes=True, **ARGUMENTS)
    drift >> apply >> same
