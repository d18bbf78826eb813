"""Execution of one task like in Airflow, without Airflow's processes."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import TaskDeferred


@dataclass
class Memory:
    """Task state and XComs of one task, across its tries."""

    kept: dict[str, Any] = field(default_factory=dict)
    pushed: dict[str, Any] = field(default_factory=dict)
    #: Increases when the task is cleared.
    max_tries: int = 2
    start_date: datetime = field(default_factory=lambda: datetime.now(UTC))

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value, allow_nan=False))

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = json.loads(json.dumps(value, allow_nan=False))


class RescheduledMemory(Memory):
    """Task state with the fields of a task instance that Airflow reads from a sensor in reschedule mode."""

    try_number = 1

    def get_first_reschedule_date(self, _: Any) -> datetime:
        return self.start_date


def context_of(memory: Memory) -> Any:
    return {"ti": memory, "task_state_store": memory}


def run(task: Any, memory: Memory | None = None) -> Any:
    """Run a task like Airflow, with serialized triggers. The task may defer repeatedly."""
    memory = memory or Memory()
    method, arguments = "execute", dict[str, Any]()
    while True:
        try:
            return getattr(task, method)(context_of(memory), **arguments)
        except TaskDeferred as deferral:
            method, arguments = (deferral.method_name, {"event": asyncio.run(first_event(recreated_trigger(deferral)))})
            # Airflow resumes a task with a new object.
            task = copy_of(task)


def recreated_trigger(deferral: TaskDeferred) -> Any:
    """Return the trigger of a deferral after its serialization."""
    # A timeout of the deferral would bypass execute_complete.
    assert deferral.timeout is None
    _, stored = deferral.trigger.serialize()
    return type(deferral.trigger)(**json.loads(json.dumps(stored, allow_nan=False)))


async def first_event(trigger: Any) -> Any:
    event = await anext(trigger.run())
    return json.loads(json.dumps(event.payload, allow_nan=False))


def copy_of(task: Any) -> Any:
    fresh = copy.copy(task)
    for name in ("_poll_state", "_batch"):
        fresh.__dict__[name] = None
    return fresh
