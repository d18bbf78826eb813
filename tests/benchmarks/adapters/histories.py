"""Runs with earlier runs that begin and end in real time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any

from typing_extensions import override

from tests.benchmarks.adapters.ours import StreamsOfSyncs, decode
from tests.benchmarks.runs import WARM, Runs
from tests.support.simulated_waits import FAMILIES, Case, drawn

#: Poll interval (None for adaptive), and whether the runs of a group are streams of one sync.
Way = tuple[float | None, bool]
#: Compared kinds of waits, each with a separate group of runs.
WAYS: tuple[Way, ...] = tuple(
    (interval, is_shared) for is_shared in (False, True) for interval in (1.0, 5.0, 15.0, None)
)
#: Share of the typical duration within which all runs begin.
_BEGIN_WITHIN = 1 / 6
#: Runs of more than this multiple of the typical duration are omitted, so that a measurement ends.
_LONGEST = 2.0


class Histories(StreamsOfSyncs):
    """The same runs for each kind of wait."""

    name = "histories"

    def __init__(self, typical: float, group: int, ways: Sequence[Way] = WAYS) -> None:
        self._typical = typical
        self._group = group
        self._ways = ways
        #: Start of the first trigger, in seconds since the epoch.
        self._begun = 0.0

    @property
    def count(self) -> int:
        return self._group * len(self._ways)

    @cached_property
    def cases(self) -> list[Case]:
        """Runs of one group, with the same number of each family if possible."""
        families = [
            [
                case
                for case in drawn(family, self._typical, 2 * self._group)
                if case.duration <= _LONGEST * self._typical
            ]
            for family in FAMILIES
        ]
        mixed = (case for cases in zip_longest(*families) for case in cases if case is not None)
        return list(islice(mixed, self._group))

    @property
    def longest(self) -> float:
        """Seconds from the start of the first trigger until all runs have ended."""
        return (_BEGIN_WITHIN + _LONGEST) * self._typical

    @cached_property
    def _offsets(self) -> list[float]:
        chance = random.Random("offsets")  # noqa: S311 - no secret
        return [_BEGIN_WITHIN * self._typical * chance.random() for _ in range(self._group)]

    def way(self, run: int) -> Way:
        """Return the kind of wait for a run."""
        return self._ways[run // self._group]

    def ends(self, run: int) -> float:
        """Return the end of a run, in seconds after the start of the first trigger."""
        place = run % self._group
        return self._offsets[place] + self.cases[place].duration

    @override
    def offsets(self, count: int, ramp: float) -> list[float]:
        return [self._offsets[run % self._group] for run in range(count)]

    @override
    def interval(self, run: int, poll: float) -> float | None:
        return poll if run >= WARM else self.way(run)[0]

    @override
    def history(self, run: int) -> list[float]:
        return [] if run >= WARM else list(self.cases[run % self._group].earlier)

    @override
    def reference(self, run: int) -> dict[str, Any]:
        reference = super().reference(run)
        # One sync for each group of any size, because other groups have another kind of wait.
        is_shared = run < WARM and self.way(run)[1]
        return {**reference, "sync_id": f"Y{run // self._group:013d}" if is_shared else None}

    @override
    def streams_of(self, sync: int) -> range:
        return range(sync * self._group, (sync + 1) * self._group)

    @override
    def runs(self, count: int) -> Runs:
        def began(run: int) -> float:
            return self._begun + (self._offsets[run % self._group] if run < WARM else 0)

        return Runs(count, began=began, ends=lambda run: self._begun + self.ends(run))

    @override
    def begin(self, at: float) -> None:
        self._begun = at

    @override
    def answer(self, path: str, runs: Runs) -> Mapping[str, Any] | None:
        answer = super().answer(path, runs)
        if answer is not None:
            is_sync = "source_streams" in answer
            group = int(answer["elt_sync_id"][1:]) if is_sync else (decode(answer["id"]) or 0) // self._group
            runs.asked[group] += 1
        return answer
