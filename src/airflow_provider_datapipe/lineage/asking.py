"""Asking the service for what lineage needs: little, and not for long. The task waits meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.errors import ApiError, DatapipeError
from airflow_provider_datapipe.api.retry import RetryPolicy

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.api.settings import Settings

#: Seconds in which a request may begin, and seconds that it may take: together less than half of what Airflow's
#: OpenLineage provider allows (``[openlineage] execution_timeout``, 10 s).
_PATIENCE = 2.5
_TIMEOUT = 2.0
#: The most requests for one event.
_MOST_REQUESTS = 16


class EnoughError(DatapipeError):
    """No more is asked for this event."""


class Asker:
    """
    Sends requests, until that is too much.

    After a failure that says nothing of the thing that was asked for, nothing more is sent.

    :param settings: how to reach the service.
    :param patience: seconds in which a request may begin.
    :param timeout: seconds that one may take.
    """

    def __init__(self, settings: Settings, *, patience: float = _PATIENCE, timeout: float = _TIMEOUT) -> None:
        timeout = min(settings.timeout, timeout)
        self._client = Client(replace(settings, timeout=timeout, retry=RetryPolicy(budget=0)))
        self._ends = time.monotonic() + patience
        self._sent = 0
        self._given_up = False
        #: Why something is not known, the first time.
        self.problem: DatapipeError | None = None

    def send(self, request: Request[Any]) -> Any:
        """
        Send a request.

        :raises DatapipeError: it was refused, not answered, or not sent at all.
        """
        if self._given_up:
            raise EnoughError("the service failed before")
        try:
            if self._sent >= _MOST_REQUESTS:
                raise EnoughError(f"there are more things than {_MOST_REQUESTS} requests show")
            if time.monotonic() >= self._ends:
                raise EnoughError("the service is slow")
            self._sent += 1
            return self._client.send(request)
        except DatapipeError as error:
            self.problem = self.problem or error
            self._given_up = not (isinstance(error, ApiError) and error.status in (400, 404, 422))
            raise

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
