"""
Detects runs that finished after a cursor. Pure: no I/O, and no clock.

Lists are ordered by start or due date, and runs end in any order. So a cursor holds a moment, the IDs of unfinished
runs, and the IDs of the reported runs from the moment on. Only runs that have begun move the moment on: a due date can
be in the future.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pendulum

from airflow_provider_datapipe.api.models.common import format_timestamp, known_time, parse_timestamp

log = logging.getLogger(__name__)

#: Seconds before the newest run in which others may still appear in the list: it can lag, and be filled out of order.
OVERLAP = 300.0
#: The same for lists by due date: a run can begin long after it was due.
LATE_START = 86_400.0
#: The most runs that the longer overlap keeps.
MOST_LATE = 80
#: The most ends that are noted by their runs; with more of them the moment moves on.
MOST_TOLD = 400
#: The most reported runs whose due date is ahead; further ones are reported later.
MOST_AHEAD = 200
#: The most runs that are noted as going; of more, the oldest are given up.
MOST_GOING = 200
#: Seconds by which the clocks of the service and of this machine may differ, where only ours is known.
CLOCK_SKEW = 7200.0
#: Seconds after which a run that the service does not know is given up. A replica can lag behind.
GIVE_UP_AFTER = 600.0


class Seen(NamedTuple):
    """
    A run as a list shows it.

    :param run_id: its id.
    :param moment: by what the list is ordered, as text that sorts; empty where the service gives no time.
    :param started: when it began; empty if it has not, or if that is not known.
    :param is_over: whether it has ended.
    :param is_slice: whether it has ended, and the load goes on in the run after it.
    :param payload: what is told of its end.
    :param is_listed: False for a run that was requested by its ID.
    """

    run_id: str
    moment: str
    started: str
    is_over: bool
    is_slice: bool
    payload: dict[str, Any]
    is_listed: bool = True

    @property
    def key(self) -> str:
        """Key of the run apart from its ID: its moment, and what ran."""
        return f"{self.moment} {self.payload.get('resource_id', '')}"


@dataclass(frozen=True, slots=True)
class Cursor:
    """
    Up to where the ends of runs were told; it fits into JSON.

    :param since: all runs before this moment are known: told, or going.
    :param going: runs that had not ended, each with its key (:attr:`Seen.key`).
    :param told: reported runs from the moment on, each with its key.
    :param missing: unfinished runs that the service does not know just now, and since when (seconds since the epoch).
    :param rows: rows of the slices of a load that goes on.
    """

    since: str = ""
    going: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)
    rows: float = 0

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Any) -> Cursor | None:
        """Read it; None if this is no cursor."""
        try:
            cursor = cls(**stored)
        except TypeError:
            return None
        maps = (cursor.going, cursor.told, cursor.missing)
        return cursor if all(isinstance(each, dict) for each in maps) else None

    def needs_more(self, page: Sequence[Seen]) -> bool:
        """
        Tell whether older runs have to be seen.

        :param page: the runs of the last page.
        """
        return not reaches(page, self.since)

    def absent(self, runs: Sequence[Seen], now: float) -> dict[str, str]:
        """
        Return the unfinished runs that a list does not show, each with its moment.

        :param runs: the runs of the list, as far back as it was read.
        :param now: seconds since the epoch.
        """
        shown = {run.run_id for run in runs} | set(renamed(self, runs).values())
        clock = _clock(runs, now)
        # A planned run that disappears from the list is found again by its due date.
        return {
            run_id: moment
            for run_id, key in self.going.items()
            if run_id not in shown and (moment := _moment_of(key)) <= clock
        }


def reaches(page: Sequence[Seen], moment: str) -> bool:
    """Return True if a page reaches back to before a moment."""
    return any(run.moment and run.moment < moment for run in page)


def needs_more_at_first(seen: Sequence[Seen], page: Sequence[Seen], now: float, overlap: float = OVERLAP) -> bool:
    """
    Tell whether older runs have to be seen to begin now: as long as there may be some that are still going.

    :param seen: all runs that were seen so far.
    :param page: those of the last page.
    :param now: seconds since the epoch.
    :param overlap: see :func:`take`.
    """
    return any(not run.is_over for run in page) or not reaches(page, _settled(seen, "", now, overlap))


def renamed(cursor: Cursor, runs: Iterable[Seen]) -> dict[str, str]:
    """
    Match runs to the IDs of a cursor after the service has changed the format of its IDs.

    The IDs have changed if the list shows none of the noted ones, but shows runs with the same times.

    :param cursor: the cursor with the earlier IDs.
    :param runs: the runs of the list.
    :return: the earlier ID of each run that was found, by its new ID.
    """
    listed = {run.run_id: run for run in runs if run.is_listed}
    noted = cursor.told.keys() | cursor.going.keys()
    if not noted or not noted.isdisjoint(listed):
        return {}
    found: dict[str, str] = {}
    # Runs of one orchestration can have equal times: those that ended first are the reported ones.
    by_end = sorted(listed.values(), key=lambda run: (not run.is_over, run.payload.get("finished_at") or ""))
    over = [run for run in by_end if run.is_over]
    for ids, candidates in ((cursor.told, over), (cursor.going, by_end[::-1]), (cursor.told, by_end)):
        earlier: dict[str, list[str]] = {}
        for run_id, key in ids.items():
            if run_id not in found.values():
                earlier.setdefault(key, []).append(run_id)
        for run in candidates:
            if run.moment and run.run_id not in found and earlier.get(run.key):
                found[run.run_id] = earlier[run.key].pop(0)
    return found


def take(
    cursor: Cursor | None,
    seen: Iterable[Seen],
    *,
    now: float,
    unknown: frozenset[str] = frozenset(),
    overlap: float = OVERLAP,
) -> tuple[list[dict[str, Any]], Cursor]:
    """
    Tell which runs have ended since the cursor.

    :param cursor: up to where was told; None to begin now, telling nothing of what is over.
    :param seen: all runs from the cursor's moment on, and those noted as going, in any order.
    :param now: seconds since the epoch.
    :param unknown: IDs that the service did not know when it was asked for these runs.
    :param overlap: seconds before the newest run in which others may still appear in the list.
    """
    before = cursor or Cursor()
    runs = sorted(seen, key=lambda run: (run.moment, run.run_id))
    clock = _clock(runs, now)
    since = _settled(runs, before.since, now, overlap)
    following = {old: new for new, old in renamed(before, runs).items()}
    # Also those that are not shown now, or not as over: a replica that lags behind shows them so.
    told = {following.get(run_id, run_id): key for run_id, key in before.told.items()}
    was_going = {following.get(run_id, run_id): key for run_id, key in before.going.items()}
    shown = {run.run_id for run in runs}
    still = {run_id: key for run_id, key in was_going.items() if run_id not in shown}
    ahead = sum(_moment_of(key) > clock for key in told.values())
    ends: list[dict[str, Any]] = []
    rows = before.rows
    for run in runs:
        is_known = run.moment < before.since and run.run_id not in was_going
        if is_known or run.run_id in told:
            continue
        is_ahead = run.moment > clock
        if not run.is_over or (cursor and is_ahead and ahead >= MOST_AHEAD):
            still[run.run_id] = run.key
            continue
        ahead += is_ahead
        told[run.run_id] = run.key
        still.pop(run.run_id, None)
        if run.is_slice:
            rows += run.payload.get("rows_synced") or 0
        else:
            ends.append(run.payload | ({"rows_synced": (run.payload.get("rows_synced") or 0) + rows} if rows else {}))
            rows = 0
    since, told = _bounded(since, told, clock)
    missing = {run_id: before.missing.get(run_id, now) for run_id in still if run_id in unknown}
    for run_id in [run_id for run_id, began in missing.items() if now - began >= GIVE_UP_AFTER]:
        log.warning("The service has not known run %s for %.0f s: its end is not reported.", run_id, GIVE_UP_AFTER)
        del missing[run_id], still[run_id]
    return ends if cursor else [], Cursor(since, _watchable(still, since, clock), told, missing, rows)


def timestamp_at(seconds: float) -> str:
    """Return a time in seconds since the epoch as text that sorts."""
    return format_timestamp(pendulum.from_timestamp(seconds))


def _moment_of(key: str) -> str:
    return key.partition(" ")[0]


def _clock(runs: Iterable[Seen], now: float) -> str:
    """Return the latest time that is known to have come: later due dates are ahead."""
    return max([timestamp_at(now), *(run.started for run in runs)])


def _settled(runs: Sequence[Seen], since: str, now: float, overlap: float) -> str:
    """Give the moment before which no run will appear any more."""
    newest = max((run.started for run in runs), default="")
    if not newest:
        # An empty list may be that of a replica that lags behind: runs from long before are not new.
        return since or timestamp_at(now - CLOCK_SKEW)
    # The earlier clock of the two: a start in the future must not hide later runs.
    newest = min(newest, timestamp_at(now))
    latest = _earlier(newest, OVERLAP)
    if overlap > OVERLAP:
        kept = sorted(run.moment for run in runs if run.moment and run.moment <= latest)[-MOST_LATE:]
        latest = min(latest, max([_earlier(newest, overlap), *(kept[:1] if len(kept) == MOST_LATE else [])]))
    return max(since, latest)


def _earlier(moment: str, seconds: float) -> str:
    at = parse_timestamp(moment)
    if not isinstance(at, pendulum.DateTime):
        raise TypeError(f"{moment!r} is no moment")
    if known_time(at) is None:
        return moment
    return format_timestamp(at.subtract(seconds=seconds))


def _bounded(since: str, told: dict[str, str], clock: str) -> tuple[str, dict[str, str]]:
    """Forget what the moment says already; move it on where too many runs have ended after it."""
    moments = sorted(moment for key in told.values() if since <= (moment := _moment_of(key)) <= clock)
    if len(moments) > MOST_TOLD:
        since = moments[-MOST_TOLD]
    return since, {run_id: key for run_id, key in told.items() if _moment_of(key) >= since}


def _watchable(going: dict[str, str], since: str, clock: str) -> dict[str, str]:
    """Leave out the oldest runs where there are too many, and the planned runs that are due last."""
    ordered = sorted(going.items(), key=lambda item: (item[1], item[0]))
    begun = [item for item in ordered if _moment_of(item[1]) <= clock]
    planned = ordered[len(begun) :]
    if any(_moment_of(key) < since for _, key in begun[:-MOST_GOING]):
        log.warning("More than %s runs are going: the oldest are not watched any more.", MOST_GOING)
    begun = begun[-MOST_GOING:]
    return dict(begun + planned[: MOST_GOING - len(begun)])
