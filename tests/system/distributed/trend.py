"""Trends of the samples of the soak test, by least squares. Pure: no I/O, and no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

#: Part of the samples at the beginning that is left out: pools fill, modules are loaded.
WARM_UP = 0.25
#: Growth over all samples that counts as flat: this part of the mean, or the allowance of the metric, if larger.
_TOLERANCE = 0.05
_ALLOWANCES = {"rss_mb": 20.0, "fds": 10.0, "connections": 10.0, "for_each_run_rows": 1.0, "rows": 30.0}


@dataclass(frozen=True)
class Trend:
    """
    Line through the samples of a metric.

    :param metric: name of the metric, which ends with its unit.
    :param mean: the mean after the warm-up.
    :param growth: the growth from the first to the last sample after the warm-up, by the line.
    """

    metric: str
    mean: float
    growth: float

    @property
    def allowed(self) -> float:
        """Growth that counts as flat."""
        allowance = next((value for unit, value in _ALLOWANCES.items() if self.metric.endswith(unit)), 0.0)
        return max(_TOLERANCE * abs(self.mean), allowance)

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the line with the least squares of the distances; 0 for fewer than two times."""
    middle, mean = fmean(times), fmean(values)
    spread = sum((time - middle) ** 2 for time in times)
    if not spread:
        return 0.0
    return sum((time - middle) * (value - mean) for time, value in zip(times, values, strict=True)) / spread


def trends(times: Sequence[float], samples: Mapping[str, Sequence[float]]) -> list[Trend]:
    """
    Return the trend of each metric after the warm-up.

    :param times: times of the samples.
    :param samples: values of each metric at these times.
    """
    first = int(len(times) * WARM_UP)
    kept = times[first:]
    if not kept:
        return []
    return [
        Trend(metric, fmean(values[first:]), slope(kept, values[first:]) * (kept[-1] - kept[0]))
        for metric, values in samples.items()
    ]
