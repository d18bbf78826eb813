"""What a wait says of itself now and then, from what is known anyway. Pure: it asks for nothing, and has no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.outcome import Outcome

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.batch import BatchWait
    from airflow_provider_datapipe.runs.wait import Watch

#: Takes a line, for the log of a task.
Tell: TypeAlias = Callable[[str], None]

#: Seconds between two lines: at the least, at the most, and as a part of how long it has waited.
_SHORTEST_GAP = 60.0
_LONGEST_GAP = 600.0
_GAP_OF_AGE = 0.5
#: By how much more a gap is lengthened: waits that began together do not all speak at once.
_SPREAD = 0.5
#: How many runs of a batch are told of in one line.
_MOST_NAMED = 5
#: From when on a silent service is told of, in seconds.
_SILENCE = 120.0
_MINUTE, _HOUR = 60, 3600


class Progress:
    """
    When to say something, and what.

    :param wait: the wait.
    :param now: seconds since the epoch.
    :param jitter: a number from 0 to 1.
    """

    __slots__ = ("_began", "_jitter", "_wait", "due")

    def __init__(self, wait: BatchWait, now: float, jitter: float) -> None:
        self._wait = wait
        self._began = now
        self._jitter = jitter
        #: When there is something to say next.
        self.due = now
        self._put_off(now)

    def line(self, now: float) -> str:
        """Say how far it is, and put off the next line."""
        self._put_off(now)
        watches = self._wait.watches
        if self._wait.size == 1 and len(watches) == 1:
            return f"{_named(watches[0])}: {_state(watches[0], now)}."
        return f"{self._counted(len(watches))}: {_list(watches, now)}."

    def _put_off(self, now: float) -> None:
        gap = min(max(_SHORTEST_GAP, (now - self._began) * _GAP_OF_AGE), _LONGEST_GAP)
        self.due = now + gap * (1 + _SPREAD * self._jitter)

    def _counted(self, going: int) -> str:
        ended, queued = self._wait.ended, self._wait.queued
        later = f", {queued} more are to be started" if queued else ""
        return f"{ended} of {self._wait.size} runs have ended{later}; waiting for {going}"


def usual_duration(durations: Sequence[float]) -> str | None:
    """Say how long earlier runs took; None where nothing is known."""
    usual = _median(durations)
    return None if usual is None else f"earlier runs took about {span(usual)}"


def span(seconds: float) -> str:
    """Write a duration as people say it."""
    whole = round(max(seconds, 0))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{round(whole / _MINUTE)} min"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def _median(durations: Sequence[float]) -> float | None:
    return sorted(durations)[len(durations) // 2] if durations else None


def _list(watches: Sequence[Watch], now: float) -> str:
    told = [f"{watch.reference.name} {_state(watch, now, briefly=True)}" for watch in watches[:_MOST_NAMED]]
    if len(watches) > _MOST_NAMED:
        told.append(f"and {len(watches) - _MOST_NAMED} more")
    return "; ".join(told)


def _named(watch: Watch) -> str:
    reference = watch.reference
    run = f", run {reference.run_id}" if reference.run_id else ""
    return f"{KINDS[reference.kind].noun} {reference.name}{run}"


def _state(watch: Watch, now: float, *, briefly: bool = False) -> str:
    age = now - watch.began
    has_begun = watch.outcome is Outcome.RUNNING
    # One that goes on after a slice is absent, and running.
    parts = [f"{watch.outcome} for {span(age)}" if has_begun else f"has not begun, for {span(age)}"]
    if result := watch.result:
        synced, total = result["rows_synced"], result["rows_total"]
        if synced is not None:
            of_all = "" if total is None else f" of {round(total):,}"
            parts.append(f"{round(synced):,}{of_all} rows so far")
    if not briefly and has_begun:
        parts += _expected(watch, now)
    if watch.silence(now) > _SILENCE:
        parts.append(f"no answer of the service for {span(watch.silence(now))}")
    return ", ".join(parts)


def _expected(watch: Watch, now: float) -> list[str]:
    usual = _median(watch.reference.durations)
    if usual is None:
        return []
    end = watch.began + usual
    if end <= now:
        return [f"longer than earlier runs, which took about {span(usual)}"]
    at = datetime.fromtimestamp(end, UTC)
    return [f"expected to end about {at:%H:%M} UTC, as earlier runs took about {span(usual)}"]
