"""Objects that the triggers on one event loop share for a connection, closed with their last user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from airflow_provider_datapipe.runs.polling.shared_client import Reader


class Shareable(Protocol):
    """Object that counts its users, and is closed when the last one leaves."""

    users: int

    @property
    def is_usable(self) -> bool:
        """True if new users can join. Otherwise they get a new object."""

    async def close(self) -> None:
        """Close the object."""


S = TypeVar("S", bound=Shareable)


class PerLoop(Generic[S]):
    """
    Shared objects of each event loop, one for each connection.

    :param make: function that creates an object from the ID of the Airflow connection and the function that reads it.
    """

    def __init__(self, make: Callable[[str, Reader], S]) -> None:
        self._make = make
        #: Objects of each event loop, by connection ID.
        self.objects: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, S]] = WeakKeyDictionary()

    @asynccontextmanager
    async def __call__(self, conn_id: str, read: Reader) -> AsyncIterator[S]:
        """
        Yield the shared object of a connection on the running event loop. It exists as long as it has users.

        :param conn_id: ID of the Airflow connection.
        :param read: function that reads it.
        """
        here = self.objects.setdefault(asyncio.get_running_loop(), {})
        one = here.get(conn_id)
        if one is None or not one.is_usable:
            one = here[conn_id] = self._make(conn_id, read)
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
