"""Journal: every request of the interface, and every run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from datapipe_local.common.errors import BadRequestError

if TYPE_CHECKING:
    import sqlite3

    from datapipe_local.control.paths import Target
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Json

Kind = Literal["requests", "runs"]

_COLUMNS: dict[Kind, str] = {
    # A stream run has no ID when it is requested; it gets one at its start.
    "requests": "seq, at, method, path, query, resource_id, fault, committed, service_status, status, answered_at,"
    " coalesce(run_id, (SELECT run_id FROM journal_runs r WHERE r.request = j.seq ORDER BY r.seq LIMIT 1)) AS run_id,"
    " status_url",
    "runs": "seq, kind, resource_id, run_id, trigger, request, orchestration_run_id, requested_at, started_at,"
    " finished_at, status",
}
_RESOURCES = (
    "elt_streams",
    "transforms",
    "orchestrations",
    "reverse_etl_syncs",
    "elt_syncs",
    "connections",
    "custom_reports",
)


class Journal:
    """
    Requests and runs, recorded while the control plane is on.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._database = context.store.database

    def arrived(self, method: str, path: str, query: str, target: Target) -> tuple[int, str | None]:
        """
        Record a request before it is executed.

        :return: The number of the request, and the ID of its resource.
        """
        resource_id = target.resource_id
        if target.run_id is not None:
            run = self._context.store.orchestration_runs.get(target.run_id)
            resource_id = None if run is None else run.orchestration_id
        row = self._database.row(
            "INSERT INTO journal_requests (at, method, path, query, resource_id) VALUES (?, ?, ?, ?, ?) RETURNING seq",
            self._context.clock.now(),
            method,
            path,
            query,
            resource_id,
        )
        assert row is not None  # noqa: S101 - RETURNING always yields a row
        return int(row["seq"]), resource_id

    def fault(self, seq: int, fault: Json | None) -> None:
        """Record the fault that acts on a request."""
        text = None if fault is None else json.dumps(fault)
        self._database.run("UPDATE journal_requests SET fault = ? WHERE seq = ?", text, seq)

    def answered(self, seq: int, status: int | None, *, by_service: int | None, body: bytes) -> None:
        """
        Record a response, right before it is sent.

        :param seq: The number of the request.
        :param status: The status that the client receives; ``None`` if the connection ends without a response.
        :param by_service: The status that the service returned; ``None`` if the request was not executed.
        :param body: The response body of the service to a run request.
        """
        facts = _run_facts(body)
        self._database.run(
            "UPDATE journal_requests SET status = ?, service_status = ?, answered_at = ?, run_id = ?, status_url = ?"
            " WHERE seq = ?",
            status,
            by_service,
            None if status is None else self._context.clock.now(),
            facts.get("id"),
            facts.get("status_url"),
            seq,
        )

    def read(self, kind: Kind, *, resource_id: str | None, path: str | None, after: int, limit: int) -> Json:
        """
        Return a part of the journal, oldest first, and the number of all entries after ``after``.

        :param kind: Requests or runs.
        :param resource_id: Return only entries of this resource.
        :param path: Return only requests whose path matches this pattern.
        :param after: Return only entries with a higher number.
        :param limit: Return at most this number of entries.
        :raises BadRequestError: ``path`` was given for runs, which have no path.
        """
        if path is not None and kind == "runs":
            raise BadRequestError("path: runs have none: give resource_id.")
        conditions = "seq > ?"
        parameters: list[str | int] = [after]
        for condition, value in (("resource_id = ?", resource_id), ("path_matches(?, path)", path)):
            if value is not None:
                conditions += f" AND {condition}"
                parameters.append(value)
        table = f"journal_{kind} j WHERE {conditions}"
        with self._context.store.transaction():
            total = self._database.value(f"SELECT count(*) FROM {table}", *parameters)  # noqa: S608 - fixed names of columns and tables
            rows = self._database.rows(
                f"SELECT {_COLUMNS[kind]} FROM {table} ORDER BY seq LIMIT ?",  # noqa: S608 - as above
                *parameters,
                limit,
            )
        return {"data": [_entry(row) for row in rows], "total": total}

    def knows(self, resource_id: str) -> bool:
        """Return True if the resource exists, or an entry of a deleted one does. Otherwise the ID may be misspelled."""
        found = " UNION ALL ".join(
            [f"SELECT 1 FROM {table} WHERE id = ?1" for table in _RESOURCES]  # noqa: S608 - fixed names of columns and tables
            + [f"SELECT 1 FROM journal_{kind} WHERE resource_id = ?1" for kind in _COLUMNS]  # noqa: S608 - as above
        )
        return bool(self._database.value(f"SELECT EXISTS ({found})", resource_id))

    def clear(self) -> None:
        """Delete all entries. Runs that are active now are not recorded when they end."""
        with self._context.store.transaction():
            self._database.run("DELETE FROM journal_requests")
            self._database.run("DELETE FROM journal_runs")


def _run_facts(body: bytes) -> dict[str, str]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _entry(row: sqlite3.Row) -> dict[str, Any]:
    entry = dict(row)
    if "committed" in entry:
        entry["committed"] = bool(entry["committed"])
        entry["fault"] = None if entry["fault"] is None else json.loads(entry["fault"])
    return entry
