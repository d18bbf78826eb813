"""How long a sensor goes on looking at a service that can't be asked, and what looking again would not help."""

from __future__ import annotations

import random

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    PermissionDeniedError,
)
from airflow_provider_datapipe.api.retry import honored
from airflow_provider_datapipe.runs.bridges import BridgeError
from airflow_provider_datapipe.runs.errors import LostContactError, RunError
from airflow_provider_datapipe.runs.missing import GRACE, Missing, is_missing
from airflow_provider_datapipe.runs.names import NameLookupError
from airflow_provider_datapipe.runs.wait import WaitPolicy

#: The most seconds between two looks at a service that fails.
_LONGEST_BACKOFF = 300.0


class Patience:
    """
    How long a service that can't be asked is waited for.

    :param now: seconds since the epoch.
    :param polled_before: whether another process has polled successfully: then a resource that seems not to exist may
        come back.
    """

    def __init__(self, now: float, *, polled_before: bool = False) -> None:
        self._contact = now
        self._failures = 0
        self._existed = polled_before
        self._missing: Missing | None = None
        #: Whether the service has answered so far.
        self.was_answered = False

    def answered(self, now: float) -> None:
        """Take word that a look has succeeded."""
        self._contact, self._failures, self.was_answered = now, 0, True
        self._existed, self._missing = True, None

    def is_final(self, error: DatapipeError, now: float) -> bool:
        """
        Return True if another poll would not help.

        A resource that existed counts as deleted after repeated answers over a grace period only.

        :param error: what went wrong.
        :param now: seconds since the epoch.
        """
        if not (is_missing(error) and self._existed):
            return is_final(error, was_answered=self.was_answered)
        # The service can be reached, so this is no loss of contact.
        self._contact = now
        self._missing = self._missing or Missing(GRACE, now)
        return self._missing.is_final(now)

    def failed(self, error: DatapipeError, now: float, interval: float) -> float:
        """
        Take a look that failed, and give the seconds until the next.

        :param error: what went wrong.
        :param now: seconds since the epoch.
        :param interval: seconds between two looks, while all is well.
        :raises LostContactError: that has lasted too long.
        """
        if self._missing is not None and is_missing(error):
            return self._missing.pause(now, random.random())  # noqa: S311 - no secret
        if now >= self._contact + WaitPolicy().contact_limit:
            raise LostContactError(
                f"Contact with the service was lost for {now - self._contact:.0f} s: {error} Mend the cause, then run "
                "this task again."
            )
        backoff = min(_LONGEST_BACKOFF, interval * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return max(interval, backoff, honored(error) or 0.0)


def is_final(error: DatapipeError, *, was_answered: bool) -> bool:
    """
    Tell whether looking again would not help: something is not there, or is set wrongly.

    :param error: what went wrong.
    :param was_answered: whether an earlier look has succeeded: then keys and addresses may be about to change.
    """
    if is_missing(error):
        return True
    if isinstance(error, BridgeError | InvalidInputError | NameLookupError | RunError):
        return True
    set_wrongly = isinstance(error, AuthenticationError | ConfigurationError | PermissionDeniedError)
    return not was_answered and (set_wrongly or isinstance(error, InvalidRequestError))
