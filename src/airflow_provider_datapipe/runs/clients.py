"""The client of a connection for as long as triggers share it: made anew when the Airflow connection has changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from airflow_provider_datapipe.api.async_client import AsyncClient
from airflow_provider_datapipe.api.errors import DatapipeError, ProtocolError, TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.contact import Contact, is_of_connection

log = logging.getLogger(__name__)

#: Seconds after which the Airflow connection is read again, also while all is well.
_REREAD = 600.0
#: Seconds that reading the Airflow connection may take.
_READ_LIMIT = 30.0
#: Seconds before it is read again after that, doubled each time up to the limit above.
_FIRST_PAUSE = 1.0
#: Seconds that an attempt may take although its wait is over: the first poll may still find the end of the run.
_LAST_ATTEMPT = 5.0


#: Reads the Airflow connection.
Reader = Callable[[], Awaitable[Settings]]


class Clients:
    """
    The client of a connection, made anew when the connection has changed.

    :param read: reads the connection.
    """

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._current: AsyncClient | None = None
        #: How many requests of each client are under way.
        self._users: dict[AsyncClient, int] = {}
        self._read_at = 0.0
        self._opening = asyncio.Lock()

    @property
    def most(self) -> int:
        """The most requests at a time."""
        return 1 if self._current is None else self._current.settings.max_connections

    async def open(self, *, within: float | None = None) -> None:
        """
        Make a client, if there is none.

        :param within: seconds that this may take; None for the usual limit.
        :raises TransportError: the connection could not be read in time.
        :raises Exception: whatever reading the connection raises.
        """
        limit = _READ_LIMIT if within is None else min(within, _READ_LIMIT)
        try:
            async with asyncio.timeout(limit), self._opening:
                if self._current is None:
                    self._take(await self._read())
        except TimeoutError as error:
            raise TransportError(
                f"The Airflow connection could not be read within {limit:.1f} s. Look whether the secrets backend "
                "answers.",
                sent=False,
            ) from error

    async def open_until(self, limit: float) -> None:
        """
        Make a client, if there is none. A secrets backend that does not answer is asked again.

        :param limit: when to give up, as seconds since the epoch; one attempt is made even later.
        :raises TransportError: the connection could not be read by then.
        :raises Exception: whatever reading the connection raises.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                await self.open(within=max(limit - time.time(), _LAST_ATTEMPT))
            except TransportError as error:
                left = limit - time.time()
                if left <= 0:
                    raise
                log.warning("%s Trying again.", error)
                await asyncio.sleep(min(pause, left))
                pause = min(pause * 2, _READ_LIMIT)
            else:
                return

    async def refresh(self, *, in_doubt: bool) -> None:
        """
        Read the connection again, and go over to a new client if it has changed.

        :param in_doubt: the service does not answer as it should: perhaps the key or the address has changed.
        """
        before = self._current
        if before is None or (not in_doubt and time.monotonic() < self._read_at + _REREAD):
            return
        self._read_at = time.monotonic()
        try:
            async with asyncio.timeout(_READ_LIMIT):
                settings = await self._read()
            if settings == before.settings:
                return
            self._take(settings)
        except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises: the client at hand may do
            log.warning("The connection can't be read again: %s", str(error) or type(error).__name__)
            return
        log.info("The connection has changed: going on with what it says now.")
        await self._close_unused(before)

    async def send(self, request: Request[Any]) -> Any:
        """Send a request with the newest client."""
        client = self._current
        if client is None:
            raise AssertionError("clients are opened before they are asked")
        self._users[client] += 1
        try:
            return await client.send(request)
        except DatapipeError:
            raise
        except Exception as error:
            # It concerns those who asked for this only: others share the client.
            log.exception("%s failed. Report this as a defect of the provider.", request.label)
            raise ProtocolError(f"{request.label} failed ({type(error).__name__}).") from error
        finally:
            self._users[client] -= 1
            await self._close_unused(client)

    async def ask(self, request: Request[Any], contact: Contact) -> Any:
        """
        Send a request, and note what it says of the connection.

        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        try:
            answer = await self.send(request)
        except DatapipeError as error:
            if is_of_connection(error):
                contact.failed(error, time.time())
            raise
        contact.answered(time.time())
        return answer

    async def close(self) -> None:
        """Close all clients; nothing is under way any more."""
        self._current = None
        for client in list(self._users):
            await self._close_unused(client)

    def _take(self, settings: Settings) -> None:
        client = AsyncClient(settings)
        self._read_at = time.monotonic()
        self._current = client
        self._users[client] = 0

    async def _close_unused(self, client: AsyncClient) -> None:
        if client is not self._current and self._users.get(client) == 0:
            del self._users[client]
            await client.close()


async def until_welcome(contact: Contact) -> None:
    """Wait until the service can be asked."""
    while (pause := contact.paused_until - time.time()) > 0:  # noqa: ASYNC110 - it may be put off while this sleeps
        await asyncio.sleep(pause)
