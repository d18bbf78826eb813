"""What is sampled, and arithmetic over it."""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Seconds between two ticks of the clock that runs on the measured event loop.
TICK = 0.010


class Sample(NamedTuple):
    """
    One tick.

    :param at: when, by the monotonic clock.
    :param late: by how many seconds.
    :param cpu: seconds of CPU that the process had used.
    """

    at: float
    late: float
    cpu: float


class Lag(NamedTuple):
    """How late a tick comes, in seconds: half of them within, 99% within, at the most."""

    p50: float
    p99: float
    most: float


def memory_of(process: int | str) -> int:
    """Give the bytes of memory that a process of this machine has, by its id; ``self`` for this one."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def part(values: Sequence[float], share: float) -> float | None:
    """Give the value that a share of these is not above; None if there are none."""
    ascending = sorted(values)
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else None


def cpu_at(samples: Sequence[Sample], moment: float) -> float:
    """Give the CPU used until a moment: ticks are sparse only while the loop is busy, so in between it is even."""
    place = bisect.bisect_left(samples, moment, key=lambda sample: sample.at)
    if place == 0:
        return samples[0].cpu
    if place == len(samples):
        return samples[-1].cpu
    before, after = samples[place - 1], samples[place]
    return before.cpu + (after.cpu - before.cpu) * (moment - before.at) / (after.at - before.at)


def lag(samples: Sequence[Sample], begin: float, end: float) -> Lag | None:
    """
    Give the lag of the event loop in a time.

    A tick that is late also stands for those that it hid: a loop that is blocked would hide its own lateness.
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
