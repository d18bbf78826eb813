"""Trigger that waits for runs, and its events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_datapipe.triggers import load

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.async_client import AsyncClient
    from airflow_provider_datapipe.runs.batch import Batch

#: Time limit for the last poll of the runs of a stopped task, in seconds.
LAST_POLL_SECONDS = 10.0

_NEEDED = (
    "airflow_provider_datapipe.hooks.datapipe",
    "airflow_provider_datapipe.runs.polling.run_poller",
    "airflow_provider_datapipe.runs.stop",
    "airflow_provider_datapipe.triggers.stopped",
)


async def hold_event(trigger: BaseTrigger, deferred_at: float | None, minimum: float) -> None:
    """
    Wait until a trigger may send its event (:func:`airflow_provider_datapipe.operators.deferral.hold_arguments`).

    :param trigger: the trigger.
    :param deferred_at: time of the deferral by the clock of the worker, in seconds since the epoch; None for no wait.
    :param minimum: seconds from the deferral to the event, at least.
    """
    # Under dag.test() there is no scheduler, and no task instance.
    if deferred_at is not None and getattr(trigger, "task_instance", None) is not None:
        await asyncio.sleep(hold_seconds(deferred_at, minimum, time.time()))


def hold_seconds(deferred_at: float, minimum: float, now: float) -> float:
    """
    Return the seconds for which a trigger holds its event: at most ``minimum``, even if the clocks differ.

    :param deferred_at: time of the deferral, by the clock of the worker.
    :param minimum: seconds from the deferral to the event, at least.
    :param now: current time, by the clock of the triggerer.
    """
    return max(0.0, min(deferred_at + minimum - now, minimum))


def serialized_hold(deferred_at: float | None, minimum: float) -> dict[str, float]:
    """Return the arguments of a trigger for :func:`hold_event`; none if it does not hold its event."""
    return {} if deferred_at is None else {"deferred_at": deferred_at, "minimum_deferral_time": minimum}


class DatapipeRunTrigger(BaseTrigger):
    """
    Trigger that waits for the runs of a batch, and sends the batch with their outcomes as its event.

    The arguments contain no secrets: the trigger reads the connection itself.

    :param datapipe_conn_id: ID of the Airflow connection.
    :param batch: runs to wait for (:meth:`airflow_provider_datapipe.runs.batch.Batch.as_dict`).
    :param policy: poll interval and time limits (:meth:`airflow_provider_datapipe.runs.wait.WaitPolicy.as_dict`).
    :param kill_policy: policy if a user stops the task: ``leave`` the schedules of its resources, or ``disable`` them.
    :param deferred_at: time of the deferral, in seconds since the epoch; None if the event can be sent at once.
    :param minimum_deferral_time: seconds from the deferral to the event, at least.
    """

    def __init__(
        self,
        datapipe_conn_id: str,
        batch: dict[str, Any],
        policy: dict[str, Any],
        kill_policy: str = "leave",
        *,
        deferred_at: float | None = None,
        minimum_deferral_time: float = 0.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own signature has no types
        self.datapipe_conn_id = datapipe_conn_id
        # JSON text takes a fifth of the memory, and thousands of triggers can wait for hours.
        self._batch, self._policy = json.dumps(batch), json.dumps(policy)
        self.kill_policy = kill_policy
        self.deferred_at = deferred_at
        self.minimum_deferral_time = minimum_deferral_time

    @property
    def batch(self) -> dict[str, Any]:
        """Runs to wait for."""
        batch: dict[str, Any] = json.loads(self._batch)
        return batch

    @property
    def policy(self) -> dict[str, Any]:
        """Poll interval and time limits of the wait."""
        policy: dict[str, Any] = json.loads(self._policy)
        return policy

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        return (
            "airflow_provider_datapipe.triggers.run.DatapipeRunTrigger",
            {
                "datapipe_conn_id": self.datapipe_conn_id,
                "batch": self.batch,
                "policy": self.policy,
                "kill_policy": self.kill_policy,
                **serialized_hold(self.deferred_at, self.minimum_deferral_time),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and yield one event: the batch, or an error."""
        event = await self._wait()
        await hold_event(self, self.deferred_at, self.minimum_deferral_time)
        yield TriggerEvent(event)

    async def on_kill(self) -> None:
        """
        Log the runs that continue, and disable their schedules if the policy requires it (Airflow 3.3 or later).

        Airflow also calls this when a task is cleared, and when its trigger moves to another triggerer. Then it has no
        effect, because the task has not ended yet or its runs have ended.
        """
        await load(*_NEEDED)
        from airflow_provider_datapipe.flows import run_async
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
        from airflow_provider_datapipe.runs.stop import stop
        from airflow_provider_datapipe.triggers.stopped import is_ended

        task = getattr(self, "task_instance", None)
        if task is not None and not await asyncio.to_thread(is_ended, task):
            return
        async with await DatapipeHook(self.datapipe_conn_id).aget_conn() as client:
            flow = stop(await self._active_runs(client), disable=self.kill_policy == "disable")
            for line in await run_async(flow, client.send, asyncio.sleep):
                self.log.warning(line)

    async def _active_runs(self, client: AsyncClient) -> Batch:
        """Poll every run once more, because a requested run may have an ID now. Return the runs that continue."""
        from airflow_provider_datapipe.flows import run_async
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.batch_wait import wait_for_some
        from airflow_provider_datapipe.runs.wait import WaitOutcomeReason, WaitPolicy

        batch = Batch.from_dict(self.batch)
        polled = Batch(batch.kind, waiting=batch.waiting)
        # Airflow limits on_kill() to 30 s. Runs that are not polled in time count as active.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_POLL_SECONDS):
                await run_async(wait_for_some(polled, WaitPolicy(deadline=time.time())), client.send, asyncio.sleep)
        late = [end.reference for end in polled.ended if end.reason is WaitOutcomeReason.TIMEOUT]
        return Batch(batch.kind, waiting=[*late, *polled.waiting])

    def _report_line(self, level: int, line: str) -> None:
        """Write a line to the task log."""
        self.log.log(level, line)

    async def _wait(self) -> dict[str, Any]:
        await load(*_NEEDED)
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.polling.run_poller import shared_run_poller
        from airflow_provider_datapipe.runs.wait import WaitPolicy

        batch = Batch.from_dict(self.batch)
        read = DatapipeHook(self.datapipe_conn_id).aget_settings
        try:
            async with shared_run_poller(self.datapipe_conn_id, read) as poller:
                await poller.wait(batch, WaitPolicy.from_dict(self.policy), self._report_line)
        except Exception as error:  # noqa: BLE001 - any error of a secrets backend: the run has not failed
            return error_event(self.datapipe_conn_id, error)
        return {"status": "success", "batch": batch.as_dict(), "policy": self.policy}


def error_event(conn_id: str, error: Exception) -> dict[str, Any]:
    """
    Return the event payload of a trigger that cannot wait. Its message keeps the lines of the error.

    :param conn_id: the Airflow connection.
    :param error: the error.
    """
    message = (str(error) or type(error).__name__).rstrip(".")
    if f"`{conn_id}`" not in message:
        message += f".\nCheck the Airflow connection `{conn_id}`"
    return {"status": "error", "message": f"{message}."}


def check_event(event: dict[str, Any]) -> None:
    """
    Raise if an event has no batch.

    :param event: the event of the trigger.
    :raises LostContactError: if the trigger could not wait for the runs.
    """
    from airflow_provider_datapipe.runs.errors import LostContactError

    if event.get("status") != "success":
        reason = str(event.get("message") or f"the trigger sent the status {event.get('status')!r}").rstrip(".")
        raise LostContactError(
            f"The trigger could not wait for the run: {reason}.\nThe run may still be active: correct the cause, then "
            "run this task again; it attaches to the run if it is still active."
        )
