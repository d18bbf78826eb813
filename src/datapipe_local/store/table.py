"""Reading and writing records, and reading lists of them a page at a time."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints

from datapipe_local.errors import BadRequestError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping

    from _typeshed import DataclassInstance

    from datapipe_local.store.database import Database

    R = TypeVar("R", bound=DataclassInstance)
else:
    R = TypeVar("R")

_LARGEST_SEQ = 2**63 - 1


@dataclass(frozen=True)
class Order:
    """
    How a list is sorted; records with the same value follow one another as they were created.

    :param column: The column, with its collation if it needs one.
    :param descending: Largest first.
    """

    column: str = "created_at"
    descending: bool = False


@dataclass(frozen=True)
class Position:
    """
    A place in a sorted list: after the record with this value that was created as that number.

    :param of: Which list: elsewhere the value would mean something else.
    """

    of: str
    value: str
    seq: int

    def as_cursor(self) -> str:
        """Write it as clients see it. It stays right when the record is deleted."""
        return base64.urlsafe_b64encode(json.dumps([self.of, self.value, self.seq]).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, cursor: str, of: str) -> Position:
        """
        Read a cursor.

        :param cursor: As received, possibly anything.
        :param of: The list that it has to be of.
        :raises BadRequestError: this service has not written it, or for another list.
        """
        try:
            text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            its_list, value, seq = json.loads(text)
        except (binascii.Error, ValueError, TypeError, RecursionError):
            its_list = value = seq = None
        if its_list != of or not isinstance(value, str) or type(seq) is not int or not 0 <= seq <= _LARGEST_SEQ:
            raise BadRequestError(
                f"starting_after: {cursor[:100]!r} is no cursor of this list: give the nextCursor of its last page.",
                error_code="invalid_cursor",
            )
        return cls(of, value, seq)


@dataclass(frozen=True)
class Page(Generic[R]):
    """A part of a list, and the cursor of the next part if there is one."""

    records: list[R]
    next_cursor: str | None


class Table(Generic[R]):
    """
    A table of the schema, as records.

    :param database: Where the table is.
    :param name: Its name.
    :param record: What its rows become.
    """

    def __init__(self, database: Database, name: str, record: type[R]) -> None:
        self._database = database
        self._name = name
        self._record = record
        hints = get_type_hints(record)
        self._columns = tuple(field.name for field in fields(record))
        # Most columns need none, and very many rows are read.
        self._readers = {column: read for column in self._columns if (read := _reader(hints[column])) is not None}
        self._select = f"SELECT {', '.join(self._columns)} FROM {name}"  # noqa: S608 - names of our own
        marks = ", ".join("?" for _ in self._columns)
        self._insert = f"INSERT INTO {name} ({', '.join(self._columns)}) VALUES ({marks})"  # noqa: S608 - as above

    def get(self, record_id: str) -> R | None:
        """Give the record with an id, if there is one."""
        return self.first("WHERE id = ?", record_id)

    def first(self, tail: str, *parameters: Any) -> R | None:
        """Give the first record of a query, told by what follows FROM."""
        row = self._database.row(f"{self._select} {tail}", *parameters)
        return None if row is None else self._read(row)

    def all(self, tail: str = "", *parameters: Any) -> list[R]:
        """Give all records of a query, told by what follows FROM."""
        return [self._read(row) for row in self._database.rows(f"{self._select} {tail}", *parameters)]

    def insert(self, record: R) -> None:
        """Add a record."""
        self._database.run(self._insert, *self._values(record))

    def insert_all(self, records: Iterable[R]) -> None:
        """Add records: all of them or none."""
        self._database.run_many(self._insert, [self._values(record) for record in records])

    def update(self, record_id: str, **changes: Any) -> None:
        """Change fields of the record with an id."""
        assignments = ", ".join(f"{column} = ?" for column in changes)
        self._database.run(
            f"UPDATE {self._name} SET {assignments} WHERE id = ?",  # noqa: S608 - as above
            *map(_write, changes.values()),
            record_id,
        )

    def page(self, order: Order, *, after: str | None, limit: int, filters: Mapping[str, Any] | None = None) -> Page[R]:
        """
        Give a part of the list. It is read along an index, so that its time does not grow with the table.

        :param order: How the list is sorted.
        :param after: The cursor that the part before it gave; ``None`` for the first part.
        :param limit: How many records at the most.
        :param filters: Conditions with one ``?`` each, and its value; a value of ``None`` is no condition.
        :raises BadRequestError: the cursor is not one.
        """
        given = {condition: value for condition, value in (filters or {}).items() if value is not None}
        conditions, parameters = list(given), list(given.values())
        column, (compare, direction) = order.column, ("<", "DESC") if order.descending else (">", "ASC")
        if after is not None:
            position = Position.parse(after, self._name)
            conditions.append(f"({column}, seq) {compare} (?, ?)")
            parameters += [position.value, position.seq]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self._database.rows(
            f"SELECT seq, {', '.join(self._columns)} FROM {self._name}{where}"  # noqa: S608 - as above
            f" ORDER BY {column} {direction}, seq {direction} LIMIT ?",
            *parameters,
            # One more tells whether there is more.
            limit + 1,
        )
        next_cursor = None
        if len(rows) > limit:
            last = rows[limit - 1]
            next_cursor = Position(self._name, last[column.split()[0]], last["seq"]).as_cursor()
        return Page([self._read(row) for row in rows[:limit]], next_cursor)

    def _values(self, record: R) -> tuple[Any, ...]:
        return tuple(_write(getattr(record, column)) for column in self._columns)

    def _read(self, row: sqlite3.Row) -> R:
        values = {column: row[column] for column in self._columns}
        for column, read in self._readers.items():
            if values[column] is not None:
                values[column] = read(values[column])
        return self._record(**values)


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    """Tell how a column becomes a field of that type; ``None`` if it is one already."""
    kinds = {getattr(kind, "__origin__", kind) for kind in (get_args(hint) if type(None) in get_args(hint) else [hint])}
    if bool in kinds:
        return bool
    return json.loads if kinds & {dict, list} else None


def _write(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
