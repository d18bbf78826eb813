"""Log lines for a loss of contact with the service and for its end. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

import logging
from typing import TypeAlias

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.runs.log_lines.labels import span

#: Level and text.
LogLine: TypeAlias = tuple[int, str]


class ContactLog:
    """
    Log of one wait: one line for each loss of contact, and one for its end.

    :param lost_since: time of a loss that was logged before, as seconds since the epoch; None if there is contact.
    """

    __slots__ = ("lost_since",)

    def __init__(self, lost_since: float | None = None) -> None:
        self.lost_since = lost_since

    def failed(self, error: DatapipeError, now: float) -> LogLine | None:
        """
        Return the line to log after a failed poll, None if the loss was logged before.

        :param error: the failure.
        :param now: seconds since the epoch.
        """
        if self.lost_since is not None:
            return None
        self.lost_since = now
        return logging.WARNING, f"Contact with the service was lost: {error}\nPolling continues."

    def answered(self, now: float) -> LogLine | None:
        """
        Return the line to log after an answer, None if there was contact before.

        :param now: seconds since the epoch.
        """
        if self.lost_since is None:
            return None
        lost_since, self.lost_since = self.lost_since, None
        return logging.INFO, f"Contact with the service was restored after {span(now - lost_since)}."
