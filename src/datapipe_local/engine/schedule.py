"""Scheduler: starts runs at their scheduled times."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from datapipe_local.services import schedules
from datapipe_local.services.schedules import Scheduled
from datapipe_local.storage.clock import as_datetime, as_timestamp, later

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp

log = logging.getLogger(__name__)

#: Setting of the seed: start scheduled runs.
SETTING = "schedules"
#: Cron has a resolution of minutes: a run that is at most this late still starts, also after a restart. Earlier ones
#: are skipped.
_SECONDS_OF_GRACE = 60.0
# Some expressions never match, such as one for the 30th of February.
_NEVER = "9999-12-31T23:59:59.999Z"


class Schedule:
    """
    Next run time of each schedule, kept in the store.

    Therefore a service that restarts within a minute misses no run.

    :param context: The service. Every change of a schedule wakes its engine.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_outdated = True
        self._last_poll: Timestamp = _NEVER
        schedules.watch(context.store.database, self._note_change)

    def fire(self) -> Timestamp | None:
        """
        Start due runs.

        Only the engine's dispatcher calls this. It is cheap if nothing is due.

        :return: The time of the next run; None if there is none.
        """
        store, now = self._context.store, self._context.clock.now()
        # Times that were computed while the clock was ahead may be far too late.
        if now < self._last_poll:
            self._is_outdated = True
        if not store.setting(SETTING, default=True):
            return None
        next_due = self._next_due()
        if not self._is_outdated and (next_due is None or next_due > now):
            self._last_poll = now
            return next_due
        try:
            with store.transaction():
                if self._is_outdated:
                    # The transaction excludes other writers. Their next change is seen at the next call.
                    self._is_outdated = False
                    self._renew(now, all_of_it=now < self._last_poll)
                self._fire_due(now)
        except BaseException:
            self._is_outdated = True
            raise
        self._last_poll = now
        return self._next_due()

    def _note_change(self) -> None:
        self._is_outdated = True
        self._context.wake.set()

    def _next_due(self) -> Timestamp | None:
        due_at: Timestamp | None = self._context.store.database.value("SELECT min(due_at) FROM schedules")
        return due_at

    def _renew(self, now: Timestamp, *, all_of_it: bool) -> None:
        database = self._context.store.database
        if all_of_it:
            database.run("DELETE FROM schedules WHERE due_at > ?", now)
        database.run(
            "DELETE FROM schedules WHERE (kind, subject_id, cron_expression) NOT IN"  # noqa: S608 - fixed names of columns and tables
            f" (SELECT kind, subject_id, cron_expression FROM ({schedules.EFFECTIVE}))"
        )
        new = database.rows(
            "SELECT e.kind, e.subject_id, e.cron_expression"  # noqa: S608 - as above
            f" FROM ({schedules.EFFECTIVE}) e LEFT JOIN schedules s USING (kind, subject_id)"
            " WHERE s.due_at IS NULL"
        )
        following = _Following(now)
        database.run_many(
            "INSERT INTO schedules (kind, subject_id, cron_expression, due_at) VALUES (?, ?, ?, ?)",
            [(*row, following.of(row["cron_expression"])) for row in new],
        )

    def _fire_due(self, now: Timestamp) -> None:
        database, following = self._context.store.database, _Following(now)
        missed_before = later(now, -_SECONDS_OF_GRACE)
        recent = _Following(missed_before)
        for row in database.rows("SELECT * FROM schedules WHERE due_at <= ? ORDER BY due_at, kind, subject_id", now):
            scheduled = Scheduled(row["kind"], row["subject_id"], row["cron_expression"])
            database.run(
                "UPDATE schedules SET due_at = ? WHERE kind = ? AND subject_id = ?",
                following.of(scheduled.cron_expression),
                scheduled.kind,
                scheduled.subject_id,
            )
            due_at = row["due_at"]
            if due_at < missed_before:
                log.info("Missed: %s of %s at %s", scheduled.kind, scheduled.subject_id, due_at)
                due_at = recent.of(scheduled.cron_expression)
                if due_at > now:
                    continue
            obstacle = schedules.start(self._context, scheduled, due_at)
            if obstacle is not None:
                log.info("Skipped: %s of %s: %s", scheduled.kind, scheduled.subject_id, obstacle)


class _Following:
    """
    Next times of cron expressions after a time, each computed once: many schedules share one.

    :param now: The time.
    """

    def __init__(self, now: Timestamp) -> None:
        self._now = now
        self._known: dict[str, Timestamp] = {}

    def of(self, expression: str) -> Timestamp:
        """Return the next time of an expression, in UTC."""
        if expression not in self._known:
            self._known[expression] = next_time(expression, self._now)
        return self._known[expression]


def next_time(expression: str, after: Timestamp) -> Timestamp:
    """
    Return the next time of a cron expression.

    :param expression: Five fields, in UTC.
    :param after: The result is later than this time.
    """
    # Imported on first use, as in the check of expressions.
    from croniter import CroniterBadDateError, croniter

    try:
        return as_timestamp(croniter(expression, as_datetime(after)).get_next(datetime))
    except CroniterBadDateError:
        return _NEVER
