"""State store of an asset, for tests of event triggers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any


class AssetStateStore:
    """State store of one asset, with the part of Airflow's interface that triggers use."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        #: Number of the next reads that fail.
        self.failing = 0

    async def aget(self, key: str) -> Any:
        if self.failing:
            self.failing -= 1
            raise RuntimeError("the API server is away")
        return self.kept.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value))

    @property
    def cursor(self) -> Any:
        (cursor,) = self.kept.values()
        return cursor


async def until(is_met: Callable[[], bool]) -> None:
    """Wait up to a minute for a condition of tasks on this event loop."""
    async with asyncio.timeout(60):
        while not is_met():  # noqa: ASYNC110 - the condition has no asyncio event
            await asyncio.sleep(0.01)
