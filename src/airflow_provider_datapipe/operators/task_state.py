"""Task state of operators. DAG files import this module, so it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.runs.task_state import AirflowTaskStateStore, TaskState


def task_state_of(context: Context) -> TaskState:
    """Return the state of the task for its next tries: Airflow's task state, available since Airflow 3.3."""
    from airflow_provider_datapipe.runs.task_state import AirflowTaskState, NoTaskState

    store: AirflowTaskStateStore | None = context.get("task_state_store")
    return NoTaskState() if store is None else AirflowTaskState(store, context["ti"].max_tries)


def earlier_task_state(context: Context) -> TaskState:
    """Return the task state of earlier tries. A first try has none, and reading it for many transforms takes long."""
    from airflow_provider_datapipe.runs.task_state import NoTaskState

    return NoTaskState() if getattr(context["ti"], "try_number", None) == 1 else task_state_of(context)
