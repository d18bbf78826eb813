from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from datapipe_local.storage.group_commit import GroupCommit


class Commits:
    """Commits that end when they are told to."""

    def __init__(self, judge: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.groups: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self._judge = judge

    def commit(self, group: Sequence[int]) -> list[Exception | None]:
        self.groups.append(list(group))
        self.begun.release()
        assert self.may_end.acquire(timeout=30)
        return [self._judge(thing) for thing in group]


async def begun(commits: Commits) -> None:
    assert await asyncio.to_thread(commits.begun.acquire, timeout=30)


async def waiting(group_commit: GroupCommit[int], *things: int) -> list[asyncio.Task[None]]:
    """Start tasks, and let each of them reach its wait."""
    tasks = [asyncio.create_task(group_commit.keep(thing)) for thing in things]
    await asyncio.sleep(0)
    return tasks


async def test_a_request_during_a_transaction_joins_the_next_one() -> None:
    commits = Commits()
    together = GroupCommit(commits.commit)
    first = await waiting(together, 1)
    await begun(commits)
    others = await waiting(together, 2, 3, 4)
    commits.may_end.release()
    await asyncio.gather(*first)
    await begun(commits)
    # They are not answered by a transaction that they are no part of.
    assert not any(task.done() for task in others)
    commits.may_end.release()
    await asyncio.gather(*others)
    assert commits.groups == [[1], [2, 3, 4]]


async def test_one_that_cannot_be_kept_is_no_matter_of_the_others() -> None:
    commits = Commits(lambda thing: LookupError("gone") if thing == 2 else None)
    commits.may_end.release(2)
    together = GroupCommit(commits.commit)
    one, two, three = await asyncio.gather(*(together.keep(thing) for thing in (1, 2, 3)), return_exceptions=True)
    assert (one, three) == (None, None)
    assert isinstance(two, LookupError)
    assert commits.groups == [[1, 2, 3]]
    # It goes on.
    await together.keep(4)


async def test_a_failed_transaction_is_reported_to_its_requests_only() -> None:
    def fail_once(thing: int) -> Exception | None:
        if thing == 1:
            raise OSError("the disk is full")
        return None

    commits = Commits(fail_once)
    commits.may_end.release(2)
    together = GroupCommit(commits.commit)
    assert [
        type(outcome) for outcome in await asyncio.gather(together.keep(1), together.keep(2), return_exceptions=True)
    ] == [OSError, OSError]
    await together.keep(3)


async def test_who_does_not_wait_any_more_keeps_nobody_waiting() -> None:
    commits = Commits()
    together = GroupCommit(commits.commit)
    leaving, staying = await waiting(together, 1, 2)
    await begun(commits)
    leaving.cancel()
    commits.may_end.release()
    await staying
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert commits.groups == [[1, 2]]
