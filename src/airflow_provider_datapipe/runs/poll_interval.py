"""
Poll interval of a run, from the durations of earlier runs. Pure: no I/O, and no clock.

The intervals minimize the average of *delay in seconds + price of all polls*. If an active run ends with a probability
of h per second (its hazard), the optimal number of polls per second is sqrt(h / 2 / price). So this module computes h
for each age of a run, from the durations of earlier runs and a general model. The constants have the lowest cost in the
simulation of ``tests/support/simulated_waits.py``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, inf, log, sqrt
from typing import Any, Self

from airflow_provider_datapipe.runs.models import LONGEST_DURATION, valid_durations

#: Price of a poll, in seconds of delay. With it, 15 s is the best fixed interval for runs of 7.5 minutes.
_PRICE = 0.25
#: The age (with the blur) from which a poll has this price. Polls of younger runs cost proportionally less if the
#: history predicts a short run, because such a run needs few polls.
_FULL_PRICE = 320.0
#: The logarithms of the ages (with the blur) at which the price changes.
_PRICE_CHANGES = tuple(log(_FULL_PRICE / factor) for factor in (8, 4, 2, 1))
#: Seconds added to durations before they are compared by their ratio, because short durations vary randomly.
_BLUR = 20.0
#: Hazard of a run unlike all earlier ones, per e-fold of its age.
_LATE = 0.7
#: Additional hazard at any age, for runs that end early, such as failures.
_EARLY = 0.03
#: Weight of the case that the next run is unlike all earlier ones, in numbers of earlier runs.
_UNLIKE = 0.5
#: Weight of a run relative to the next newer one, because sources change.
_FADING = 0.85
#: Half the width of the box of a duration, as a logarithm: the width without other durations, the number of durations
#: that counts as much as this default, and the smallest width.
_SPREAD = 0.25
_SPREAD_WEIGHT = 2.0
_LEAST_SPREAD = 0.05


@dataclass(frozen=True, slots=True)
class RunDurations:
    """
    Durations of earlier runs. ``RunDurations()`` has none. The derived arrays take about one kilobyte.

    :param durations: durations of the successful runs in seconds, newest first. :meth:`of` also accepts invalid values.
    """

    durations: tuple[float, ...] = ()
    #: Number of polls until an age, as a piecewise linear function of the place, which is sqrt(age + blur): polls are
    #: evenly spread over places as long as the hazard per e-fold is constant.
    _places: array[float] = field(init=False, repr=False, compare=False)
    _schedule: array[float] = field(init=False, repr=False, compare=False)
    _slopes: array[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not all(0 <= seconds <= LONGEST_DURATION for seconds in self.durations):
            raise ValueError(f"The durations {self.durations} contain an invalid value.")
        borders, hazards, prices = _steps(self.durations)
        places = array("d", (sqrt(border) for border in borders))
        slopes = array("d", (sqrt(2 * hazard / price) for hazard, price in zip(hazards, prices, strict=True)))
        schedule = array("d", [0.0])
        for (begin, end), slope in zip(pairwise(places), slopes, strict=False):
            schedule.append(schedule[-1] + slope * (end - begin))
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_schedule", schedule)
        object.__setattr__(self, "_slopes", slopes)

    @classmethod
    def of(cls, durations: Iterable[Any]) -> Self:
        """
        Return the history with the newest valid durations (:func:`~.models.valid_durations`).

        :param durations: durations in seconds, newest first.
        """
        return cls(tuple(valid_durations(durations)))

    def interval(self, age: float) -> float:
        """Return the seconds until the next poll of a run of an age, without limits."""
        base = age + _BLUR
        place = sqrt(base)
        cell = bisect_right(self._places, place) - 1
        schedule = self._schedule[cell] + (place - self._places[cell]) * self._slopes[cell] + 1
        cell = bisect_right(self._schedule, schedule) - 1
        place = self._places[cell] + (schedule - self._schedule[cell]) / self._slopes[cell]
        return place * place - base


def next_poll(age: float, history: RunDurations, *, fastest: float, slowest: float) -> float:
    """
    Return the seconds until the next poll of an active run.

    If both limits are equal, the interval is fixed. A later poll never makes the following one earlier.

    :param age: seconds since the run began. Negative values, which occur if clocks differ, count as 0.
    :param history: durations of earlier runs.
    :param fastest: the shortest interval in seconds.
    :param slowest: the longest interval in seconds.
    """
    if not 0 < fastest <= slowest < inf:
        raise ValueError(
            f"The limits of the poll interval must be positive and finite, and fastest ({fastest} s) must not exceed "
            f"slowest ({slowest} s)."
        )
    if age < 0:
        age = 0.0
    elif not age < inf:
        raise ValueError(f"The age of a run must be a number of seconds, not {age}.")
    seconds = history.interval(age)
    if seconds < fastest:
        return fastest
    return min(seconds, slowest)


def _steps(durations: tuple[float, ...]) -> tuple[list[float], list[float], list[float]]:
    """
    Return two step functions of (age + blur): the borders of the steps, the hazard per e-fold, and the price of a poll.

    Each duration is a box of probability around its logarithm. A run that is still active after a box may be unlike all
    earlier runs. Then its duration follows a power law, as for runs without history.
    """
    begin = log(_BLUR)
    logs = [log(seconds + _BLUR) for seconds in durations]
    weights = [_FADING**position for position in range(len(logs))]
    unlike = _UNLIKE / (_UNLIKE + sum(weights))
    density_changes = {begin: 0.0}
    for middle, weight, spread in zip(logs, weights, _spreads(logs), strict=True):
        low, high = max(begin, middle - spread), middle + spread
        density = weight / sum(weights) / (high - low)
        density_changes[low] = density_changes.get(low, 0.0) + density
        density_changes[high] = density_changes.get(high, 0.0) - density
    # No run is expected to end before this border.
    first = sorted(density_changes)[1] if durations else inf
    for border in _PRICE_CHANGES:
        if border > first:
            density_changes.setdefault(border, 0.0)
    borders = sorted(density_changes)
    hazards = []
    density, ahead = 0.0, 1.0
    for low, high in pairwise(borders):
        # Rounding errors could make the sum negative.
        density = max(0.0, density + density_changes[low])
        share = density * (high - low)
        middle = max(0.0, ahead - share / 2)
        ahead = max(0.0, ahead - share)
        ends = (1 - unlike) * density + unlike * (1 - middle) * _LATE
        hazards.append(_EARLY + ends / ((1 - unlike) * middle + unlike))
    hazards.append(_EARLY + _LATE)
    prices = [_PRICE * min(1.0, exp(max(border, first) - _PRICE_CHANGES[-1])) for border in borders]
    return [exp(border) for border in borders], hazards, prices


def _spreads(logs: list[float]) -> list[float]:
    """Return half the width of each box, from the distance to its neighbors: runs of two sizes may be mixed."""
    count = len(logs)
    if count == 1:
        return [_SPREAD]
    neighbor = round(sqrt(count))
    spreads = []
    for one in logs:
        distance = min(sorted(abs(one - other) for other in logs)[neighbor], 2 * _SPREAD)
        known = (_SPREAD * _SPREAD_WEIGHT + distance * count) / (_SPREAD_WEIGHT + count)
        spreads.append(max(_LEAST_SPREAD, known))
    return spreads
