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
_SECONDS_TO_GO_ON = 10.0
_SECONDS_BETWEEN_POLLS = 0.005
_LET_GO = {
    "jobs": "UPDATE jobs SET due_at = ? WHERE due_at > ?",
    "orchestration_runs": "UPDATE orchestration_runs SET due_at = ? WHERE started_at IS NULL AND due_at > ?",
}


class _Held(NamedTuple):
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
        self._script = run_overrides

    def poll(self, resource_id: str) -> None:
        """Count a poll of a resource before the response. The poll that releases a run waits until the run advances."""
        wanted: dict[Phase, int] = {
            "scheduling": self._script.polls("scheduling", resource_id),
            "running": self._script.polls("running", resource_id),
        }
        if not any(wanted.values()):
            return
        with self._context.store.transaction():
            let_go = [
                held
                for held in self._held(resource_id)
                if wanted[held.phase] and self._script.see(held.phase, held.run) == wanted[held.phase] + 1
            ]
            before = [self._state(held) for held in let_go]
            for held in let_go:
                # A running orchestration needs no release: the overrides let it end.
                self._database.run(f"{_LET_GO[held.table]} AND seq = ?", *self._now_and_far(), held.seq)
        if not let_go:
            return
        self._context.wake.set()
        deadline = time.monotonic() + _SECONDS_TO_GO_ON
        while time.monotonic() < deadline:
            if all(self._state(held) != state for held, state in zip(let_go, before, strict=True)):
                return
            # Blocks only the thread of this request.
            time.sleep(_SECONDS_BETWEEN_POLLS)

    def let_all_go(self) -> None:
        """Release all runs that wait for polls."""
        with self._context.store.transaction():
            for let_go in _LET_GO.values():
                self._database.run(let_go, *self._now_and_far())
        self._context.wake.set()

    def _held(self, resource_id: str) -> list[_Held]:
        _, far = self._now_and_far()
        jobs = self._database.rows("SELECT * FROM jobs WHERE subject_id = ? AND due_at > ?", resource_id, far)
        held = [
            _Held("jobs", job["seq"], "running" if job["begun"] else "scheduling", f"{job['seq']} {job['run_id']}")
            for job in jobs
        ]
        run = self._database.row(
            "SELECT * FROM orchestration_runs WHERE orchestration_id = ? AND finished_at IS NULL"
            " ORDER BY started_at IS NULL, due_at, seq LIMIT 1",
            resource_id,
        )
        if run is not None and (run["started_at"] or run["due_at"] > far):
            phase: Phase = "running" if run["started_at"] else "scheduling"
            held.append(_Held("orchestration_runs", run["seq"], phase, run["id"]))
        return held

    def _state(self, held: _Held) -> tuple[object, ...] | None:
        columns = "begun, run_id" if held.table == "jobs" else "started_at, finished_at"
        row = self._database.row(f"SELECT {columns} FROM {held.table} WHERE seq = ?", held.seq)  # noqa: S608 - as above
        return None if row is None else tuple(row)

    def _now_and_far(self) -> tuple[Timestamp, Timestamp]:
        now = self._context.clock.now()
        return now, later(now, SECONDS_HELD / 2)
