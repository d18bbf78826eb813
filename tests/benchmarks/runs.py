"""The runs that the stub tells of, and what it counts while it is asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

#: Runs with numbers from here on are over already: triggers are warmed up with them.
WARM = 9_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """What the stub has counted."""

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
    """Runs with numbers below a count, that are waited for."""

    count: int
    began: Callable[[int], float] = lambda _: 0.0
    ends: Callable[[int], float] | None = None
    requests: int = 0
    checks: int = 0
    connections: int = 0
    open: int = 0
    not_found: int = 0
    #: When the request that is being answered came.
    asked_at: float = 0.0
    #: Of each run that was shown: when it was asked for, and when answered, until the start is over.
    schedule: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    is_starting: bool = True
    #: How many requests there were for the runs of a group.
    asked: Counter[int] = field(default_factory=Counter)
    #: When all were told to end, by the monotonic clock.
    ended_at: float | None = None

    def is_over(self, run: int) -> bool:
        """Return True, once for each response, if a run has ended."""
        if run >= WARM:
            return True
        if run < self.count:
            self.checks += 1
            schedule = self.schedule.setdefault(run, [])
            if self.is_starting:
                schedule.append((self.asked_at, time.monotonic()))
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
                seen=len(self.schedule),
                not_found=self.not_found,
            )
        )
