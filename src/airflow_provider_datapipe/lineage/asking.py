"""Asking the service for what lineage needs: little, and not for long. The task waits meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.errors import ApiError, DatapipeError, TransportError
from airflow_provider_datapipe.api.retry import RetryPolicy

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.api.settings import Settings

#: Seconds that requests may have taken for another one to begin, and seconds that it may take: together less than
#: half of what Airflow's OpenLineage provider allows (``[openlineage] execution_timeout``, 10 s).
_PATIENCE = 2.5
_TIMEOUT = 2.0
#: The most requests for one task, or one asset.
_MOST_REQUESTS = 16
#: Seconds after which what is asked for belongs to another event.
_LONGEST_EVENT = 10.0


class EnoughError(DatapipeError):
    """No more is asked for this event."""


class Budget:
    """
    The time that may be spent on a service for one event, over the task and all assets that it is about.

    :param seconds: how long requests may have taken for another one to begin.
    """

    def __init__(self, seconds: float = _PATIENCE) -> None:
        self.begun = time.monotonic()
        self._left = seconds

    @property
    def is_spent(self) -> bool:
        """Whether no request may begin."""
        return self._left <= 0

    def spend(self, seconds: float) -> None:
        """Take off what a request took."""
        self._left -= seconds

    def give_up(self) -> None:
        """Let no request begin any more."""
        self._left = 0


#: The budgets of the event that this process is about, by the connections of Airflow.
_budgets: dict[str, Budget] = {}


def budget_of(conn_id: str, *, begins: bool) -> Budget:
    """
    Give what may still be spent on a connection.

    :param conn_id: the connection.
    :param begins: whether an event begins with it: with a task, whose assets are asked for after it, if at all.
    """
    known = _budgets.get(conn_id)
    if begins or known is None or time.monotonic() - known.begun > _LONGEST_EVENT:
        known = _budgets[conn_id] = Budget()
    return known


class Asker:
    """
    Sends requests, until that is too much.

    After a failure that says nothing of the thing that was asked for, nothing more is sent.

    :param settings: how to reach the service.
    :param budget: the time that they may take together; where there is no answer at all, it is given up.
    :param timeout: seconds that one may take.
    :raises ConfigurationError: there can be no client with these settings.
    """

    def __init__(self, settings: Settings, budget: Budget | None = None, *, timeout: float = _TIMEOUT) -> None:
        timeout = min(settings.timeout, timeout)
        self._client = Client(replace(settings, timeout=timeout, retry=RetryPolicy(budget=0)))
        self._budget = budget or Budget()
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
            if self._budget.is_spent:
                raise EnoughError("the service is slow")
            self._sent += 1
            return self._timed(request)
        except DatapipeError as error:
            if isinstance(error, TransportError):
                self._budget.give_up()
            self.problem = self.problem or error
            self._given_up = not (isinstance(error, ApiError) and error.status in (400, 404, 422))
            raise

    def _timed(self, request: Request[Any]) -> Any:
        begun = time.monotonic()
        try:
            return self._client.send(request)
        finally:
            self._budget.spend(time.monotonic() - begun)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
