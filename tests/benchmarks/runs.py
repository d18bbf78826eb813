"""Runs of the stub, and counters of its requests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

#: Runs with numbers from here on have already ended. They serve to warm up triggers.
WARM = 9_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of the stub."""

    at: float
    cpu: float
    requests: int
    checks: int
    connections: int
    open: int
    seen: int
    not_found: int


@dataclass(slots=True)
class Runs:
    """Awaited runs, with numbers below a count."""

    count: int
    began: Callable[[int], float] = lambda _: 0.0
    ends: Callable[[int], float] | None = None
    requests: int = 0
    checks: int = 0
    connections: int = 0
    open: int = 0
    not_found: int = 0
    #: Arrival time of the current request.
    asked_at: float = 0.0
    #: Times of request and response for each shown run, until the end of the start phase.
    polls: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    is_starting: bool = True
    #: Number of requests for the runs of each group.
    asked: Counter[int] = field(default_factory=Counter)
    #: End of all runs, by the monotonic clock.
    ended_at: float | None = None

    def is_over(self, run: int) -> bool:
        """Return True if a run has ended. Called once per run and response."""
        if run >= WARM:
            return True
        if run < self.count:
            self.checks += 1
            polls = self.polls.setdefault(run, [])
            if self.is_starting:
                polls.append((self.asked_at, time.monotonic()))
        return self.ended_at is not None if self.ends is None else time.time() >= self.ends(run)

    def finished(self, run: int) -> float:
        """Return the end of a run in its document."""
        return self.began(run) + 600 if self.ends is None else self.ends(run)

    def has_begun(self, run: int) -> bool:
        """Return True if a run has started."""
        return time.time() >= self.began(run)

    def counts(self) -> dict[str, Any]:
        return asdict(
            Counts(
                at=time.monotonic(),
                cpu=time.process_time(),
                requests=self.requests,
                checks=self.checks,
                connections=self.connections,
                open=self.open,
                seen=len(self.polls),
                not_found=self.not_found,
            )
        )
