"""Samples of the measured event loop, and their statistics."""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Seconds between two ticks of the clock that runs on the measured event loop.
TICK = 0.010


class Sample(NamedTuple):
    """One tick."""

    at: float
    late: float
    cpu: float


class Lag(NamedTuple):
    """Delays of ticks in seconds: median, 99th percentile and maximum."""

    p50: float
    p99: float
    most: float


def memory_of(process: int | str) -> int:
    """Return the memory of a process of this machine in bytes, by its ID; ``self`` for this one."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def times(factor: float, value: float | None) -> float | None:
    """Return a multiple of a value; None without a value."""
    return None if value is None else factor * value


def part(values: Sequence[float], share: float) -> float | None:
    """Return a quantile of the values; None without values."""
    ascending = sorted(values)
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else None


def cpu_at(samples: Sequence[Sample], moment: float) -> float:
    """Return the CPU time used until a time, interpolated between ticks. Ticks are sparse only in a busy loop."""
    place = bisect.bisect_left(samples, moment, key=lambda sample: sample.at)
    if place == 0:
        return samples[0].cpu
    if place == len(samples):
        return samples[-1].cpu
    before, after = samples[place - 1], samples[place]
    return before.cpu + (after.cpu - before.cpu) * (moment - before.at) / (after.at - before.at)


def lag(samples: Sequence[Sample], begin: float, end: float) -> Lag | None:
    """
    Return the lag of the event loop in a span of time.

    A late tick also counts for the ticks that it prevented. Otherwise a blocked loop would hide its own lag.
    """
    late: list[float] = []
    for sample in samples:
        if sample.at >= begin and sample.at - sample.late <= end:
            left = sample.late
            while left > 0:
                late.append(left)
                left -= TICK
    half, most_of_all = part(late, 0.5), part(late, 0.99)
    return None if half is None or most_of_all is None else Lag(half, most_of_all, max(late))
