"""Why Airflow kills a task: it calls ``on_kill`` for less than an end, too."""

from __future__ import annotations

from typing import Any

#: The states in which nobody runs a task again by himself; a task whose DAG run was deleted has none.
_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def is_ended(task: Any) -> bool:
    """
    Ask Airflow whether a task has ended, as it has when a person marks it.

    It has not when it was cleared, its worker is shut down, or its trigger was moved to another triggerer: it goes on.

    :param task: the task instance.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    found = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, map_index=task.map_index, task_ids=[task.task_id], run_ids=[task.run_id]
    )
    states = [state for tasks in found.values() for state in tasks.values()]
    return all(state is not None and str(state) in _ENDED for state in states)
