"""Transactions that are shared by those who wait for them at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from anyio.to_thread import run_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Waiting = list[tuple["T", asyncio.Future[None]]]

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """
    Has things kept for the tasks of one event loop, each of which goes on once its own is kept.

    While a transaction is going on, what comes in waits, and all of it is the next. So a single task waits for one
    transaction, and of many tasks each waits for two at the most, however many there are.

    :param commit: Keeps things in one transaction, in a thread, and gives for each of them ``None`` or why it was
        not kept. What it raises is raised to all of them: then none is.
    """

    def __init__(self, commit: Callable[[Sequence[T]], Sequence[Exception | None]]) -> None:
        self._commit = commit
        self._waiting: Waiting[T] = []
        self._going: asyncio.Task[None] | None = None

    async def keep(self, thing: T) -> None:
        """Have a thing kept; afterwards it is."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((thing, kept))
        if self._going is None:
            self._going = asyncio.create_task(self._keep_all())
        await kept

    async def _keep_all(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._keep_group(group)
        finally:
            self._going = None

    async def _keep_group(self, group: Waiting[T]) -> None:
        outcomes: Sequence[Exception | None]
        try:
            outcomes = await run_sync(self._commit, [thing for thing, _ in group])
        except Exception as error:  # noqa: BLE001 - each of those who wait is told, and asks again or not
            outcomes = [error] * len(group)
        for (_, kept), outcome in zip(group, outcomes, strict=True):
            # Who waited may have been cancelled.
            if not kept.done():
                kept.set_result(None) if outcome is None else kept.set_exception(outcome)
