"""Objects that the triggers on one event loop share for a connection, closed with their last user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary


class Shareable(Protocol):
    """Object that counts its users, and is closed when the last one leaves."""

    users: int

    @property
    def is_usable(self) -> bool:
        """True if new users can join. Otherwise they get a new object."""

    async def close(self) -> None:
        """Close the object."""


S = TypeVar("S", bound=Shareable)
#: Shared objects of each event loop, by connection ID.
PerLoop: TypeAlias = WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, S]]


@asynccontextmanager
async def shared(kept: PerLoop[S], conn_id: str, make: Callable[[], S]) -> AsyncIterator[S]:
    """
    Yield the shared object of a connection on the running event loop. It exists as long as it has users.

    :param kept: the shared objects.
    :param conn_id: ID of the Airflow connection.
    :param make: function that creates the object.
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
            # Remove it before the first await, so that a new user creates another one.
            if here.get(conn_id) is one:
                del here[conn_id]
            # Close it even if the task is canceled again.
            await asyncio.shield(one.close())
