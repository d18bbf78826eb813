"""HTTP client that triggers share, replaced when the Airflow connection changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from airflow_provider_datapipe.api.async_client import AsyncClient
from airflow_provider_datapipe.api.errors import DatapipeError, ProtocolError, TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import backoff_delay
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.log_lines.labels import sentence_start

log = logging.getLogger(__name__)

#: Seconds after which the Airflow connection is read again, even without failures.
_REREAD = 600.0
#: Time limit for reading the Airflow connection, in seconds.
_READ_LIMIT = 30.0
#: First pause before it is read again after a timeout, in seconds.
_FIRST_PAUSE = 1.0
#: Time limit of an attempt in seconds if the wait is over: a poll may still find the end of the run.
_LAST_ATTEMPT = 5.0


#: Function that reads the Airflow connection.
Reader = Callable[[], Awaitable[Settings]]


class SharedClient:
    """
    HTTP client of an Airflow connection, replaced when the connection changes.

    :param read: function that reads the Airflow connection.
    :param name: name of the connection in messages.
    """

    def __init__(self, read: Reader, name: str = "the Airflow connection") -> None:
        self._read = read
        self._name = name
        self._current: AsyncClient | None = None
        #: Number of active requests of each client.
        self._users: dict[AsyncClient, int] = {}
        self._read_at = 0.0
        self._opening = asyncio.Lock()

    @property
    def most(self) -> int:
        """The most requests at a time."""
        return 1 if self._current is None else self._current.settings.max_connections

    async def open(self, *, within: float | None = None) -> None:
        """
        Create a client if there is none.

        :param within: time limit in seconds; None for the default limit.
        :raises TransportError: if the Airflow connection cannot be read in time.
        :raises Exception: if reading the Airflow connection fails.
        """
        limit = _READ_LIMIT if within is None else min(within, _READ_LIMIT)
        try:
            async with asyncio.timeout(limit), self._opening:
                if self._current is None:
                    await self._take(await self._read())
        except TimeoutError as error:
            raise TransportError(
                f"{sentence_start(self._name)} could not be read within {limit:.1f} s.\nCheck that the secrets "
                "backend answers.",
                sent=False,
            ) from error

    async def open_until(self, limit: float) -> None:
        """
        Create a client if there is none. Retry if the secrets backend does not answer.

        :param limit: time until which to retry, in seconds since the epoch. One attempt is made even later.
        :raises TransportError: if the Airflow connection cannot be read until then.
        :raises Exception: if reading the Airflow connection fails.
        """
        failures = 0
        while True:
            try:
                await self.open(within=max(limit - time.time(), _LAST_ATTEMPT))
            except TransportError as error:
                left = limit - time.time()
                if left <= 0:
                    raise
                log.warning("%s\nTrying again.", error)
                failures += 1
                await asyncio.sleep(min(backoff_delay(failures, first=_FIRST_PAUSE, longest=_READ_LIMIT), left))
            else:
                return

    async def refresh(self, *, after_failure: bool) -> None:
        """
        Read the Airflow connection again, and replace the client if it has changed.

        :param after_failure: True if requests fail, so that the key or the address may have changed. False to read it
            only every 10 minutes.
        """
        before = self._current
        if before is None or (not after_failure and time.monotonic() < self._read_at + _REREAD):
            return
        self._read_at = time.monotonic()
        try:
            async with asyncio.timeout(_READ_LIMIT):
                settings = await self._read()
            if settings == before.settings:
                return
            await self._take(settings)
        except Exception as error:  # noqa: BLE001 - any error of a secrets backend: keep the present client
            problem = str(error) or type(error).__name__
            log.warning("%s cannot be read again: %s", sentence_start(self._name), problem)
            return
        log.info("%s has changed: its new settings are used.", sentence_start(self._name))
        await self._close_unused(before)

    async def send(self, request: Request[Any]) -> Any:
        """Send a request with the newest client."""
        client = self._current
        if client is None:
            raise AssertionError("the client is opened before the first request")
        self._users[client] += 1
        try:
            return await client.send(request)
        except DatapipeError:
            raise
        except Exception as error:
            # A defect concerns only this request: other waits share the client.
            log.exception("%s failed. Report this as a defect of the provider.", request.label)
            raise ProtocolError(f"{request.label} failed ({type(error).__name__}).") from error
        finally:
            self._users[client] -= 1
            await self._close_unused(client)

    async def close(self) -> None:
        """Close all clients. No request may be active."""
        self._current = None
        for client in list(self._users):
            await self._close_unused(client)

    async def _take(self, settings: Settings) -> None:
        client = await AsyncClient.create(settings)
        self._read_at = time.monotonic()
        self._current = client
        self._users[client] = 0

    async def _close_unused(self, client: AsyncClient) -> None:
        if client is not self._current and self._users.get(client) == 0:
            del self._users[client]
            await client.close()
