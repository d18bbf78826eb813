"""
Which runs have ended since somebody looked last. Pure.

Runs are listed by when they began, and end in any order; so what was seen is noted as a moment, the runs before it that
are still going, and the runs after it whose ends were told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pendulum

from airflow_provider_datapipe.api.models.common import format_timestamp, parse_timestamp

log = logging.getLogger(__name__)

#: Seconds before the newest run in which others may still appear in the list: it can lag, and be filled out of order.
OVERLAP = 300.0
#: The most ends that are noted by their runs; with more of them the moment moves on.
MOST_TOLD = 400
#: The most runs that are noted as going; of more, the oldest are given up.
MOST_GOING = 200


class Seen(NamedTuple):
    """
    A run as a list shows it.

    :param run_id: its id.
    :param moment: by what the list is ordered, as text that sorts.
    :param has_begun: whether the moment has come: some lists show runs that are due.
    :param is_over: whether it has ended.
    :param is_slice: whether it has ended, and the load goes on in the run after it.
    :param payload: what is told of its end.
    """

    run_id: str
    moment: str
    has_begun: bool
    is_over: bool
    is_slice: bool
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cursor:
    """
    Up to where the ends of runs were told; it fits into JSON.

    :param since: all runs before this moment are known: told, or going.
    :param going: runs that had not ended.
    :param told: runs from the moment on whose ends are told, each with its own moment.
    :param rows: rows of the slices of a load that goes on.
    """

    since: str = ""
    going: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    rows: float = 0

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Any) -> Cursor | None:
        """Read it; None if this is no cursor."""
        try:
            return cls(**stored)
        except TypeError:
            return None

    def needs_more(self, oldest: str) -> bool:
        """
        Tell whether older runs have to be seen.

        :param oldest: the moment of the oldest run that was seen so far.
        """
        return oldest >= self.since


def needs_more_at_first(seen: Sequence[Seen], page: Sequence[Seen]) -> bool:
    """
    Tell whether older runs have to be seen to begin now: as long as there may be some that are still going.

    :param seen: all runs that were seen so far, newest first.
    :param page: those of the last page.
    """
    return any(not run.is_over for run in page) or page[-1].moment >= _settled(seen, "")


def take(cursor: Cursor | None, seen: Iterable[Seen], gone: frozenset[str] = frozenset()) -> tuple[list[Any], Cursor]:
    """
    Tell which runs have ended since the cursor.

    :param cursor: up to where was told; None to begin now, telling nothing of what is over.
    :param seen: all runs from the cursor's moment on, and those noted as going, in any order.
    :param gone: runs that there are no more.
    """
    before = cursor or Cursor()
    runs = sorted(seen, key=lambda run: (run.moment, run.run_id))
    since = _settled(runs[::-1], before.since)
    was_going, shown = frozenset(before.going), {run.run_id for run in runs}
    still = [run_id for run_id in before.going if run_id not in gone and run_id not in shown]
    # Also those that are not shown now, or not as over: a replica that lags behind shows them so.
    told = dict(before.told)
    ends: list[dict[str, Any]] = []
    rows = before.rows
    for run in runs:
        is_known = run.moment < before.since and run.run_id not in was_going
        if is_known or run.run_id in before.told:
            continue
        if not run.is_over:
            still.append(run.run_id)
            continue
        told[run.run_id] = run.moment
        if run.is_slice:
            rows += run.payload.get("rows_synced") or 0
        else:
            ends.append(run.payload | ({"rows_synced": (run.payload.get("rows_synced") or 0) + rows} if rows else {}))
            rows = 0
    since, told = _bounded(since, told)
    if len(still) > MOST_GOING:
        log.warning("More than %s runs are going: the oldest are not watched any more.", MOST_GOING)
        still = still[-MOST_GOING:]
    return ends if cursor else [], Cursor(since, still, told, rows)


def _settled(newest_first: Sequence[Seen], since: str) -> str:
    """Give the moment before which no run will appear any more."""
    # A run that is only due may be so in a far future.
    newest = next((run.moment for run in newest_first if run.has_begun), None)
    if newest is None:
        return since
    at = parse_timestamp(newest)
    if not isinstance(at, pendulum.DateTime):
        raise TypeError(f"{newest!r} is no moment")
    return max(since, format_timestamp(at.subtract(seconds=OVERLAP)))


def _bounded(since: str, told: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Forget what the moment says already; move it on where too many runs have ended after it."""
    moments = sorted(moment for moment in told.values() if moment >= since)
    if len(moments) > MOST_TOLD:
        since = moments[-MOST_TOLD]
    return since, {run_id: moment for run_id, moment in told.items() if moment >= since}
