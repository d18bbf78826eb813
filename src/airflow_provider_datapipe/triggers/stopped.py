"""Detection of stopped tasks. Airflow calls ``on_kill`` of a trigger also for tasks that continue."""

from __future__ import annotations

from typing import Any

#: States of a task that Airflow does not run again by itself. A task of a deleted DAG run has no state.
_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def is_ended(task: Any) -> bool:
    """
    Return True if a task has ended, for example because a user marked it as failed.

    A task has not ended if it was cleared, if its worker shuts down, or if its trigger moved to another triggerer.

    :param task: the task instance.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    found = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, map_index=task.map_index, task_ids=[task.task_id], run_ids=[task.run_id]
    )
    states = [state for tasks in found.values() for state in tasks.values()]
    return all(state is not None and str(state) in _ENDED for state in states)
