"""Progress lines for the task log of a wait. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Protocol, TypeAlias

from airflow_provider_datapipe.runs.log_lines.labels import median, resource_label, short_run_id, span, usual_duration
from airflow_provider_datapipe.runs.outcome import Outcome

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.wait import RunWait

#: Function that logs a line with a level in the log of a task.
ReportLine: TypeAlias = Callable[[int, str], None]

#: Interval between two lines: the shortest and the longest in seconds, and as a fraction of the time waited so far.
_SHORTEST_GAP = 60.0
_LONGEST_GAP = 600.0
_GAP_OF_AGE = 0.5
#: Largest random extension of an interval, as a fraction, so that waits that began together do not log at once.
_SPREAD = 0.5
#: The most runs of a batch in one line.
_MOST_NAMED = 5
_MINUTE = 60
#: Seconds without an answer from which a line mentions this.
_SILENCE = 120.0


class Waits(Protocol):
    """The properties of a task's waits that progress lines show."""

    #: Number of all runs.
    size: int

    @property
    def run_waits(self) -> list[RunWait]:
        """The waits for the active runs."""

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""

    @property
    def queued(self) -> int:
        """Number of runs that have not been started."""


class ProgressLines:
    """
    Schedule and text of the progress lines of a wait.

    :param wait: the wait.
    :param now: current time in seconds since the epoch.
    :param jitter: number from 0 to 1 that extends the intervals.
    """

    __slots__ = ("_began", "_jitter", "_wait", "due")

    def __init__(self, wait: Waits, now: float, jitter: float) -> None:
        self._wait = wait
        self._began = now
        self._jitter = jitter
        #: Time of the next line, in seconds since the epoch.
        self.due = now
        self._schedule_next(now)

    def line(self, now: float, *, is_lost: bool = False) -> str:
        """
        Return the progress line, and schedule the next one.

        :param now: current time in seconds since the epoch.
        :param is_lost: True if contact with the service is lost.
        """
        self._schedule_next(now)
        run_waits = self._wait.run_waits
        if self._wait.size == 1 and len(run_waits) == 1:
            return f"{_named(run_waits[0])}: {_state(run_waits[0], now, is_lost=is_lost)}."
        return f"{self._counted(len(run_waits))}: {_list(run_waits, now, is_lost=is_lost)}."

    def _schedule_next(self, now: float) -> None:
        gap = min(max(_SHORTEST_GAP, (now - self._began) * _GAP_OF_AGE), _LONGEST_GAP)
        self.due = now + gap * (1 + _SPREAD * self._jitter)

    def _counted(self, going: int) -> str:
        ended, queued = self._wait.ended, self._wait.queued
        later = f", {queued} are queued" if queued else ""
        return f"{ended} of {self._wait.size} runs have ended{later}; waiting for {going}"


def _list(run_waits: Sequence[RunWait], now: float, *, is_lost: bool) -> str:
    descriptions = [
        f"{run_wait.reference.name} {_state(run_wait, now, is_lost=is_lost, is_brief=True)}"
        for run_wait in run_waits[:_MOST_NAMED]
    ]
    if len(run_waits) > _MOST_NAMED:
        descriptions.append(f"and {len(run_waits) - _MOST_NAMED} more")
    return "; ".join(descriptions)


def _named(run_wait: RunWait) -> str:
    reference = run_wait.reference
    run = f", run {short_run_id(reference.run_id)}" if reference.run_id else ""
    return f"{resource_label(reference)}{run}"


def _state(run_wait: RunWait, now: float, *, is_lost: bool, is_brief: bool = False) -> str:
    is_lost = is_lost or run_wait.lost is not None
    is_silent = is_lost or run_wait.silence(now) > _SILENCE
    age = now - run_wait.began
    has_started = run_wait.outcome is Outcome.RUNNING
    # After a slice of a load, the next run can be absent while the load is running.
    parts = [f"{run_wait.outcome} for {span(age)}" if has_started else f"has not started for {span(age)}"]
    if is_silent:
        # The run may have ended since the last answer.
        parts = [f"{run_wait.outcome} at the last answer" if run_wait.was_seen else "not seen yet"]
    if result := run_wait.result:
        synced, total = result["rows_synced"], result["rows_total"]
        if synced is not None:
            of_all = "" if total is None else f" of {round(total):,}"
            parts.append(f"{round(synced):,}{of_all} rows so far")
    if is_silent:
        parts.append(f"no answer from the service for {span(now - run_wait.last_answer)}")
    elif not is_brief and has_started:
        parts += _expected(run_wait, now)
    return ", ".join(parts)


def _expected(run_wait: RunWait, now: float) -> list[str]:
    usual = median(run_wait.reference.durations)
    if usual is None:
        return []
    end = run_wait.began + usual
    if end <= now:
        return [f"longer than usual ({usual_duration(run_wait.reference.durations)})"]
    # Round up: a minute that has begun would read as a past time.
    at = datetime.fromtimestamp(ceil(end / _MINUTE) * _MINUTE, UTC)
    return [f"expected to end about {at:%H:%M} UTC, as {usual_duration(run_wait.reference.durations)}"]
