"""JSON of resources and runs, as the interface description declares it."""

from __future__ import annotations

from typing import Any

from tests.support.hostile.faults import Faults
from tests.support.hostile.state import ZERO_TIME, Resource, Run, iso

Json = dict[str, Any]


class Shown:
    """
    View of one read: a time, and the faults of the resource.

    :param at: the time that the replica shows, as seconds since the epoch.
    :param form: the format of run IDs.
    :param api_key: the key that failed runs repeat.
    """

    def __init__(self, at: float, faults: Faults, form: int, api_key: str) -> None:
        self._at = at
        self._faults = faults
        self._form = form
        self._key = api_key

    def run(self, run: Run) -> Json:
        """Return the JSON of a visible run."""
        status = run.status_at(self._at)
        body: Json = {"id": run.id_in(self._form)}
        body |= getattr(self, f"_{run.resource.kind}_run")(run, status)
        body |= self._times(run, status)
        if status == "FAILED" and run.resource.kind == "reverse_etl":
            body["error"] = self._error()
        return body

    def _elt_stream_run(self, run: Run, status: str | None) -> Json:
        body: Json = {"elt_sync_id": run.resource.parent_id, "elt_stream_id": run.resource.id}
        if not (self._faults.omit_status and status == "RUNNING"):
            body["status"] = status
        if status in ("COMPLETED", "CHUNK_COMPLETED"):
            body["rows_synced"] = run.plan.rows
        return body

    def _reverse_etl_run(self, run: Run, status: str | None) -> Json:
        body: Json = {"reverse_etl_sync_id": run.resource.id, "status": status}
        if status == "COMPLETED":
            failed = run.plan.failed_rows
            body |= {"total_rows": run.plan.rows, "synced_rows": run.plan.rows - failed, "failed_rows": failed}
        return body

    def _orchestration_run(self, run: Run, status: str | None) -> Json:
        status = "NOT_STARTED" if status == "SCHEDULED" else status
        return {"orchestration_id": run.resource.id, "status": status, "due_at": self.time(run.due_at)}

    def _times(self, run: Run, status: str | None) -> Json:
        times: Json = {}
        self._put(times, "started_at", run.started_at if status not in ("SCHEDULED", "CANCELED") else None)
        is_over = status not in ("SCHEDULED", "RUNNING", "CANCELED")
        self._put(times, "finished_at", run.finished_at if is_over else None)
        if self._faults.zero_started:
            times["started_at"] = ZERO_TIME
        elif run.resource.kind != "orchestration":
            # The other kinds require the field, so a scheduled run has its due time.
            times.setdefault("started_at", self.time(run.started_at))
        return times

    def _put(self, times: Json, name: str, at: float | None) -> None:
        if at is not None:
            times[name] = self.time(at)
        elif self._faults.absent_times != "omitted":
            times[name] = ZERO_TIME if self._faults.absent_times == "zero" else None

    def time(self, at: float) -> str:
        """Return a time as text."""
        return iso(at, self._faults.timestamps)

    def _error(self) -> str:
        return f"upstream refused the key {self._key}" if self._faults.echo_key else "upstream refused the records"

    def stream(self, stream: Resource) -> Json:
        """Return an ELT stream."""
        return {
            "id": stream.id,
            "elt_sync_id": stream.parent_id,
            "name": stream.id,
            "full_sync_at_midnight": False,
            "full_sync_always": False,
            "protected_from_full_sync": False,
            "created_at": self.time(stream.created_at),
            "updated_at": self.time(stream.created_at),
            "excluded_substreams": [],
            "enabled_history_table": False,
        }

    def snapshots(self, stream: Resource) -> Json:
        """Return the part of a sync's status that shows one stream."""
        body: Json = {"name": stream.id}
        # The status shows a requested run as SCHEDULED before the list contains it.
        known = [run for run in stream.runs if run.status_at(self._at) is not None]
        active = [run for run in known if run.is_active_at(self._at)]
        over = [run for run in known if run not in active]
        for name, runs in (("active_sync", active), ("latest_sync", over)):
            if runs:
                body[name] = self._snapshot(max(runs, key=lambda run: run.started_at))
        return body

    def _snapshot(self, run: Run) -> Json:
        status = run.status_at(self._at)
        body: Json = {
            "bytes_synced": 1024,
            "status": "COMPLETED" if status == "CHUNK_COMPLETED" else status,
            "full_sync_trigger": "USER" if run.full_refresh else "NONE",
        }
        self._put(body, "started_at", run.started_at if status != "SCHEDULED" else None)
        self._put(body, "finished_at", run.finished_at if status not in ("SCHEDULED", "RUNNING") else None)
        if status == "FAILED":
            body["error_message"] = self._error()
        return body

    def transform(self, transform: Resource) -> Json:
        """Return a transform with the state of its last build."""
        builds = [run for run in transform.runs if run.status_at(self._at) is not None]
        last = max(builds, key=lambda run: run.requested_at, default=None)
        changed = transform.created_at if last is None or self._faults.fixed_updated_at else last.requested_at
        status = "COMPLETED" if last is None else last.status_at(self._at)
        body: Json = {
            "id": transform.id,
            "name": transform.id,
            "folder_path": "models",
            "status": "published",
            "materialization": "table",
            "materialization_status": {"COMPLETED": "completed", "FAILED": "failed"}.get(status or "", "running"),
            "sql_template": "SELECT 1 AS one",
            "parameters": [],
            "created_at": self.time(transform.created_at),
            "updated_at": self.time(changed),
        }
        return body | ({"materialization_error": self._error()} if status == "FAILED" else {})
