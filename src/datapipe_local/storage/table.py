"""Typed access to tables: reads, writes and pages of lists."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints

from datapipe_local.common.errors import BadRequestError, NotFoundError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping

    from _typeshed import DataclassInstance

    from datapipe_local.storage.database import Database

    R = TypeVar("R", bound=DataclassInstance)
else:
    R = TypeVar("R")

_LARGEST_SEQ = 2**63 - 1


@dataclass(frozen=True)
class Order:
    """
    Sort order of a list. Records with equal values are sorted by creation.

    :param column: Column, with its collation if needed.
    :param descending: Largest value first.
    """

    column: str = "created_at"
    descending: bool = False


@dataclass(frozen=True)
class Position:
    """
    Position in a sorted list, after the record with this value and sequence number.

    :param of: Name of the list. The cursor is valid only there.
    """

    of: str
    value: str
    seq: int

    def as_cursor(self) -> str:
        """Return the cursor for clients. It stays valid if the record is deleted."""
        return base64.urlsafe_b64encode(json.dumps([self.of, self.value, self.seq]).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, cursor: str, of: str) -> Position:
        """
        Parse a cursor.

        :param cursor: Untrusted value from the request.
        :param of: Name of the expected list.
        :raises BadRequestError: if the cursor is malformed or belongs to another list.
        """
        try:
            text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            its_list, value, seq = json.loads(text)
        except (binascii.Error, ValueError, TypeError, RecursionError):
            its_list = value = seq = None
        if its_list != of or not isinstance(value, str) or type(seq) is not int or not 0 <= seq <= _LARGEST_SEQ:
            raise BadRequestError(
                f"starting_after: {cursor[:100]!r} is not a cursor of this list: give the nextCursor of its last page.",
                error_code="invalid_cursor",
            )
        return cls(of, value, seq)


@dataclass(frozen=True)
class Page(Generic[R]):
    """Page of a list, with the cursor of the next page if there is one."""

    records: list[R]
    next_cursor: str | None


class Table(Generic[R]):
    """
    Table of the schema, read and written as records.

    :param database: Database that contains the table.
    :param name: Name of the table.
    :param record: Dataclass of its rows.
    :param title: Kind of resource in error messages, by default the name of the table.
    """

    def __init__(self, database: Database, name: str, record: type[R], title: str | None = None) -> None:
        self._database = database
        self._name = name
        self._title = title or name
        self._record = record
        hints = get_type_hints(record)
        self._columns = tuple(field.name for field in fields(record))
        # Only for columns that need conversion, because reads are frequent.
        self._readers = {column: read for column in self._columns if (read := _reader(hints[column])) is not None}
        self._select = f"SELECT {', '.join(self._columns)} FROM {name}"  # noqa: S608 - no user input
        marks = ", ".join("?" for _ in self._columns)
        self._insert = f"INSERT INTO {name} ({', '.join(self._columns)}) VALUES ({marks})"  # noqa: S608 - no user input

    def get(self, record_id: str) -> R | None:
        """Return the record with an ID, or None."""
        return self.first("WHERE id = ?", record_id)

    def existing(self, record_id: str) -> R:
        """
        Return the record with an ID.

        :raises NotFoundError: if the record does not exist.
        """
        record = self.get(record_id)
        if record is None:
            raise NotFoundError(self._title, record_id)
        return record

    def first(self, tail: str, *parameters: Any) -> R | None:
        """Return the first record of a query, or None. ``tail`` is the SQL after the FROM clause."""
        row = self._database.row(f"{self._select} {tail}", *parameters)
        return None if row is None else self._read(row)

    def all(self, tail: str = "", *parameters: Any) -> list[R]:
        """Return all records of a query. ``tail`` is the SQL after the FROM clause."""
        return [self._read(row) for row in self._database.rows(f"{self._select} {tail}", *parameters)]

    def insert(self, record: R) -> None:
        """Insert a record."""
        self._database.run(self._insert, *self._values(record))

    def insert_all(self, records: Iterable[R]) -> None:
        """Insert records in one transaction."""
        self._database.run_many(self._insert, [self._values(record) for record in records])

    def save(self, record: R) -> None:
        """Insert a record, or update the record with its ID, which keeps its creation time."""
        changes = {column: getattr(record, column) for column in self._columns if column not in {"id", "created_at"}}
        record_id: str = getattr(record, "id")  # noqa: B009 - the type of the records has no fields
        if self.get(record_id) is None:
            self.insert(record)
        else:
            self.update(record_id, **changes)

    def update(self, record_id: str, **changes: Any) -> None:
        """Update fields of the record with an ID."""
        assignments = ", ".join(f"{column} = ?" for column in changes)
        self._database.run(
            f"UPDATE {self._name} SET {assignments} WHERE id = ?",  # noqa: S608 - no user input
            *map(_write, changes.values()),
            record_id,
        )

    def page(self, order: Order, *, after: str | None, limit: int, filters: Mapping[str, Any] | None = None) -> Page[R]:
        """
        Return a page of the list. The query uses an index, so its time does not depend on the size of the table.

        :param order: Sort order.
        :param after: Cursor from the previous page, ``None`` for the first page.
        :param limit: Maximum number of records.
        :param filters: SQL conditions with one ``?`` each, and their values. Conditions with the value ``None`` are
            ignored.
        :raises BadRequestError: if the cursor is invalid.
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
            f"SELECT seq, {', '.join(self._columns)} FROM {self._name}{where}"  # noqa: S608 - no user input
            f" ORDER BY {column} {direction}, seq {direction} LIMIT ?",
            *parameters,
            # One more row shows if there is a next page.
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
    """Return the conversion from a column value to a field of the type, or None if none is needed."""
    kinds = {getattr(kind, "__origin__", kind) for kind in (get_args(hint) if type(None) in get_args(hint) else [hint])}
    if bool in kinds:
        return bool
    return json.loads if kinds & {dict, list} else None


def _write(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
