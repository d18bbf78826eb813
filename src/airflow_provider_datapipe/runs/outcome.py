"""What a status means."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """Where a run stands, in one vocabulary for every kind of run."""

    #: Asked for, and not begun.
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    #: Over, and not everything was done: some rows failed.
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELED = "canceled"
    #: Not asked for, because another run was going.
    SKIPPED = "skipped"
    #: Over, with a status that this version does not know: never taken for success.
    UNKNOWN = "unknown"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, whatever its end."""
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
    Read the status of a run, failing closed.

    A status that is absent or not known counts as running until the run is finished, and as unknown from then on.

    :param status: status text of the service.
    :param finished: whether the service gives the time at which the run ended.
    :param failed_rows: rows that the run could not deliver.
    """
    outcome = _KNOWN.get(status or "")
    if outcome is None:
        return Outcome.UNKNOWN if finished else Outcome.RUNNING
    if outcome is Outcome.SUCCEEDED and failed_rows:
        return Outcome.PARTIAL
    return outcome


_MATERIALIZATIONS = {"completed": Outcome.SUCCEEDED, "failed": Outcome.FAILED}


def outcome_of_materialization(status: str | None, *, is_table: bool) -> Outcome:
    """
    Read where the materialization of a published transform stands, failing closed.

    A table whose state is absent or not known counts as being built: the deadline of the wait ends it.

    :param status: ``materialization_status``; absent for views, which are there once the call has returned.
    :param is_table: whether the transform becomes a table.
    """
    if status is None and not is_table:
        return Outcome.SUCCEEDED
    return _MATERIALIZATIONS.get(status or "", Outcome.RUNNING)
