"""
How long to wait before the next look at a run: arithmetic only, without I/O and clocks.

What is to be as small as possible is the *delay in seconds + a price for each look*, on average. If a run that is still
going ends with a chance of h per second (its hazard), the best number of looks per second is sqrt(h / 2 / price). So it
is enough to say h at each age: from how long earlier runs took, and from what is true of runs in general. The constants
are those that cost least in the simulation of ``tests/support/simulated_waits.py``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, inf, log, sqrt
from typing import Any, Self

#: How many earlier runs are taken into account.
KEPT = 20

#: How many seconds of delay a look is worth. It makes 15 s the best fixed interval for runs of 7.5 minutes.
_PRICE = 0.25
#: Seconds that are added to durations before they are compared by their ratio: short ones differ by chance.
_BLUR = 20.0
#: The hazard of a run that is like no earlier one, by e-fold of its age.
_LATE = 0.7
#: The hazard of ending early, as failures do, in addition, at any age.
_EARLY = 0.03
#: The weight, in earlier runs, of the next one being like none of them.
_UNLIKE = 0.5
#: The weight of a run beside that of the one after it: sources change.
_FADING = 0.85
#: How far a duration says something about others, as a logarithm: what is taken for certain without other durations,
#: and how many of them it takes to know better; and the least.
_SPREAD = 0.25
_SPREAD_WEIGHT = 2.0
_LEAST_SPREAD = 0.05
#: No run takes longer, in seconds: 30 years.
_LONGEST = 1e9


@dataclass(frozen=True, slots=True)
class History:
    """
    What is known of earlier runs: ``History()`` is nothing.

    It fits into JSON, by :meth:`as_json`. What is computed from it takes about a kilobyte.

    :param durations: seconds that runs took which succeeded, newest first; :meth:`of` takes what the service gives.
    """

    durations: tuple[float, ...] = ()
    #: How many looks a run of an age has had: piecewise linear in its place, the root of (age + blur), since looks are
    #: spread evenly over places as long as the hazard by e-fold is the same.
    _places: array[float] = field(init=False, repr=False, compare=False)
    _looks: array[float] = field(init=False, repr=False, compare=False)
    _slopes: array[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not all(0 <= seconds <= _LONGEST for seconds in self.durations):
            raise ValueError(f"What is no duration can't be kept: {self.durations}.")
        borders, hazards = _hazards(self.durations)
        places = array("d", (sqrt(border) for border in borders))
        slopes = array("d", (sqrt(2 * hazard / _PRICE) for hazard in hazards))
        looks = array("d", [0.0])
        for (begin, end), slope in zip(pairwise(places), slopes, strict=False):
            looks.append(looks[-1] + slope * (end - begin))
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_looks", looks)
        object.__setattr__(self, "_slopes", slopes)

    @classmethod
    def of(cls, durations: Iterable[Any]) -> Self:
        """
        Keep what is of use of the durations of earlier runs: the newest of them, by three digits.

        What is no duration is left out: None, NaN, what is negative or longer than 30 years, what is no number.

        :param durations: seconds, newest first.
        """
        usable = (
            float(f"{seconds:.3g}")
            for seconds in durations
            if isinstance(seconds, int | float) and 0 <= seconds <= _LONGEST
        )
        return cls(tuple(seconds for _, seconds in zip(range(KEPT), usable, strict=False)))

    def as_json(self) -> list[float]:
        """Give it as JSON."""
        return list(self.durations)

    @classmethod
    def from_json(cls, data: Iterable[Any] | None) -> Self:
        """Read what :meth:`as_json` gave; None is nothing known."""
        return cls.of(data or ())

    def interval(self, age: float) -> float:
        """Give the seconds until the next look at a run of an age, without bounds."""
        base = age + _BLUR
        place = sqrt(base)
        cell = bisect_right(self._places, place) - 1
        looks = self._looks[cell] + (place - self._places[cell]) * self._slopes[cell] + 1
        cell = bisect_right(self._looks, looks) - 1
        place = self._places[cell] + (looks - self._looks[cell]) / self._slopes[cell]
        return place * place - base


def next_look(age: float, history: History, *, fastest: float, slowest: float) -> float:
    """
    Give the seconds until the next look at a run that is still going.

    Where both bounds are the same, that is a fixed interval. A look that comes later never makes the next one earlier.

    :param age: seconds since the run began; less than zero, where clocks differ, counts as zero.
    :param history: what is known of earlier runs.
    :param fastest: the least that is given.
    :param slowest: the most that is given.
    """
    if not 0 < fastest <= slowest < inf:
        raise ValueError(
            f"The time between two looks has to be above 0 and bounded, and fastest ({fastest} s) not above slowest "
            f"({slowest} s)."
        )
    if age < 0:
        age = 0.0
    elif not age < inf:
        raise ValueError(f"The age of a run has to be a number of seconds, not {age}.")
    seconds = history.interval(age)
    if seconds < fastest:
        return fastest
    return min(seconds, slowest)


def _hazards(durations: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """
    Give the hazard, by e-fold of (age + blur), as a step function: the borders of the steps, and the hazard after each.

    Each duration is a box of probability about its logarithm. A run that gets through a box may be one unlike all: then
    it goes on by a power law, as all do of which nothing is known.
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
    borders = sorted(density_changes)
    hazards = []
    density, ahead = 0.0, 1.0
    for low, high in pairwise(borders):
        # Never below zero, as sums of rounded numbers may be.
        density = max(0.0, density + density_changes[low])
        share = density * (high - low)
        middle = max(0.0, ahead - share / 2)
        ahead = max(0.0, ahead - share)
        ends = (1 - unlike) * density + unlike * (1 - middle) * _LATE
        hazards.append(_EARLY + ends / ((1 - unlike) * middle + unlike))
    hazards.append(_EARLY + _LATE)
    return [exp(border) for border in borders], hazards


def _spreads(logs: list[float]) -> list[float]:
    """Give how far each says something about others: by its neighbours, as runs of two sizes may be mixed."""
    count = len(logs)
    if count == 1:
        return [_SPREAD]
    neighbour = round(sqrt(count))
    spreads = []
    for one in logs:
        distance = min(sorted(abs(one - other) for other in logs)[neighbour], 2 * _SPREAD)
        known = (_SPREAD * _SPREAD_WEIGHT + distance * count) / (_SPREAD_WEIGHT + count)
        spreads.append(max(_LEAST_SPREAD, known))
    return spreads
