"""Baseline: a deferrable operator whose trigger only sleeps, without code of the provider."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

if TYPE_CHECKING:
    from airflow.sdk import Context


class SleepTrigger(BaseTrigger):
    """Sends an event at a time."""

    def __init__(self, until: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's signature has no types
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.SleepTrigger", {"until": self.until}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(max(self.until - time.time(), 0))
        yield TriggerEvent(self.until)


class SleepOperator(BaseOperator):
    """Defers for some seconds from its start, and returns the time of the event."""

    template_fields = ("seconds",)

    def __init__(self, *, seconds: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    def execute(self, context: Context) -> None:
        trigger = SleepTrigger(time.time() + float(self.seconds))
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: float) -> float:
        return event
