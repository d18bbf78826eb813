"""Objects that the triggers on one event loop share for a connection, closed with their last user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

    def __call__(self, conn_id: str, read: Reader) -> Membership[S]:
        """
        Return a context manager for the shared object of a connection, which exists as long as it has users.

        :param conn_id: ID of the Airflow connection.
        :param read: function that reads it.
        """
        return Membership(self, conn_id, read)

    def join(self, conn_id: str, read: Reader) -> S:
        """Return the shared object of a connection on the running event loop, and count its caller as a user."""
        here = self.objects.setdefault(asyncio.get_running_loop(), {})
        one = here.get(conn_id)
        if one is None or not one.is_usable:
            one = here[conn_id] = self._make(conn_id, read)
        one.users += 1
        return one

    async def leave(self, conn_id: str, one: S) -> None:
        """Stop counting a user of a shared object. The last user closes it."""
        here = self.objects[asyncio.get_running_loop()]
        one.users -= 1
        if not one.users:
            # Remove it before the first await, so that a new user creates another one.
            if here.get(conn_id) is one:
                del here[conn_id]
            # Close it even if the task is canceled again.
            await asyncio.shield(one.close())


class Membership(Generic[S]):
    """
    Context manager for a shared object. Smaller than a generator, because thousands of triggers can wait in it.

    :param shared: the shared objects.
    :param conn_id: ID of the Airflow connection.
    :param read: function that reads it.
    """

    __slots__ = ("_conn_id", "_one", "_read", "_shared")

    def __init__(self, shared: PerLoop[S], conn_id: str, read: Reader) -> None:
        self._shared = shared
        self._conn_id = conn_id
        self._read = read

    async def __aenter__(self) -> S:
        self._one = self._shared.join(self._conn_id, self._read)
        return self._one

    async def __aexit__(self, *_: object) -> None:
        await self._shared.leave(self._conn_id, self._one)
