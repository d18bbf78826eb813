"""
Outcomes of runs, from the statuses of the service.

``runs.results.exception_for`` decides whether a task fails because of an outcome.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """State of a run, with the same values for all kinds of run."""

    #: Requested, and not started.
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    #: Ended, and some rows failed.
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELED = "canceled"
    #: Not requested, because another run was active.
    SKIPPED = "skipped"
    #: Ended, with a status that this version does not know. It does not count as success.
    UNKNOWN = "unknown"

    @property
    def is_over(self) -> bool:
        """True if the run has ended, with any outcome, or was skipped."""
        return self not in (Outcome.SCHEDULED, Outcome.RUNNING)


_KNOWN = {
    "NOT_STARTED": Outcome.SCHEDULED,
    "SCHEDULED": Outcome.SCHEDULED,
    "RUNNING": Outcome.RUNNING,
    "COMPLETED": Outcome.SUCCEEDED,
    # A finished slice: the run that follows it is part of the same load.
    "CHUNK_COMPLETED": Outcome.PARTIAL,
    "FAILED": Outcome.FAILED,
    "CANCELED": Outcome.CANCELED,
}


def outcome_of(status: str | None, *, finished: bool, failed_rows: float | None = None) -> Outcome:
    """
    Return the outcome of a run. It fails closed.

    A missing or unknown status counts as running until the run has an end time, and as unknown afterwards.

    :param status: status text of the service.
    :param finished: True if the service reports an end time.
    :param failed_rows: number of rows that the run could not deliver.
    """
    outcome = _KNOWN.get(status or "")
    if outcome is None:
        return Outcome.UNKNOWN if finished else Outcome.RUNNING
    if outcome is Outcome.SUCCEEDED and failed_rows:
        return Outcome.PARTIAL
    return outcome


def is_success(outcome: Outcome, failed_rows: float | None, *, max_failed_rows: float) -> bool:
    """
    Return True if a finished run counts as success for a task.

    :param outcome: the outcome of the run.
    :param failed_rows: number of failed rows; None if the service does not report it.
    :param max_failed_rows: number of failed rows that the task accepts.
    """
    is_accepted = failed_rows is not None and failed_rows <= max_failed_rows
    return outcome is Outcome.SUCCEEDED or (outcome is Outcome.PARTIAL and is_accepted)


_MATERIALIZATIONS = {"completed": Outcome.SUCCEEDED, "failed": Outcome.FAILED}


def outcome_of_materialization(status: str | None, *, is_table: bool) -> Outcome:
    """
    Return the outcome of the materialization of a published transform. It fails closed.

    A table with a missing or unknown status counts as running: the deadline of the wait ends it.

    :param status: ``materialization_status``; None for views, which exist as soon as the request returns.
    :param is_table: True if the transform is materialized as a table.
    """
    if status is None and not is_table:
        return Outcome.SUCCEEDED
    return _MATERIALIZATIONS.get(status or "", Outcome.RUNNING)
