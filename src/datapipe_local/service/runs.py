"""What runs of streams and of reverse ETL syncs have in common: ids along time, and lists along ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlencode

from datapipe_local.clock import later
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.ids import RunId
from datapipe_local.store.table import Page

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from datapipe_local.clock import Timestamp
    from datapipe_local.store.table import Table

    class Run(Protocol):
        """What all runs have."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

        @property
        def id(self) -> str:
            """The opaque id."""

        @property
        def started_at(self) -> Timestamp:
            """When it started."""


R = TypeVar("R", bound="Run")

Direction = Literal["asc", "desc"]
_MILLISECOND = 0.001


class Runs(Generic[R]):
    """
    The runs of one kind.

    :param table: Where they are.
    :param subject: The column that says whose run it is; also the list's filter.
    :param path: The list's path.
    :param kind: What they are called.
    :param visible: What SQL says of those that callers may see.
    """

    def __init__(self, table: Table[R], subject: str, path: str, kind: str, *, visible: str = "TRUE") -> None:
        self._table = table
        self._subject = subject
        self._path = path
        self._kind = kind
        self._visible = visible

    def get(self, run_id: str) -> R:
        """
        Give a run.

        :raises BadRequestError: that is no id of a run.
        :raises NotFoundError: there is no such run.
        """
        RunId.parse(run_id)
        run = self._table.get(run_id)
        if run is None:
            raise NotFoundError(self._kind, run_id)
        return run

    def shown(self, run_id: str) -> R:
        """
        Give a run to a caller.

        :raises BadRequestError: that is no id of a run.
        :raises NotFoundError: there is no such run, or callers may not see it.
        """
        RunId.parse(run_id)
        run = self._table.first(f"WHERE id = ? AND {self._visible}", run_id)
        if run is None:
            raise NotFoundError(self._kind, run_id)
        return run

    def last(self, subject_id: str) -> R | None:
        """Give the newest run, if there is any."""
        return self._table.first(f"WHERE {self._subject} = ? ORDER BY started_at DESC LIMIT 1", subject_id)

    def status_url(self, subject_id: str) -> str:
        """Give the list of runs after the newest of now, bounded to the first of them."""
        parameters = {self._subject: subject_id}
        last = self.last(subject_id)
        if last is not None:
            parameters["starting_after"] = last.id
        return f"{self._path}?{urlencode({**parameters, 'limit': 1, 'sort_direction': 'asc'})}"

    def next_id(self, subject_id: str, now: Timestamp) -> RunId:
        """Give the id of a run that starts now: later than all before it, also if the clock was turned back."""
        last = self.last(subject_id)
        return RunId(subject_id, now if last is None else max(now, later(last.started_at, _MILLISECOND)))

    def page(
        self, subject_id: str, *, after: str | None, limit: int, direction: Direction, since: Timestamp = ""
    ) -> Page[R]:
        """
        Give a part of the list of runs, by their start. A run's id is the cursor of what follows it.

        :param subject_id: Whose runs.
        :param after: The cursor that the part before it gave, or the id of any run of the same subject.
        :param limit: How many at the most.
        :param direction: Oldest or newest first.
        :param since: Runs that started earlier are not told.
        :raises BadRequestError: the cursor is not one.
        """
        condition, parameters = "started_at >= ?", [subject_id, since]
        if after is not None:
            begin = self._start(after, subject_id)
            if direction == "desc":
                condition, parameters = f"{condition} AND started_at < ?", [*parameters, begin]
            elif begin >= since:
                # Alone: of two lower bounds SQLite may begin at the other, and pass over all that is in between.
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
                f"starting_after: {cursor[:100]!r} is no cursor of this list: give the nextCursor of its last page.",
                error_code="invalid_cursor",
            )
        return run_id.started_at
