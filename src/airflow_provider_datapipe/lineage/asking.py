"""Client for lineage requests, with limits on time and number of requests, because the task waits for lineage."""

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

#: Time budget for requests and timeout of one request, in seconds. Their sum is less than half of the limit of
#: Airflow's OpenLineage provider (``[openlineage] execution_timeout``, 10 s).
_TIME_BUDGET = 2.5
_TIMEOUT = 2.0
#: Maximum number of requests for one task or asset.
_MOST_REQUESTS = 16
#: Maximum duration of one OpenLineage event, in seconds. Later requests belong to another event.
_LONGEST_EVENT = 10.0


class LineageLimitError(DatapipeError):
    """A limit is reached: no more requests are sent for this event."""


class Budget:
    """
    Time budget for requests to one service during one event, shared by the task and all its assets.

    :param seconds: total duration of requests after which no further one starts.
    """

    def __init__(self, seconds: float = _TIME_BUDGET) -> None:
        self.started = time.monotonic()
        self._left = seconds

    @property
    def is_spent(self) -> bool:
        """True if no further request may start."""
        return self._left <= 0

    def spend(self, seconds: float) -> None:
        """Subtract the duration of a request."""
        self._left -= seconds

    def stop(self) -> None:
        """Prevent further requests."""
        self._left = 0


#: Budgets of the current event, by Airflow connection ID.
_budgets: dict[str, Budget] = {}


def budget_of(conn_id: str, *, begins: bool) -> Budget:
    """
    Return the budget of a connection for the current event.

    :param conn_id: the connection ID.
    :param begins: True to start a new event. The task starts it; its assets are processed afterwards.
    """
    known = _budgets.get(conn_id)
    if begins or known is None or time.monotonic() - known.started > _LONGEST_EVENT:
        known = _budgets[conn_id] = Budget()
    return known


class LineageClient:
    """
    Client that sends requests until a limit is reached.

    After an error that is not specific to the requested resource, it sends no more requests.

    :param settings: connection settings of the service.
    :param budget: shared time budget. A request without a response exhausts it.
    :raises ConfigurationError: if the settings are not usable.
    """

    def __init__(self, settings: Settings, budget: Budget) -> None:
        timeout = min(settings.timeout, _TIMEOUT)
        self._client = Client(replace(settings, timeout=timeout, retry=RetryPolicy(budget=0)))
        self._budget = budget
        self._sent = 0
        self._is_stopped = False
        #: The first error; None if there was none.
        self.problem: DatapipeError | None = None

    def send(self, request: Request[Any]) -> Any:
        """
        Send a request and return the response.

        :param request: the request.
        :raises DatapipeError: if the request failed or was not sent because a limit is reached.
        """
        if self._is_stopped:
            raise LineageLimitError("an earlier request failed")
        try:
            if self._sent >= _MOST_REQUESTS:
                raise LineageLimitError(f"the limit of {_MOST_REQUESTS} requests was reached")
            if self._budget.is_spent:
                raise LineageLimitError("the time limit for requests was reached")
            self._sent += 1
            return self._timed(request)
        except DatapipeError as error:
            if isinstance(error, TransportError):
                self._budget.stop()
            self.problem = self.problem or error
            self._is_stopped = not (isinstance(error, ApiError) and error.status in (400, 404, 422))
            raise

    def _timed(self, request: Request[Any]) -> Any:
        started = time.monotonic()
        try:
            return self._client.send(request)
        finally:
            self._budget.spend(time.monotonic() - started)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
