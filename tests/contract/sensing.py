"""Execution of sensors like in Airflow, in each of their modes."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from datetime import UTC, datetime
from typing import Any

from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import TaskDeferred

from tests.support.tasks import RescheduledMemory, context_of, first_event, recreated_trigger

_FLAGS: dict[str, dict[str, Any]] = {
    "poke": {},
    "reschedule": {"mode": "reschedule"},
    "deferred": {"deferrable": True},
    "from_trigger": {"start_from_trigger": True},
}


def sense(mode: str, sensor: type[Any], *, task_state: bool = False, **arguments: Any) -> Any:
    """Run a sensor with a new object for each pass and a serialized trigger, with or without a task state."""
    memory = RescheduledMemory()
    context = context_of(memory) if task_state else {"ti": memory}
    arguments = {"task_id": "t", "poke_interval": 0.1, "timeout": 30} | _FLAGS[mode] | arguments
    method, given = "execute", dict[str, Any]()
    if mode == "from_trigger":
        start = sensor(**arguments).start_trigger_args
        module, _, name = start.trigger_cls.rpartition(".")
        trigger = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(start.trigger_kwargs)))
        limit = start.timeout.total_seconds()
        method, given = start.next_method, {"event": asyncio.run(_event_within(limit, trigger))}
    while True:
        task = sensor(**arguments)
        try:
            if given.get("event") == "timeout":
                return task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
            return getattr(task, method)(context, **given)
        except TaskDeferred as deferral:
            event = asyncio.run(first_event(recreated_trigger(deferral)))
            method, given = deferral.method_name, {"event": event}
        except AirflowRescheduleException as later:
            # As in Airflow, the next try of the task pokes at this time.
            time.sleep(max((later.reschedule_date - datetime.now(UTC)).total_seconds(), 0))


async def _event_within(limit: float, trigger: Any) -> Any:
    try:
        async with asyncio.timeout(limit):
            return await first_event(trigger)
    except TimeoutError:
        return "timeout"
