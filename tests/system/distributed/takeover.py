"""Takeover: seconds until another triggerer continues the waits of a triggerer that was killed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.processes import wait_for
from tests.system.distributed.chaos import Stage
from tests.system.distributed.deferred import LIMIT, add_resources, defer, faults, rows_of, wait_for_ends
from tests.system.distributed.deployment import TRIGGERERS

#: Fixed poll interval of the tasks, in seconds.
POLL_INTERVAL = 2.0
#: Seconds between two reads of the assignment of triggers.
_PRECISION = 0.2
_ASSIGNED = """
    SELECT task_instance.task_id, trigger.triggerer_id FROM task_instance
    JOIN trigger ON trigger.id = task_instance.trigger_id
"""


@dataclass(frozen=True)
class TakeoverResult:
    """
    Waits of a triggerer that was killed. All runs ended with the kill. Times are seconds.

    :param tasks: the number of deferred tasks.
    :param detection: for each wait of the killed triggerer, seconds from the kill to the assignment to another one.
    :param to_event: for each of these, time from the assignment to the trigger event.
    :param faults: wrong outcomes and duplicate runs.
    """

    tasks: int
    detection: Sequence[float]
    to_event: Sequence[float]
    faults: Sequence[str]


def play(stage: Stage, count: int) -> TakeoverResult:
    """
    Defer tasks, then kill a triggerer and end all runs at the same moment.

    :param count: the number of tasks.
    """
    names = list(add_resources(stage, "takeover", count))
    runs = defer(stage, names, poll_interval=POLL_INTERVAL)
    before = _triggerers(stage)
    victim = TRIGGERERS[0]
    stage.report(f"SIGKILL {victim}")
    stage.deployment.kill(victim)
    killed = time.time()
    stage.service.change_ends(dict.fromkeys(names, killed))
    assigned: dict[str, float] = {}

    def all_continued() -> bool:
        now = _triggerers(stage)
        seen = time.time()
        assigned.update({name: seen for name in now.keys() - assigned.keys() if now[name] not in (None, before[name])})
        return not now

    wait_for("all waits are over", all_continued, limit=LIMIT, interval=_PRECISION)
    wait_for_ends(stage, runs, limit=0.0)
    rows = rows_of(stage, runs)
    events = {row.task_id: row.scheduled_at.timestamp() for row in rows if row.scheduled_at is not None}
    return TakeoverResult(
        tasks=count,
        detection=[moment - killed for moment in assigned.values()],
        # An assignment is seen up to the precision later than it was made.
        to_event=[max(0.0, events[name] - moment) for name, moment in assigned.items()],
        faults=list(faults(stage, rows)),
    )


def _triggerers(stage: Stage) -> dict[str, int | None]:
    """Return the triggerer of each task that waits, None for none."""
    return dict(stage.metadata.select(_ASSIGNED))
