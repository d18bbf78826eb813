"""Medians of the measured times, as tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.table import number, table
from tests.system.latency.plan import MODES

BEGIN = "<!-- table: python -m tests.system.latency --write -->\n"
EXECUTORS = {"local": "LocalExecutor", "celery": "CeleryExecutor"}
_HEADS = {
    "blocking": "Blocking",
    "deferred": "Deferrable",
    "defer_at_once": "Deferrable, `defer_after=0`",
    "baseline": "Trivial deferrable task",
}
#: Seconds by which a deferrable task may be slower than its reference. That is a blocking task up to the duration
#: ``SHORT``, and the baseline above it.
LIMIT, SHORT = 1.0, 5.0


@dataclass(frozen=True)
class Measurement:
    """One run and its task."""

    executor: str
    mode: str
    duration: float
    latency: float | None
    warm_up: bool


@dataclass(frozen=True)
class Results:
    """All measurements."""

    measurements: Sequence[Measurement]

    def latencies(self, executor: str, mode: str, duration: float, *, warm_up: bool = False) -> list[float]:
        """Return the times of the tasks that succeeded."""
        return [
            one.latency
            for one in self.measurements
            if (one.executor, one.mode, one.duration, one.warm_up) == (executor, mode, duration, warm_up)
            and one.latency is not None
        ]

    def median(self, executor: str, mode: str, duration: float, *, warm_up: bool = False) -> float | None:
        """Return the median time, None without any."""
        found = self.latencies(executor, mode, duration, warm_up=warm_up)
        return median(found) if found else None

    @property
    def failed(self) -> list[Measurement]:
        return [one for one in self.measurements if one.latency is None]

    @property
    def _rows(self) -> Iterator[tuple[str, float]]:
        durations = sorted({one.duration for one in self.measurements})
        for executor in EXECUTORS:
            if any(one.executor == executor for one in self.measurements):
                yield from ((executor, duration) for duration in durations)

    def tables(self) -> str:
        """Return the tables for the page, with the number of measurements."""
        counts = [len(self.latencies(executor, mode, duration)) for executor, duration in self._rows for mode in MODES]
        runs = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        failed = f" {len(self.failed)} tasks failed and are not counted." if self.failed else ""
        return (
            f"Medians of {runs} runs, in seconds:{failed}\n\n{self._table(warm_up=False)}\n"
            f"The first run of a stream, without history:\n\n{self._table(warm_up=True)}"
        )

    def _table(self, *, warm_up: bool) -> str:
        # The baseline has no stream and so no history.
        modes = [mode for mode in MODES if not (warm_up and mode == "baseline")]
        rows = [
            [
                EXECUTORS[executor],
                f"{duration:g} s",
                *(number(self.median(executor, mode, duration, warm_up=warm_up)) for mode in modes),
            ]
            for executor, duration in self._rows
        ]
        return table(["Executor", "Run", *(_HEADS[mode] for mode in modes)], rows)

    def comparisons(self) -> Iterator[str]:
        """Return a line for each duration: how much slower a deferrable task was than its reference."""
        for executor, duration in self._rows:
            reference = "blocking" if duration <= SHORT else "baseline"
            ours, other = (self.median(executor, mode, duration) for mode in ("deferred", reference))
            if ours is not None and other is not None:
                verdict = "within" if ours - other <= LIMIT else "over"
                yield (
                    f"{EXECUTORS[executor]}, {duration:g} s: deferrable {ours:.2f} s, {reference} {other:.2f} s:"
                    f" {ours - other:+.2f} s, {verdict} the limit of {LIMIT:g} s"
                )
