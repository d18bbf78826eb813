"""Order and estimated duration of the measured runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import ceil

MODES = ("blocking", "deferred", "defer_at_once", "baseline")
#: Seconds between the starts of two tasks, so that processes of the one do not slow down the other.
GAP = 5.0
#: Estimated seconds of a wave in addition to its runs: start and end of the tasks.
WAVE_OVERHEAD = 8.0
#: Estimated seconds to start and stop all components of one executor.
COMPONENTS_OVERHEAD = 60.0


@dataclass(frozen=True)
class Lane:
    """Runs of one mode and duration, one at a time."""

    mode: str
    duration: float
    number: int

    @property
    def stream_id(self) -> str:
        """Stream that only this lane uses."""
        return f"{self.mode}_{self.duration:g}s_{self.number}".replace(".", "_")


@dataclass(frozen=True)
class Wave:
    """Tasks that start one after the other, and all of them before the first of their runs ends."""

    duration: float
    lanes: tuple[Lane, ...]
    warm_up: bool

    @property
    def estimated_seconds(self) -> float:
        return self.duration + (len(self.lanes) - 1) * GAP + WAVE_OVERHEAD


def wave_size(duration: float) -> int:
    """Return the number of tasks that start, with a gap between two, before the first run ends."""
    return max(1, int(duration / GAP))


def lanes_of(duration: float, runs: int) -> list[Lane]:
    """Return the lanes of a duration: as many for each mode as a wave has room for."""
    count = min(ceil(wave_size(duration) / len(MODES)), runs)
    return [Lane(mode, duration, number) for number in range(count) for mode in MODES]


def waves_of(duration: float, runs: int) -> Iterator[Wave]:
    """Return the waves of a duration: first one run of each lane without history, then the measured runs."""
    lanes, size = lanes_of(duration, runs), wave_size(duration)
    measured = list(islice(cycle(lanes), runs * len(MODES)))
    for warm_up, order in ((True, lanes), (False, measured)):
        # A wave has at most one run per lane.
        step = min(size, len(lanes))
        for begin in range(0, len(order), step):
            yield Wave(duration, tuple(order[begin : begin + step]), warm_up)


def estimated_seconds(executors: int, durations: Sequence[float], runs: int) -> float:
    """Return the estimated duration of all measurements."""
    waves = [wave for duration in durations for wave in waves_of(duration, runs)]
    return executors * (COMPONENTS_OVERHEAD + sum(wave.estimated_seconds for wave in waves))
