"""Tests of requests that share a transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from datapipe_local.storage.group_commit import GroupCommit


class Commits:
    """Transactions that end when a test releases them. ``judge`` returns or raises the error of an item."""

    def __init__(self, judge: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.groups: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self._judge = judge
        self._group_commit = GroupCommit(self._commit)

    def _commit(self, group: Sequence[int]) -> list[Exception | None]:
        self.groups.append(list(group))
        self.begun.release()
        assert self.may_end.acquire(timeout=30)
        return [self._judge(item) for item in group]

    async def waiting(self, *items: int) -> list[asyncio.Task[None]]:
        """Start a request per item, and let it wait."""
        tasks = [asyncio.create_task(self._group_commit.keep(item)) for item in items]
        await asyncio.sleep(0)
        return tasks

    async def wait_for_begin(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=30)


async def test_requests_during_a_transaction_join_the_next_one() -> None:
    commits = Commits()
    first = await commits.waiting(1)
    await commits.wait_for_begin()
    others = await commits.waiting(2, 3, 4)
    commits.may_end.release()
    await asyncio.gather(*first)
    await commits.wait_for_begin()
    # The first transaction does not answer them.
    assert not any(task.done() for task in others)
    commits.may_end.release()
    await asyncio.gather(*others)
    assert commits.groups == [[1], [2, 3, 4]]


def refuse_two(item: int) -> Exception | None:
    return LookupError("gone") if item == 2 else None


def fail_with_two(item: int) -> Exception | None:
    if item == 2:
        raise OSError("the disk is full")
    return None


@pytest.mark.parametrize(
    ("judge", "errors"),
    [(refuse_two, [None, LookupError, None]), (fail_with_two, [OSError, OSError, OSError])],
    ids=["refused item", "failed transaction"],
)
async def test_errors_reach_their_requests_only(
    judge: Callable[[int], Exception | None], errors: list[type[Exception] | None]
) -> None:
    commits = Commits(judge)
    commits.may_end.release(2)
    found = await asyncio.gather(*await commits.waiting(1, 2, 3), return_exceptions=True)
    assert [None if error is None else type(error) for error in found] == errors
    assert commits.groups == [[1, 2, 3]]
    # The next transaction succeeds.
    await asyncio.gather(*await commits.waiting(4))


async def test_a_canceled_request_does_not_block_others() -> None:
    commits = Commits()
    leaving, staying = await commits.waiting(1, 2)
    await commits.wait_for_begin()
    leaving.cancel()
    commits.may_end.release()
    await staying
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert commits.groups == [[1, 2]]
