"""Delays of requests that faults cause."""

from __future__ import annotations

import asyncio


class Delays:
    """Delayed requests, which can be interrupted together."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    async def wait(self, seconds: float) -> bool:
        """Wait. Return False if the wait was interrupted."""
        if not seconds:
            return True
        over = self._over
        try:
            await asyncio.wait_for(over.wait(), seconds)
        except TimeoutError:
            return True
        return False

    def interrupt(self) -> None:
        """Interrupt all waits."""
        self._over.set()
        self._over = asyncio.Event()
