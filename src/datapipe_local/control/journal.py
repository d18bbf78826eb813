"""The journal: every request of the interface, and every run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from datapipe_local.errors import BadRequestError

if TYPE_CHECKING:
    import sqlite3

    from datapipe_local.control.paths import Target
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import Json

Kind = Literal["requests", "runs"]

_COLUMNS: dict[Kind, str] = {
    # The run of a stream has no id yet when it is asked for: it gets one as it begins.
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
    What was asked and what ran, as far as it was asked and ran while the control plane was on.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._database = context.store.database

    def arrived(self, method: str, path: str, query: str, target: Target) -> tuple[int, str | None]:
        """
        Note a request before anything is done about it.

        :return: Its number, and the resource that it is about.
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
        assert row is not None  # noqa: S101 - RETURNING returns
        return int(row["seq"]), resource_id

    def fault(self, seq: int, fault: Json | None) -> None:
        """Note which fault acts on a request."""
        text = None if fault is None else json.dumps(fault)
        self._database.run("UPDATE journal_requests SET fault = ? WHERE seq = ?", text, seq)

    def answered(self, seq: int, status: int | None, *, by_service: int | None, body: bytes) -> None:
        """
        Note an answer, right before it is sent.

        :param seq: The request.
        :param status: What the caller is told; ``None`` if the connection ends without an answer.
        :param by_service: What the service made of it; ``None`` if it was not carried out.
        :param body: What the service answered to a request for a run.
        """
        told = _told(body)
        self._database.run(
            "UPDATE journal_requests SET status = ?, service_status = ?, answered_at = ?, run_id = ?, status_url = ?"
            " WHERE seq = ?",
            status,
            by_service,
            None if status is None else self._context.clock.now(),
            told.get("id"),
            told.get("status_url"),
            seq,
        )

    def read(self, kind: Kind, *, resource_id: str | None, path: str | None, after: int, limit: int) -> Json:
        """
        Give a part of the journal, oldest first, and the number of all entries after ``after``.

        :param kind: Requests or runs.
        :param resource_id: Only what is about this resource.
        :param path: Only requests whose path this pattern means.
        :param after: Only what has a higher number.
        :param limit: How many entries at the most.
        :raises BadRequestError: runs have no path.
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
            total = self._database.value(f"SELECT count(*) FROM {table}", *parameters)  # noqa: S608 - our own words
            rows = self._database.rows(
                f"SELECT {_COLUMNS[kind]} FROM {table} ORDER BY seq LIMIT ?",  # noqa: S608 - as above
                *parameters,
                limit,
            )
        return {"data": [_entry(row) for row in rows], "total": total}

    def knows(self, resource_id: str) -> bool:
        """Tell whether there is such a resource, or an entry about one that was there: else its id is misspelt."""
        found = " UNION ALL ".join(
            [f"SELECT 1 FROM {table} WHERE id = ?1" for table in _RESOURCES]  # noqa: S608 - our own words
            + [f"SELECT 1 FROM journal_{kind} WHERE resource_id = ?1" for kind in _COLUMNS]  # noqa: S608 - as above
        )
        return bool(self._database.value(f"SELECT EXISTS ({found})", resource_id))

    def clear(self) -> None:
        """Forget everything. What is going on now and ends later is not noted any more."""
        with self._context.store.transaction():
            self._database.run("DELETE FROM journal_requests")
            self._database.run("DELETE FROM journal_runs")


def _told(body: bytes) -> dict[str, str]:
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
