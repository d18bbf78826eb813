"""Run lists shared by ELT streams and reverse ETL syncs. Run IDs sort by start time and serve as list cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeVar
from urllib.parse import urlencode

from datapipe_local.common.errors import BadRequestError, NotFoundError
from datapipe_local.storage.clock import later
from datapipe_local.storage.ids import RunId
from datapipe_local.storage.records import EltStreamRun, ReverseEtlSyncRun
from datapipe_local.storage.table import Page

if TYPE_CHECKING:
    from datapipe_local.storage.clock import Timestamp
    from datapipe_local.storage.table import Table

R = TypeVar("R", bound=EltStreamRun | ReverseEtlSyncRun)

Direction = Literal["asc", "desc"]
_MILLISECOND = 0.001


class Runs(Generic[R]):
    """
    Runs of one kind.

    :param table: Table of the runs.
    :param subject: Column with the ID of the stream or sync. It is also the filter parameter of the list.
    :param path: Path of the list.
    :param kind: Name of the kind in messages.
    :param visible: SQL condition for the runs that callers may see.
    """

    def __init__(self, table: Table[R], subject: str, path: str, kind: str, *, visible: str) -> None:
        self._table = table
        self._subject = subject
        self._path = path
        self._kind = kind
        self._visible = visible

    def get(self, run_id: str) -> R:
        """
        Return a run that callers may see.

        :raises BadRequestError: if the ID is malformed.
        :raises NotFoundError: if the run does not exist or is hidden.
        """
        RunId.parse(run_id)
        run = self._table.first(f"WHERE id = ? AND {self._visible}", run_id)
        if run is None:
            raise NotFoundError(self._kind, run_id)
        return run

    def last(self, subject_id: str) -> R | None:
        """Return the newest run, or None."""
        return self._table.first(f"WHERE {self._subject} = ? ORDER BY started_at DESC LIMIT 1", subject_id)

    def status_url(self, subject_id: str) -> str:
        """Return the URL of a list that contains only the first run after the newest current one."""
        parameters = {self._subject: subject_id}
        last = self.last(subject_id)
        if last is not None:
            parameters["starting_after"] = last.id
        return f"{self._path}?{urlencode({**parameters, 'limit': 1, 'sort_direction': 'asc'})}"

    def next_id(self, subject_id: str, now: Timestamp) -> RunId:
        """Return the ID of a run that starts now. It is later than all previous IDs, even if the clock was set back."""
        last = self.last(subject_id)
        return RunId(subject_id, now if last is None else max(now, later(last.started_at, _MILLISECOND)))

    def page(
        self, subject_id: str, *, after: str | None, limit: int, direction: Direction, since: Timestamp = ""
    ) -> Page[R]:
        """
        Return a page of runs by start time. A run ID is the cursor of the runs after it.

        :param subject_id: Stream or sync.
        :param after: Cursor from the previous page, or the ID of any run of the same stream or sync.
        :param limit: Maximum number of runs.
        :param direction: ``asc`` for oldest first, ``desc`` for newest first.
        :param since: Earliest start time.
        :raises BadRequestError: if the cursor is invalid.
        """
        condition, parameters = "started_at >= ?", [subject_id, since]
        if after is not None:
            begin = self._start(after, subject_id)
            if direction == "desc":
                condition, parameters = f"{condition} AND started_at < ?", [*parameters, begin]
            elif begin >= since:
                # A single lower bound: with two, SQLite may start at the other one and scan all rows in between.
                condition, parameters = "started_at > ?", [subject_id, begin]
        runs = self._table.all(
            f"WHERE {self._subject} = ? AND {condition} AND {self._visible} ORDER BY started_at {direction} LIMIT ?",
            *parameters,
            limit + 1,
        )
        return Page(runs[:limit], runs[limit - 1].id if len(runs) > limit else None)

    def _start(self, cursor: str, subject_id: str) -> Timestamp:
        try:
            run_id = RunId.parse(cursor)
        except BadRequestError:
            run_id = None
        if run_id is None or run_id.subject_id != subject_id:
            raise BadRequestError(
                f"starting_after: {cursor[:100]!r} is not a cursor of this list: give the nextCursor of its last page.",
                error_code="invalid_cursor",
            )
        return run_id.started_at
