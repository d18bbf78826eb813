"""Waiting for runs in the triggerer."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

#: Seconds from its start in which a trigger keeps its event back. A scheduler that hears of a task's first pass only
#: after the task was queued again takes the one for the other, and fails the task ("executor reported that the task
#: instance finished with state success, but the task instance's state attribute is queued"): seen with Airflow 3.3.2.
SETTLE_SECONDS = 5.0

_NEEDED = ("airflow_provider_datapipe.hooks.datapipe", "airflow_provider_datapipe.runs.board")
_loaded: set[str] = set()


async def _load() -> None:
    """Import what waiting needs, in a thread: it takes too long for an event loop that others use."""
    for module in _NEEDED:
        if module not in _loaded:
            await asyncio.to_thread(importlib.import_module, module)
            _loaded.add(module)


class DatapipeRunTrigger(BaseTrigger):
    """
    Waits for the runs of a batch, and gives the batch back as it then stands.

    It holds no secret: the connection is looked up where the trigger runs.

    :param datapipe_conn_id: the connection.
    :param batch: which runs (:meth:`airflow_provider_datapipe.runs.batch.Batch.as_dict`).
    :param policy: how patient to be (:meth:`airflow_provider_datapipe.runs.wait.WaitPolicy.as_dict`).
    :param kill_policy: what happens when a person stops the task: ``leave`` or ``disable``.
    """

    def __init__(
        self, datapipe_conn_id: str, batch: dict[str, Any], policy: dict[str, Any], kill_policy: str = "leave"
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own signature has no types
        self.datapipe_conn_id = datapipe_conn_id
        self.batch = batch
        self.policy = policy
        self.kill_policy = kill_policy

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give class path and arguments."""
        return (
            "airflow_provider_datapipe.triggers.run.DatapipeRunTrigger",
            {
                "datapipe_conn_id": self.datapipe_conn_id,
                "batch": self.batch,
                "policy": self.policy,
                "kill_policy": self.kill_policy,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and give one event: the batch, or why it could not be waited for."""
        settled = asyncio.get_running_loop().time() + SETTLE_SECONDS
        event = await self._wait()
        # Under dag.test() there is no scheduler, and no task instance.
        if getattr(self, "task_instance", None) is not None:
            await asyncio.sleep(settled - asyncio.get_running_loop().time())
        yield TriggerEvent(event)

    async def on_kill(self) -> None:
        """
        Say that the runs go on, and by policy take them off their schedule (Airflow 3.3 or later).

        Airflow also calls this when a trigger is moved to another triggerer: then the task is still deferred, and
        nothing is said or done.
        """
        if await self._is_still_deferred():
            return
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.steps import adrive
        from airflow_provider_datapipe.runs.stop import stop

        steps = stop(Batch.from_dict(self.batch), disable=self.kill_policy == "disable")
        async with await DatapipeHook(self.datapipe_conn_id).aget_conn() as client:
            for line in await adrive(steps, client.send, asyncio.sleep):
                self.log.warning(line)

    async def _is_still_deferred(self) -> bool:
        """Ask Airflow for the state of the task that this trigger belongs to."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        task = getattr(self, "task_instance", None)
        if task is None:
            return False
        states = await asyncio.to_thread(
            RuntimeTaskInstance.get_task_states,
            dag_id=task.dag_id,
            map_index=task.map_index,
            task_ids=[task.task_id],
            run_ids=[task.run_id],
        )
        return "deferred" in {str(state) for tasks in states.values() for state in tasks.values()}

    async def _wait(self) -> dict[str, Any]:
        await _load()
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.board import wait_on_board
        from airflow_provider_datapipe.runs.wait import WaitPolicy

        batch = Batch.from_dict(self.batch)
        read = DatapipeHook(self.datapipe_conn_id).aget_settings
        try:
            await wait_on_board(self.datapipe_conn_id, read, batch, WaitPolicy(**self.policy))
        except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises: the run has not failed
            return {"status": "error", "message": f"connection {self.datapipe_conn_id}: {error}"}
        return {"status": "success", "batch": batch.as_dict(), "policy": self.policy}


def check_event(event: dict[str, Any]) -> None:
    """
    Refuse an event that brings no batch.

    :param event: what the trigger gave.
    :raises LostContactError: the run could not be waited for.
    """
    from airflow_provider_datapipe.runs.errors import LostContactError

    if event.get("status") != "success":
        reason = str(event.get("message") or f"the trigger gave {event.get('status')!r}").rstrip(".")
        raise LostContactError(
            f"The run could not be waited for: {reason}. The run may still be going: mend the cause, then run this "
            "task again; it attaches to the run if that is still going."
        )
