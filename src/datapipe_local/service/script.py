"""What runs are told to do instead of what they would do by themselves: a seam for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """
    How a run is to end.

    :param error: It fails, with this message; ``None`` has it do its work.
    :param is_slice: It ends as one slice of a longer load, and another run follows.
    """

    error: str | None = None
    is_slice: bool = False


NORMAL = Outcome()


class Script:
    """The script of a service that nobody directs: it says nothing."""

    #: What SQL says of the runs that callers may see.
    visible: str = "TRUE"

    def seconds(self, name: str, subject_id: str) -> float | None:
        """
        Tell a time of the runs of a resource; ``None`` leaves it to the seed.

        :param name: ``scheduling_delay`` or ``minimum_duration``.
        :param subject_id: The resource.
        """
        return None

    def outcome(self, subject_id: str, run: str) -> Outcome:
        """
        Tell how a run is to end.

        :param subject_id: Whose run.
        :param run: The run, told apart from all others of the resource.
        """
        return NORMAL
