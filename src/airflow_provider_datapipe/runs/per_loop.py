"""What the triggers on one event loop share for a connection, and who closes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary


class Shareable(Protocol):
    """What counts its users, and is closed when the last one leaves."""

    users: int

    @property
    def is_usable(self) -> bool:
        """Whether it can be joined; otherwise whoever comes gets a new one."""

    async def close(self) -> None:
        """Close it."""


S = TypeVar("S", bound=Shareable)
#: For each event loop what there is, by the connection's id.
PerLoop: TypeAlias = WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, S]]


@asynccontextmanager
async def shared(kept: PerLoop[S], conn_id: str, make: Callable[[], S]) -> AsyncIterator[S]:
    """
    Give what a connection has on the running event loop, which is there while anybody uses it.

    :param kept: where it is kept.
    :param conn_id: the connection.
    :param make: makes it.
    """
    here = kept.setdefault(asyncio.get_running_loop(), {})
    one = here.get(conn_id)
    if one is None or not one.is_usable:
        one = here[conn_id] = make()
    one.users += 1
    try:
        yield one
    finally:
        one.users -= 1
        if not one.users:
            # Before anything is awaited: whoever comes now makes a new one.
            if here.get(conn_id) is one:
                del here[conn_id]
            # Whoever is cancelled once more closes it all the same.
            await asyncio.shield(one.close())
