"""Retry policy for failed tasks (Airflow 3.3 or later). DAG files import this module, so it imports nothing heavy."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow import __version__ as airflow_version

try:
    from airflow.sdk import RetryDecision, RetryPolicy
except ImportError as error:
    raise ImportError(f"DatapipeRetryPolicy requires Airflow 3.3 or later; this is {airflow_version}.") from error

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Temporary refusals: 408 and 425.
_TEMPORARY = (408, 425)


class DatapipeRetryPolicy(RetryPolicy):
    """
    Retry policy that fails tasks at once after permanent errors, and honors the delays that the service requests.

    Permanent errors are a wrong API key, missing permissions, an invalid connection, an unknown resource, an invalid
    request, and a schedule that cannot be paused and restored. After 429 and 5xx, the service's ``Retry-After`` is the
    delay if it is more than 0. For all other errors, ``retries``, ``retry_delay`` and ``retry_exponential_backoff`` of
    the task apply.

    :param longest_delay: the longest delay that the service can request; longer ones are shortened.
    :param retry_failed_runs: True to retry tasks whose run failed on the service. Most of these runs fail again.

    .. seealso:: Airflow's ``retry_policy``, which every task has; set it in ``default_args`` for a whole DAG.
    """

    def __init__(self, *, longest_delay: timedelta = timedelta(hours=1), retry_failed_runs: bool = True) -> None:
        if longest_delay <= timedelta(0):
            raise ValueError(f"longest_delay must be more than 0, not {longest_delay}")
        self.longest_delay = longest_delay
        self.retry_failed_runs = retry_failed_runs

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """
        Decide about one failure.

        :param exception: the exception of the task.
        :param try_number: number of the try, from 1.
        :param max_tries: maximum number of tries.
        :param context: Airflow's context.
        """
        from airflow_provider_datapipe.api import errors
        from airflow_provider_datapipe.resources.schedule_kinds import ScheduleNotPausableError
        from airflow_provider_datapipe.runs.errors import RunFailedError
        from airflow_provider_datapipe.runs.names import NameLookupError
        from airflow_provider_datapipe.webhook.delivery import IngestError

        if isinstance(exception, IngestError) and exception.__cause__ is not None:
            # IngestError reports the progress; its cause is the failure.
            exception = exception.__cause__

        permanent = (
            errors.AuthenticationError,
            errors.ConfigurationError,
            errors.InvalidInputError,
            errors.InvalidRequestError,
            errors.NotFoundError,
            errors.PermissionDeniedError,
            NameLookupError,
            ScheduleNotPausableError,
        )
        is_temporary = isinstance(exception, errors.ApiError) and exception.status in _TEMPORARY
        if isinstance(exception, permanent) and not is_temporary:
            return RetryDecision.fail(f"{type(exception).__name__}: another try would fail as well.")
        if isinstance(exception, RunFailedError) and not self.retry_failed_runs:
            return RetryDecision.fail("The run failed on the service, and retry_failed_runs is False.")
        asked = exception.retry_after if isinstance(exception, errors.ApiError) else None
        if asked:
            delay = min(timedelta(seconds=asked), self.longest_delay)
            return RetryDecision.retry(delay, f"The service requests a delay of {delay.total_seconds():.0f} s.")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {"longest_delay": self.longest_delay.total_seconds(), "retry_failed_runs": self.retry_failed_runs}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DatapipeRetryPolicy:
        """Return the policy that :meth:`serialize` serialized."""
        return cls(longest_delay=timedelta(seconds=data["longest_delay"]), retry_failed_runs=data["retry_failed_runs"])
