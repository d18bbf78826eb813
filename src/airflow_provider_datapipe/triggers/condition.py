"""Trigger of the sensors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_datapipe.triggers import load
from airflow_provider_datapipe.triggers.run import error_event, hold_event, serialized_hold

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.errors import DatapipeError
    from airflow_provider_datapipe.runs.conditions.base import Check, Condition
    from airflow_provider_datapipe.runs.conditions.sensor_backoff import SensorBackoff
    from airflow_provider_datapipe.runs.models import RunRef
    from airflow_provider_datapipe.runs.polling.run_poller import RunPoller
    from airflow_provider_datapipe.runs.wait import WaitOutcome

_NEEDED = (
    "airflow_provider_datapipe.hooks.datapipe",
    "airflow_provider_datapipe.runs.polling.run_poller",
    "airflow_provider_datapipe.runs.conditions.registry",
    "airflow_provider_datapipe.runs.conditions.sensor_backoff",
)
#: The shortest interval between two polls, in seconds.
_FASTEST = 0.1


class DatapipeConditionTrigger(BaseTrigger):
    """
    Trigger that polls until a condition is met, and sends the result as its event.

    The arguments contain no secrets: the trigger reads the connection itself. Each field of the condition is a separate
    argument and attribute, so that Airflow renders its templates if a task starts from its trigger.

    :param condition: name of the condition (:data:`airflow_provider_datapipe.runs.conditions.registry.CONDITIONS`).
    :param datapipe_conn_id: ID of the Airflow connection.
    :param poll_interval: seconds between two polls.
    :param deadline: time at which the wait ends, in seconds since the epoch; None if Airflow ends it.
    :param retries_final_errors: True to poll again after permanent errors as well, because the worker has repeated the
        poll without such an error.
    :param deferred_at: time of the deferral, in seconds since the epoch; None if the event can be sent at once.
    :param minimum_deferral_time: seconds from the deferral to the event, at least.
    :param poll_after: time before which the service is not polled, because a poll of the worker failed, as seconds
        since the epoch; None for no limit.
    :param lost_since: time of a loss of contact that the worker has logged, as seconds since the epoch.
    :param fields: fields of the condition, as JSON.
    """

    def __init__(
        self,
        condition: str,
        datapipe_conn_id: str,
        poll_interval: float = 60.0,
        deadline: float | None = None,
        retries_final_errors: bool = False,
        *,
        deferred_at: float | None = None,
        minimum_deferral_time: float = 0.0,
        poll_after: float | None = None,
        lost_since: float | None = None,
        **fields: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own signature has no types
        self.condition = condition
        self.datapipe_conn_id = datapipe_conn_id
        self.poll_interval = poll_interval
        self.deadline = deadline
        self.retries_final_errors = retries_final_errors
        self.deferred_at = deferred_at
        self.minimum_deferral_time = minimum_deferral_time
        self.poll_after = poll_after
        self.lost_since = lost_since
        self._names = tuple(fields)
        for name, value in fields.items():
            setattr(self, name, value)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the condition, with the templates that Airflow has rendered."""
        return {name: getattr(self, name) for name in self._names}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        return (
            "airflow_provider_datapipe.triggers.condition.DatapipeConditionTrigger",
            {
                "condition": self.condition,
                "datapipe_conn_id": self.datapipe_conn_id,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
                "retries_final_errors": self.retries_final_errors,
                **serialized_hold(self.deferred_at, self.minimum_deferral_time),
                **({} if self.poll_after is None else {"poll_after": self.poll_after}),
                **({} if self.lost_since is None else {"lost_since": self.lost_since}),
                **self.fields,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and yield one event: the result of the condition, or an error."""
        event = await self._wait()
        await hold_event(self, self.deferred_at, self.minimum_deferral_time)
        yield TriggerEvent(event | {"deadline": self.deadline})

    async def _wait(self) -> dict[str, Any]:
        await load(*_NEEDED)
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
        from airflow_provider_datapipe.runs.conditions.registry import condition_of
        from airflow_provider_datapipe.runs.polling.run_poller import shared_run_poller

        try:
            condition = condition_of(self.condition, self.fields)
            async with shared_run_poller(
                self.datapipe_conn_id, DatapipeHook(self.datapipe_conn_id).aget_settings
            ) as poller:
                event = await self._poll_until_met(poller, condition)
                # With newest=True, the fields contain the run that the condition has selected.
                return event | {"fields": condition.fields}
        except Exception as error:  # noqa: BLE001 - any error of a secrets backend: nothing was polled
            return error_event(self.datapipe_conn_id, error)

    def _report_line(self, level: int, line: str) -> None:
        """Write a line to the task log. The logger is created when it is first used."""
        self.log.log(level, line)

    def _log_contact(self, backoff: SensorBackoff, error: DatapipeError | None = None) -> None:
        if line := backoff.contact_line(error, time.time()):
            self._report_line(*line)

    async def _poll_until_met(self, poller: RunPoller, condition: Condition) -> dict[str, Any]:
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.runs.conditions.sensor_backoff import SensorBackoff
        from airflow_provider_datapipe.runs.errors import LostContactError

        # A deadline shows that a worker has polled before it deferred.
        backoff = SensorBackoff(time.time(), polled_before=self.deadline is not None, lost_since=self.lost_since)
        description, before = "no answer so far", None
        if self.poll_after is not None:
            await self._sleep(self.poll_after - time.time())
        while True:
            pause = max(self.poll_interval, _FASTEST)
            try:
                check = await self._poll_once(poller, condition)
            except TimeoutError:
                return {"status": "timeout", "description": description}
            except ValueError:
                # A field is invalid. The worker repeats the poll, and raises the error in the task log.
                return {"status": "again"}
            except DatapipeError as error:
                if not self.retries_final_errors and backoff.is_final(error, time.time()):
                    return {"status": "again"}
                try:
                    pause = backoff.failed(error, time.time(), pause)
                except LostContactError as lost:
                    return {"status": "error", "message": str(lost)}
                self._log_contact(backoff, error)
            else:
                backoff.answered(time.time())
                self._log_contact(backoff)
                if check.is_met:
                    return _met(check)
                if check.description != description:
                    description = check.description
                    self.log.info("Waiting: %s.", description)
                # If the list still shows this run as active after its end, poll again after the normal interval.
                if check.awaited not in (None, before):
                    before = check.awaited
                    event = await self._wait_for(poller, condition, before, description)
                    if event is None:
                        continue
                    return event
                before = None
            await self._sleep(pause)

    async def _sleep(self, pause: float) -> None:
        """Sleep until the next poll, at most until the deadline."""
        if self.deadline is not None:
            pause = min(pause, self.deadline - time.time())
        await asyncio.sleep(max(pause, 0))

    async def _poll_once(self, poller: RunPoller, condition: Condition) -> Check:
        """
        Poll once.

        :raises TimeoutError: if the deadline has passed.
        """
        from airflow_provider_datapipe.flows import run_async

        left = None if self.deadline is None else self.deadline - time.time()
        if left is not None and left <= 0:
            raise TimeoutError
        async with asyncio.timeout(left):
            return await run_async(condition.check(time.time()), poller.send, asyncio.sleep)

    async def _wait_for(
        self, poller: RunPoller, condition: Condition, reference: RunRef, description: str
    ) -> dict[str, Any] | None:
        """Wait for the end of a run. Return the event to send, None to check the condition again."""
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.conditions.base import Check
        from airflow_provider_datapipe.runs.missing_runs import GRACE
        from airflow_provider_datapipe.runs.wait import WaitOutcomeReason, WaitPolicy

        batch = Batch(reference.kind, waiting=[reference])
        interval = max(self.poll_interval, _FASTEST)
        policy = WaitPolicy(
            poll_interval=interval,
            deadline=self.deadline,
            # A condition without a run ID polls the list afterwards.
            missing_grace=GRACE if condition.has_run_id else min(GRACE, 3 * interval),
            # A scheduled run may be hours away: only the timeout of the sensor applies.
            schedule_limit=float("inf"),
        )
        await poller.wait(batch, policy, self._report_line)
        end: WaitOutcome
        (end,) = batch.ended
        if end.reason is WaitOutcomeReason.TIMEOUT:
            return {"status": "timeout", "description": description}
        if end.reason is WaitOutcomeReason.VANISHED and not condition.has_run_id:
            # The service no longer knows this run ID. The list shows the current one.
            return None
        if end.reason is WaitOutcomeReason.RUN_OVER and not condition.is_met_by(end):
            return None
        return _met(Check(description, is_met=True, ends=(end,)))


def _met(check: Check) -> dict[str, Any]:
    return {"status": "success", "check": check.as_dict()}
