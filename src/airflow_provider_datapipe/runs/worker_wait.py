"""Time that a deferrable task waits in its worker before it defers. Pure: no I/O, and no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

#: A task waits in the worker for runs that should finish within this many seconds: a deferral costs 2 s and more.
SHORT_RUN = 10.0
#: Seconds in the worker if there is no earlier run to compare with.
WITHOUT_HISTORY = 6.0
#: The first and the longest interval between polls at the start of a wait in the worker, in seconds, and the length of
#: this phase in seconds.
FIRST_INTERVAL = 0.2
_DENSE_INTERVAL = 1.0
DENSE_SECONDS = 15.0
#: The share of the earlier runs that were shorter than the expected duration.
_QUANTILE = 0.75
#: The wait for a short run, in expected durations, and seconds for its start and the last poll.
_MARGIN = 1.5
_OVERHEAD = 2.0


def is_short(durations: Sequence[float]) -> bool:
    """
    Return True if a run should finish within about 10 s, or if it has no history.

    :param durations: seconds that earlier runs took.
    """
    expected = _expected(durations)
    return expected is None or expected <= SHORT_RUN


def sensor_intervals(poke_interval: float) -> Iterator[float]:
    """
    Yield the seconds between the polls of a sensor in its worker: short ones first, then those of the user.

    :param poke_interval: the user's seconds between two polls.
    """
    elapsed, interval = 0.0, FIRST_INTERVAL
    while elapsed < DENSE_SECONDS:
        pause = min(interval, max(poke_interval, FIRST_INTERVAL))
        yield pause
        elapsed += pause
        interval = min(interval * 2, _DENSE_INTERVAL)
    while True:
        yield max(poke_interval, FIRST_INTERVAL)


def seconds_in_worker(
    histories: Iterable[Sequence[float]], *, defer_after: float | None = None, any_of_them: bool = False
) -> float:
    """
    Return the seconds to wait in the worker for active runs, 0 to defer immediately.

    :param histories: for each run, the seconds that earlier runs took.
    :param defer_after: the user's setting; None to decide by the history.
    :param any_of_them: True if the end of any of the runs lets the task continue in the worker, because further runs
        are queued. Otherwise one long run makes the task defer.
    """
    if defer_after is not None:
        return defer_after
    limits = [_limit(durations) for durations in histories]
    if not limits or (0.0 in limits and not any_of_them):
        return 0.0
    return max(limits)


def _limit(durations: Sequence[float]) -> float:
    expected = _expected(durations)
    if expected is None:
        return WITHOUT_HISTORY
    return _MARGIN * expected + _OVERHEAD if expected <= SHORT_RUN else 0.0


def _expected(durations: Sequence[float]) -> float | None:
    return sorted(durations)[int(len(durations) * _QUANTILE)] if durations else None
