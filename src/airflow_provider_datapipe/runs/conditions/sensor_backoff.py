"""Backoff of a sensor after failed polls, and the errors that end its wait."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    PermissionDeniedError,
)
from airflow_provider_datapipe.api.retry import requested_delay
from airflow_provider_datapipe.runs.backoff import delay_after
from airflow_provider_datapipe.runs.bridges import BridgeError
from airflow_provider_datapipe.runs.errors import LostContactError, RunError
from airflow_provider_datapipe.runs.log_lines.contact import ContactLog, LogLine
from airflow_provider_datapipe.runs.missing_runs import GRACE, MissingRun, is_missing
from airflow_provider_datapipe.runs.names import NameLookupError
from airflow_provider_datapipe.runs.wait import WaitPolicy


class SensorBackoff:
    """
    Backoff of a sensor, and limit for a loss of contact.

    :param now: current time in seconds since the epoch.
    :param polled_before: whether another process has polled successfully: then a resource that seems not to exist may
        reappear.
    :param lost_since: time of a loss of contact that another process has logged, as seconds since the epoch.
    :param jitter: function that returns a number from 0 to 1.
    """

    def __init__(
        self,
        now: float,
        *,
        polled_before: bool = False,
        lost_since: float | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._jitter = jitter
        self._contact_log = ContactLog(lost_since)
        self._contact = now
        self._failures = 0
        self._existed = polled_before
        self._missing: MissingRun | None = None
        #: True if a poll of this process has succeeded.
        self.was_answered = False

    @property
    def lost_since(self) -> float | None:
        """Time of a loss of contact that was logged, as seconds since the epoch; None if there is contact."""
        return self._contact_log.lost_since

    def contact_line(self, error: DatapipeError | None, now: float) -> LogLine | None:
        """
        Return the log line after a poll, None if there is nothing new.

        :param error: the failure; None if the service has answered.
        :param now: seconds since the epoch.
        """
        if error is None:
            return self._contact_log.answered(now)
        if is_missing(error):
            # The service can be reached, so this is not a loss of contact.
            return logging.WARNING, str(error)
        return self._contact_log.failed(error, now)

    def answered(self, now: float) -> None:
        """Process a successful poll."""
        self._contact, self._failures, self.was_answered = now, 0, True
        self._existed, self._missing = True, None

    def is_final(self, error: DatapipeError, now: float) -> bool:
        """
        Return True if another poll would not help.

        A resource that existed counts as deleted only after repeated answers over a grace period.

        :param error: the failure.
        :param now: current time in seconds since the epoch.
        """
        if not (is_missing(error) and self._existed):
            return is_final(error, was_answered=self.was_answered)
        # The service can be reached, so this is not a loss of contact.
        self._contact = now
        self._missing = self._missing or MissingRun(GRACE, now)
        return self._missing.is_final(now)

    def failed(self, error: DatapipeError, now: float, interval: float) -> float:
        """
        Process a failed poll, and return the seconds until the next one.

        :param error: the failure.
        :param now: current time in seconds since the epoch.
        :param interval: seconds between two polls without failures.
        :raises LostContactError: if the service could not be reached for too long.
        """
        if self._missing is not None and is_missing(error):
            return self._missing.pause(now, self._jitter())
        if now >= self._contact + WaitPolicy().contact_limit:
            raise LostContactError(
                f"Contact with the service was lost for {now - self._contact:.0f} s.\n{error}\nCorrect the cause, "
                "then run this task again."
            )
        self._failures += 1
        return max(delay_after(self._failures, interval, self._jitter()), requested_delay(error) or 0.0)


def is_final(error: DatapipeError, *, was_answered: bool) -> bool:
    """
    Return True if another poll would not help: a resource does not exist, or a setting is wrong.

    :param error: the failure.
    :param was_answered: True if an earlier poll has succeeded. Then an authentication error can be temporary, for
        example while a key is replaced.
    """
    if is_missing(error):
        return True
    if isinstance(error, BridgeError | InvalidInputError | NameLookupError | RunError):
        return True
    set_wrongly = isinstance(error, AuthenticationError | ConfigurationError | PermissionDeniedError)
    return not was_answered and (set_wrongly or isinstance(error, InvalidRequestError))
