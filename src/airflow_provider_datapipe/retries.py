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

#: Refusals that are about the moment, not about the request: 408 and 425.
_PASSING = (408, 425)


class DatapipeRetryPolicy(RetryPolicy):
    """
    Fails at once where another try can't help, and waits as long as the service says where it can.

    A wrong or too weak API key, a connection that can't be used, something that does not exist, a request that breaks a
    rule and a schedule that can't be owned stay so: the task fails with tries left. After 429 and 5xx the service's
    ``Retry-After`` is the delay, where it gives one. All else is up to the task: ``retries``, ``retry_delay``,
    ``retry_exponential_backoff``.

    :param longest_delay: the longest delay that is taken from the service; a longer one becomes this.
    :param retry_failed_runs: whether a run that failed on the service is worth another: most have a reason that stays.

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
        :param try_number: which try it was, from 1.
        :param max_tries: how many there may be.
        :param context: Airflow's context.
        """
        from airflow_provider_datapipe.api import errors
        from airflow_provider_datapipe.resources.schedule_kinds import NotHoldableError
        from airflow_provider_datapipe.runs.errors import RunFailedError
        from airflow_provider_datapipe.runs.names import NameLookupError
        from airflow_provider_datapipe.webhook.delivery import IngestError

        if isinstance(exception, IngestError) and exception.__cause__ is not None:
            # It says how far it came; why it came no further is behind it.
            exception = exception.__cause__

        stays = (
            errors.AuthenticationError,
            errors.ConfigurationError,
            errors.InvalidInputError,
            errors.InvalidRequestError,
            errors.NotFoundError,
            errors.PermissionDeniedError,
            NameLookupError,
            NotHoldableError,
        )
        passes = isinstance(exception, errors.ApiError) and exception.status in _PASSING
        if isinstance(exception, stays) and not passes:
            return RetryDecision.fail(f"{type(exception).__name__}: another try would end the same way.")
        if isinstance(exception, RunFailedError) and not self.retry_failed_runs:
            return RetryDecision.fail("The run failed on the service; retry_failed_runs is off.")
        asked = exception.retry_after if isinstance(exception, errors.ApiError) else None
        if asked is not None:
            delay = min(timedelta(seconds=asked), self.longest_delay)
            return RetryDecision.retry(delay, f"The service asks to wait {delay.total_seconds():.0f} s.")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {"longest_delay": self.longest_delay.total_seconds(), "retry_failed_runs": self.retry_failed_runs}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DatapipeRetryPolicy:
        """Make it again from what :meth:`serialize` gave."""
        return cls(longest_delay=timedelta(seconds=data["longest_delay"]), retry_failed_runs=data["retry_failed_runs"])
