"""Run overrides: outcomes and durations that tests set for runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """
    Forced outcome of a run.

    :param error: Message of the failure. With ``None`` the run does its normal work.
    :param is_slice: The run ends as one slice of a longer load, and another run follows.
    """

    error: str | None = None
    is_slice: bool = False


NORMAL = Outcome()


class RunOverrides:
    """Run overrides of a service without a control plane: none."""

    #: SQL condition for the runs that callers may see.
    visible: str = "TRUE"

    def seconds(self, name: str, subject_id: str) -> float | None:
        """
        Return a duration for the runs of a resource in seconds, or ``None`` to use the stored setting.

        :param name: ``scheduling_delay`` or ``minimum_duration``.
        :param subject_id: Resource.
        """
        return None

    def outcome(self, subject_id: str, run: str) -> Outcome:
        """
        Return the outcome of a run.

        :param subject_id: Resource.
        :param run: Unique key of the run within the resource.
        """
        return NORMAL
