"""Run overrides set by tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from datapipe_local.common.errors import BadRequestError
from datapipe_local.control.models import RunBehaviour
from datapipe_local.services.run_overrides import NORMAL, Outcome, RunOverrides

if TYPE_CHECKING:
    from datapipe_local.control.models import ForcedOutcome, ResourceRuns
    from datapipe_local.storage.records import Json
    from datapipe_local.storage.store import Store

Phase = Literal["scheduling", "running"]

#: Delay of a run that waits for polls: longer than any other delay, which also identifies the run.
SECONDS_HELD = 100 * 365 * 86_400.0
_SETTING = "control.runs"
#: Tables of the resources, and of their runs.
_RESOURCES = ("elt_streams", "transforms", "orchestrations", "reverse_etl_syncs")
_RUNS = {
    "elt_stream_runs": "elt_stream_id",
    "reverse_etl_sync_runs": "reverse_etl_sync_id",
    "orchestration_runs": "orchestration_id",
}


class StoredRunOverrides(RunOverrides):
    """
    Run overrides in the store, so that they survive a restart.

    :param store: The store.
    """

    visible = "id NOT IN (SELECT run_id FROM control_vanished)"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._database = store.database

    def seconds(self, name: str, subject_id: str) -> float | None:
        """Return a duration in seconds, of the resource or of all resources; None without an override."""
        behaviour: Json = self._store.setting(_SETTING, {})
        overrides: Json = behaviour.get("resources", {}).get(subject_id, {})
        phase: Phase = "scheduling" if name == "scheduling_delay" else "running"
        if polls := overrides.get(f"{phase}_polls"):
            return SECONDS_HELD if self._is_held(phase, subject_id, polls) else 0.0
        own = overrides.get(name)
        return behaviour.get(name) if own is None else own

    def polls(self, phase: Phase, subject_id: str) -> int:
        """Return the number of polls for which a run of a resource stays in a phase; 0 without an override."""
        behaviour: Json = self._store.setting(_SETTING, {})
        return int(behaviour.get("resources", {}).get(subject_id, {}).get(f"{phase}_polls") or 0)

    def count_poll(self, phase: Phase, run: str) -> int:
        """Count a poll of a run in a phase, and return the number of polls."""
        return int(
            self._database.value(
                "INSERT INTO control_polls (phase, run, seen) VALUES (?, ?, 1)"
                " ON CONFLICT DO UPDATE SET seen = seen + 1 RETURNING seen",
                phase,
                run,
            )
        )

    def _is_held(self, phase: Phase, subject_id: str, polls: int) -> bool:
        """Return True if a run waits for polls. Orchestration runs call this until they may end, others once."""
        if phase == "scheduling":
            return True
        seen = self._database.value(
            "SELECT coalesce((SELECT seen FROM control_polls WHERE phase = ? AND run = r.id), 0)"
            " FROM orchestration_runs r WHERE orchestration_id = ? AND finished_at IS NULL AND started_at IS NOT NULL",
            phase,
            subject_id,
        )
        return seen is None or seen <= polls

    def outcome(self, subject_id: str, run: str) -> Outcome:
        """Return the forced outcome of a run. Repeated calls return the same outcome, also after a restart."""
        find = "SELECT seq, error, is_slice FROM control_outcomes WHERE resource_id = ? AND taken_by"
        with self._store.transaction():
            row = self._database.row(f"{find} = ?", subject_id, run)
            if row is None:
                row = self._database.row(f"{find} IS NULL ORDER BY seq LIMIT 1", subject_id)
                if row is not None:
                    self._database.run("UPDATE control_outcomes SET taken_by = ? WHERE seq = ?", run, row["seq"])
        return NORMAL if row is None else Outcome(row["error"], is_slice=bool(row["is_slice"]))

    def replace(self, behaviour: RunBehaviour) -> None:
        """
        Replace all overrides. Runs that already have an outcome keep it.

        :raises BadRequestError: a resource does not exist, or chunks are set for a resource that is not a stream.
        """
        with self._store.transaction():
            self._database.run("DELETE FROM control_outcomes WHERE taken_by IS NULL")
            self._database.run("DELETE FROM control_vanished")
            for resource_id, wanted in behaviour.resources.items():
                self._add(resource_id, wanted)
            self._store.set(_SETTING, behaviour.model_dump(exclude_unset=True))

    def change(self, changes: RunBehaviour) -> None:
        """
        Replace all overrides of each given resource, and the given overrides for all resources; None removes one.

        :raises BadRequestError: as for :meth:`replace`.
        """
        with self._store.transaction():
            for resource_id, wanted in changes.resources.items():
                self._remove(resource_id)
                self._add(resource_id, wanted)
            known: Json = self._store.setting(_SETTING, {})
            given = changes.model_dump(exclude_unset=True)
            resources = {**known.get("resources", {}), **given.get("resources", {})}
            changed = {**known, **given, "resources": resources}
            self._store.set(_SETTING, {name: value for name, value in changed.items() if value is not None})

    def as_json(self) -> dict[str, Any]:
        """Return the overrides, and the number of remaining outcomes of each resource."""
        left = self._database.rows(
            "SELECT resource_id, count(*) AS n FROM control_outcomes WHERE taken_by IS NULL GROUP BY resource_id"
        )
        behaviour: Json = self._store.setting(_SETTING, {})
        return {**behaviour, "outcomes_left": {row["resource_id"]: row["n"] for row in left}}

    def _add(self, resource_id: str, wanted: ResourceRuns) -> None:
        """Add the outcomes of a resource, and hide its runs if they must vanish."""
        kinds = [kind for kind in _RESOURCES if getattr(self._store, kind).get(resource_id) is not None]
        if not kinds:
            raise BadRequestError(
                f"resources: {resource_id[:100]!r} is not the ID of a resource with runs: give the ID of a"
                " stream, a transform, an orchestration or a reverse ETL sync."
            )
        if any(outcome.chunks for outcome in wanted.outcomes) and kinds != ["elt_streams"]:
            raise BadRequestError(f"resources.{resource_id}: only ELT streams are loaded in chunks.")
        self._database.run_many(
            "INSERT INTO control_outcomes (resource_id, error, is_slice) VALUES (?, ?, ?)",
            [(resource_id, *row) for outcome in wanted.outcomes for row in _rows(outcome)],
        )
        if wanted.vanish:
            for table, owner in _RUNS.items():
                self._database.run(
                    f"INSERT OR IGNORE INTO control_vanished (run_id) SELECT id FROM {table} WHERE {owner} = ?",  # noqa: S608 - the names above
                    resource_id,
                )

    def _remove(self, resource_id: str) -> None:
        """Remove the remaining outcomes of a resource, and show its runs again."""
        self._database.run("DELETE FROM control_outcomes WHERE taken_by IS NULL AND resource_id = ?", resource_id)
        for table, owner in _RUNS.items():
            self._database.run(
                f"DELETE FROM control_vanished WHERE run_id IN (SELECT id FROM {table} WHERE {owner} = ?)",  # noqa: S608 - the names above
                resource_id,
            )


def _rows(outcome: ForcedOutcome) -> list[tuple[str | None, bool]]:
    """Return the outcomes of single runs: a load in slices has one run for each slice, and one for the rest."""
    slices: list[tuple[str | None, bool]] = [(None, True)] * (outcome.chunks or 0)
    return [*slices, (outcome.fail, False)] * outcome.times
