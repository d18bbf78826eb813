"""
Detection of runs that finished after a cursor. Pure: no I/O, and no clock.

Lists are ordered by start or due date, and runs end in any order. So a cursor holds a time, the IDs of unfinished runs,
and the IDs of the reported runs since this time. Only started runs advance the time, because a due date can be in the
future.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pendulum

from airflow_provider_datapipe.api.models.common import format_timestamp, parse_optional_timestamp

log = logging.getLogger(__name__)

#: Seconds before the newest run in which other runs may still appear in the list: it can lag, and be out of order.
OVERLAP = 300.0
#: The same for lists by due date: a run can begin long after it was due.
LATE_START = 86_400.0
#: The most runs that the longer overlap keeps.
MOST_LATE = 80
#: The most reported runs in a cursor. If there are more, the time of the cursor advances.
MOST_REPORTED = 400
#: The most reported runs with a due date in the future. Further runs are reported later.
MOST_AHEAD = 200
#: The most unfinished runs in a cursor. If there are more, the oldest ones are dropped.
MOST_GOING = 200
#: Seconds by which the clocks of the service and of this machine may differ, if only the latter is known.
CLOCK_SKEW = 7200.0
#: Seconds after which a run is dropped that the service does not know. A replica can lag behind.
GIVE_UP_AFTER = 600.0


class SeenRun(NamedTuple):
    """
    A run of a list.

    :param run_id: ID of the run.
    :param moment: time by which the list is ordered, as sortable text; empty if the service reports no time.
    :param started: start time; empty if it has not started, or if the time is not known.
    :param is_over: True if the run has ended.
    :param is_slice: True if the run has ended, and its load continues in the next run.
    :param payload: payload of the event for the end of the run.
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
        """Key of the run that does not contain its ID: its time, and the ID of the resource."""
        return f"{self.moment} {self.payload.get('resource_id', '')}"


@dataclass(frozen=True, slots=True)
class EventCursor:
    """
    Position up to which the ends of runs were reported. It can be serialized to JSON.

    :param since: time before which all runs are known: they were reported, or are listed in ``going``.
    :param going: unfinished runs, each with its key (:attr:`SeenRun.key`).
    :param reported: reported runs since the time, each with its key.
    :param missing: unfinished runs that the service does not know now, each with the time of the first such answer, in
        seconds since the epoch.
    :param rows: number of rows in the finished slices of an unfinished load.
    :param earlier: IDs of the cursor in a format that the service no longer uses, whose runs were not listed since.
    :param is_unread: True if no list was read since the time, so that ``going`` is not known yet.
    """

    since: str = ""
    going: dict[str, str] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)
    rows: float = 0
    earlier: list[str] = field(default_factory=list)
    is_unread: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Any) -> EventCursor | None:
        """Return the cursor that :meth:`as_dict` serialized, None if the value is not a cursor."""
        try:
            cursor = cls(**stored)
        except TypeError:
            return None
        maps = (cursor.going, cursor.reported, cursor.missing)
        is_valid = all(isinstance(each, dict) for each in maps) and isinstance(cursor.earlier, list)
        return cursor if is_valid else None

    @property
    def noted(self) -> frozenset[str]:
        """IDs of the reported and the unfinished runs."""
        return frozenset(self.reported) | frozenset(self.going)

    def absent(self, runs: Sequence[SeenRun], now: float) -> dict[str, str]:
        """
        Return the unfinished runs that a list does not show, each with its time.

        :param runs: the runs of the list, as far back as it was read.
        :param now: current time in seconds since the epoch.
        """
        shown = {run.run_id for run in runs} | set(renamed(self, runs).values())
        clock = _clock(runs, now)
        # A planned run that disappears from the list is searched when its due date has passed.
        return {
            run_id: moment
            for run_id, key in self.going.items()
            if run_id not in shown and (moment := _moment_of(key)) <= clock
        }


def reaches(page: Sequence[SeenRun], moment: str) -> bool:
    """Return True if a page contains a run before a time."""
    return any(run.moment and run.moment < moment for run in page)


def needs_more_at_first(seen: Sequence[SeenRun], page: Sequence[SeenRun], now: float, overlap: float = OVERLAP) -> bool:
    """
    Return True if older runs have to be read for a first cursor, because some of them may be active.

    The whole overlap is read, because an active run can be older than many finished runs.

    :param seen: all runs so far.
    :param page: the runs of the last page.
    :param now: current time in seconds since the epoch.
    :param overlap: see :func:`take`.
    """
    newest = _newest_start(seen, now)
    begin = _earlier(newest, overlap) if newest else timestamp_at(now - CLOCK_SKEW)
    return any(not run.is_over for run in page) or not reaches(page, begin)


def is_new_id_format(cursor: EventCursor, listed: Collection[str]) -> bool:
    """
    Return True if the service has changed the format of its IDs: a list shows none of the cursor's IDs.

    :param cursor: the cursor with the earlier IDs.
    :param listed: the IDs of the list.
    """
    return cursor.noted.difference(cursor.earlier).isdisjoint(listed)


def renamed(cursor: EventCursor, runs: Iterable[SeenRun]) -> dict[str, str]:
    """
    Match runs to the IDs of a cursor after the service has changed the format of its IDs, by their times.

    A list that lags behind may not show all of the runs after the change. They are matched when a list shows them.

    :param cursor: the cursor with the earlier IDs.
    :param runs: the runs of the list.
    :return: the earlier ID of each run that was found, by its new ID.
    """
    listed = {run.run_id: run for run in runs if run.is_listed}
    unmatched = cursor.noted if is_new_id_format(cursor, listed) else frozenset(cursor.earlier)
    unmatched = unmatched.difference(listed)
    if not unmatched:
        return {}
    found: dict[str, str] = {}
    # Runs of one orchestration can have equal times. Then the runs that ended first are the reported ones.
    by_end = sorted(
        (run for run in listed.values() if run.run_id not in cursor.noted),
        key=lambda run: (not run.is_over, run.payload.get("finished_at") or ""),
    )
    over = [run for run in by_end if run.is_over]
    for ids, candidates in ((cursor.reported, over), (cursor.going, by_end[::-1]), (cursor.reported, by_end)):
        earlier: dict[str, list[str]] = {}
        for run_id, key in ids.items():
            if run_id in unmatched and run_id not in found.values():
                earlier.setdefault(key, []).append(run_id)
        for run in candidates:
            if run.moment and run.run_id not in found and earlier.get(run.key):
                found[run.run_id] = earlier[run.key].pop(0)
    return found


def take(
    cursor: EventCursor | None,
    seen: Iterable[SeenRun],
    *,
    now: float,
    unknown: frozenset[str] = frozenset(),
    overlap: float = OVERLAP,
) -> tuple[list[dict[str, Any]], EventCursor]:
    """
    Return the event payloads of the runs that have ended since the cursor, and the next cursor.

    :param cursor: the cursor; None to begin now, without events for finished runs.
    :param seen: all runs since the time of the cursor, and its unfinished runs, in any order.
    :param now: current time in seconds since the epoch.
    :param unknown: IDs of the requested runs that the service does not know.
    :param overlap: seconds before the newest run in which other runs may still appear in the list.
    """
    runs = sorted(seen, key=lambda run: (run.moment, run.run_id))
    before = cursor or EventCursor()
    if before.is_unread:
        before = EventCursor(before.since, _going_at(before.since, runs))
    clock = _clock(runs, now)
    since = _settled(runs, before.since, now, overlap)
    listed = {run.run_id for run in runs if run.is_listed}
    following = {old: new for new, old in renamed(before, runs).items()}
    is_changed = bool(following) and is_new_id_format(before, listed)
    earlier = (before.noted if is_changed else frozenset(before.earlier)) - listed - following.keys()
    # Keep reported runs that are absent or unfinished in this list, which a lagging replica can return.
    reported = {following.get(run_id, run_id): key for run_id, key in before.reported.items()}
    was_going = {following.get(run_id, run_id): key for run_id, key in before.going.items()}
    shown = {run.run_id for run in runs}
    still = {run_id: key for run_id, key in was_going.items() if run_id not in shown}
    ahead = sum(_moment_of(key) > clock for key in reported.values())
    ends: list[dict[str, Any]] = []
    rows = before.rows
    for run in runs:
        is_known = run.moment < before.since and run.run_id not in was_going
        if is_known or run.run_id in reported:
            continue
        is_ahead = run.moment > clock
        if not run.is_over or (cursor and is_ahead and ahead >= MOST_AHEAD):
            still[run.run_id] = run.key
            continue
        ahead += is_ahead
        reported[run.run_id] = run.key
        still.pop(run.run_id, None)
        if run.is_slice:
            rows += run.payload.get("rows_synced") or 0
        else:
            ends.append(run.payload | ({"rows_synced": (run.payload.get("rows_synced") or 0) + rows} if rows else {}))
            rows = 0
    since, reported = _bounded(since, reported, clock)
    missing = {run_id: before.missing.get(run_id, now) for run_id in still if run_id in unknown}
    for run_id in [run_id for run_id, began in missing.items() if now - began >= GIVE_UP_AFTER]:
        log.warning("The service has not known run %s for %.0f s: its end is not reported.", run_id, GIVE_UP_AFTER)
        del missing[run_id], still[run_id]
    going = _watchable(still, since, clock)
    kept = sorted(earlier & (reported.keys() | going.keys()))
    return ends if cursor else [], EventCursor(since, going, reported, missing, rows, kept)


def _going_at(moment: str, runs: Iterable[SeenRun]) -> dict[str, str]:
    """Return the runs that had started before a time, and had not ended then."""
    return {
        run.run_id: run.key
        for run in runs
        if run.moment < moment and not (run.is_over and (run.payload.get("finished_at") or moment) <= moment)
    }


def timestamp_at(seconds: float) -> str:
    """Return a time in seconds since the epoch as sortable text."""
    return format_timestamp(pendulum.from_timestamp(seconds))


def _moment_of(key: str) -> str:
    return key.partition(" ")[0]


def _clock(runs: Iterable[SeenRun], now: float) -> str:
    """Return the later one of the current time and the last start of a run. Later due dates are in the future."""
    return max([timestamp_at(now), *(run.started for run in runs)])


def _settled(runs: Sequence[SeenRun], since: str, now: float, overlap: float) -> str:
    """Return the time before which no further runs can appear."""
    newest = _newest_start(runs, now)
    if not newest:
        # A lagging replica can return an empty list. Old runs that it shows later are not new.
        return since or timestamp_at(now - CLOCK_SKEW)
    latest = _earlier(newest, OVERLAP)
    if overlap > OVERLAP:
        kept = sorted(run.moment for run in runs if run.moment and run.moment <= latest)[-MOST_LATE:]
        latest = min(latest, max([_earlier(newest, overlap), *(kept[:1] if len(kept) == MOST_LATE else [])]))
    return max(since, latest)


def _newest_start(runs: Iterable[SeenRun], now: float) -> str:
    """Return the last start of a run, empty if none has started. A start in the future must not hide later runs."""
    return min(max((run.started for run in runs), default=""), timestamp_at(now))


def _earlier(moment: str, seconds: float) -> str:
    at = parse_optional_timestamp(moment)
    return moment if at is None else format_timestamp(at.subtract(seconds=seconds))


def _bounded(since: str, reported: dict[str, str], clock: str) -> tuple[str, dict[str, str]]:
    """Drop reported runs before the time of the cursor, and advance this time if there are too many reported runs."""
    moments = sorted(moment for key in reported.values() if since <= (moment := _moment_of(key)) <= clock)
    if len(moments) > MOST_REPORTED:
        since = moments[-MOST_REPORTED]
    return since, {run_id: key for run_id, key in reported.items() if _moment_of(key) >= since}


def _watchable(going: dict[str, str], since: str, clock: str) -> dict[str, str]:
    """Limit the number of unfinished runs: drop the oldest started runs, and the planned runs that are due last."""
    ordered = sorted(going.items(), key=lambda item: (item[1], item[0]))
    begun = [item for item in ordered if _moment_of(item[1]) <= clock]
    planned = ordered[len(begun) :]
    if any(_moment_of(key) < since for _, key in begun[:-MOST_GOING]):
        log.warning("More than %s runs are active: the oldest ones are no longer polled.", MOST_GOING)
    begun = begun[-MOST_GOING:]
    return dict(begun + planned[: MOST_GOING - len(begun)])
