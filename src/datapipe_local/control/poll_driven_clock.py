"""Runs that advance with status polls instead of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.control.run_overrides import SECONDS_HELD
from datapipe_local.storage.clock import later

if TYPE_CHECKING:
    from datapipe_local.control.run_overrides import Phase, StoredRunOverrides
    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp

# The first poll after the last awaited one shows the advanced run. A run that does not advance blocks no client.
_SECONDS_TO_ADVANCE = 10.0
_SECONDS_BETWEEN_POLLS = 0.005
_OWNERS = {"jobs": "subject_id", "orchestration_runs": "orchestration_id"}
_RELEASE = {
    "jobs": "UPDATE jobs SET due_at = ? WHERE due_at > ?",
    "orchestration_runs": "UPDATE orchestration_runs SET due_at = ? WHERE started_at IS NULL AND due_at > ?",
}


class _WaitingRun(NamedTuple):
    """Run that waits for polls."""

    table: str
    seq: int
    phase: Phase
    #: Unique key of the run.
    run: str


class PollDrivenClock:
    """
    Counter of the polls of resources; releases their runs.

    :param context: The service.
    :param run_overrides: The run overrides, which set the number of polls.
    """

    def __init__(self, context: Context, run_overrides: StoredRunOverrides) -> None:
        self._context = context
        self._database = context.store.database
        self._run_overrides = run_overrides

    def poll(self, resource_id: str) -> None:
        """Count a poll of a resource before the response. The poll that releases a run waits until the run advances."""
        wanted: dict[Phase, int] = {
            "scheduling": self._run_overrides.polls("scheduling", resource_id),
            "running": self._run_overrides.polls("running", resource_id),
        }
        if not any(wanted.values()):
            return
        with self._context.store.transaction():
            released = [
                waiting
                for waiting in self._waiting_runs(resource_id)
                if wanted[waiting.phase]
                and self._run_overrides.count_poll(waiting.phase, waiting.run) == wanted[waiting.phase] + 1
            ]
            before = [self._state(waiting) for waiting in released]
            for waiting in released:
                # A running orchestration needs no release: the overrides let it end.
                self._database.run(f"{_RELEASE[waiting.table]} AND seq = ?", *self._now_and_far(), waiting.seq)
        if not released:
            return
        self._context.wake.set()
        deadline = time.monotonic() + _SECONDS_TO_ADVANCE
        while time.monotonic() < deadline:
            if all(self._state(waiting) != state for waiting, state in zip(released, before, strict=True)):
                return
            # Blocks only the thread of this request.
            time.sleep(_SECONDS_BETWEEN_POLLS)

    def release_all(self) -> None:
        """Release all runs that wait for polls."""
        with self._context.store.transaction():
            for statement in _RELEASE.values():
                self._database.run(statement, *self._now_and_far())
        self._context.wake.set()

    def release(self, resource_id: str) -> None:
        """Release the runs of a resource that wait for polls."""
        with self._context.store.transaction():
            for table, statement in _RELEASE.items():
                self._database.run(f"{statement} AND {_OWNERS[table]} = ?", *self._now_and_far(), resource_id)
        self._context.wake.set()

    def _waiting_runs(self, resource_id: str) -> list[_WaitingRun]:
        _, far = self._now_and_far()
        jobs = self._database.rows("SELECT * FROM jobs WHERE subject_id = ? AND due_at > ?", resource_id, far)
        waiting = [
            _WaitingRun(
                "jobs", job["seq"], "running" if job["begun"] else "scheduling", f"{job['seq']} {job['run_id']}"
            )
            for job in jobs
        ]
        run = self._database.row(
            "SELECT * FROM orchestration_runs WHERE orchestration_id = ? AND finished_at IS NULL"
            " ORDER BY started_at IS NULL, due_at, seq LIMIT 1",
            resource_id,
        )
        if run is not None and (run["started_at"] or run["due_at"] > far):
            phase: Phase = "running" if run["started_at"] else "scheduling"
            waiting.append(_WaitingRun("orchestration_runs", run["seq"], phase, run["id"]))
        return waiting

    def _state(self, waiting: _WaitingRun) -> tuple[object, ...] | None:
        columns = "begun, run_id" if waiting.table == "jobs" else "started_at, finished_at"
        row = self._database.row(f"SELECT {columns} FROM {waiting.table} WHERE seq = ?", waiting.seq)  # noqa: S608 - as above
        return None if row is None else tuple(row)

    def _now_and_far(self) -> tuple[Timestamp, Timestamp]:
        now = self._context.clock.now()
        return now, later(now, SECONDS_HELD / 2)
