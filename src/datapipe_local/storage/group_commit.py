"""Transactions that concurrent tasks share."""

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
    Group commit for the tasks of one event loop. Each task continues when its own item is committed.

    Items that arrive during a transaction wait and form the next transaction. A task therefore waits for at most two
    transactions, regardless of the number of tasks.

    :param commit: Stores items in one transaction, in a thread. Returns ``None`` or an error for each item. If it
        raises, no item is stored and all waiting tasks raise the error.
    """

    def __init__(self, commit: Callable[[Sequence[T]], Sequence[Exception | None]]) -> None:
        self._commit = commit
        self._waiting: Waiting[T] = []
        self._going: asyncio.Task[None] | None = None

    async def keep(self, thing: T) -> None:
        """Store an item. It is committed when this method returns."""
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
        except Exception as error:  # noqa: BLE001 - reported to each waiting task
            outcomes = [error] * len(group)
        for (_, kept), outcome in zip(group, outcomes, strict=True):
            # The waiting task may have been canceled.
            if not kept.done():
                kept.set_result(None) if outcome is None else kept.set_exception(outcome)
