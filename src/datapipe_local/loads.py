"""Loading: what a source has becomes a table of the warehouse, as a whole or in slices."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import uuid4

import duckdb

from datapipe_local.warehouse import Place, Scan, WarehouseError, drop, number, quoted, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from datapipe_local.warehouse import Warehouse

T = TypeVar("T")

#: What the table is called that holds the rows of a load in slices. Nobody else's name begins so.
_STAGED = "__staged__"
#: The table of a :class:`Stored` result.
RESULT = "__result__"


@dataclass(frozen=True)
class Selection:
    """
    Which columns of a source a table gets. Names that the source does not have mean nothing.

    :param excluded: Left out.
    :param hashed: Replaced by the SHA-256 of their text, in hexadecimal digits; null stays null.
    """

    excluded: Collection[str] = ()
    hashed: Collection[str] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether it is all of the columns as they are."""
        return not self.excluded and not self.hashed

    def sql(self, relation: str, columns: Collection[str]) -> str:
        """
        Give the query of the selected columns.

        :param relation: What is read, as SQL names it.
        :param columns: The columns that it has.
        """
        excluded, hashed = ({name.casefold() for name in names} for names in (self.excluded, self.hashed))
        shown = [
            f"sha256(CAST({quoted(name)} AS VARCHAR)) AS {quoted(name)}" if name.casefold() in hashed else quoted(name)
            for name in columns
            if name.casefold() not in excluded
        ]
        return f"SELECT {', '.join(shown)} FROM {relation}"  # noqa: S608 - quoted


EVERYTHING = Selection()


@dataclass(frozen=True)
class Stored:
    """
    A result that stands in a DuckDB file of its own, as the table :data:`RESULT`.

    :param path: The file.
    """

    path: Path


class Slice(NamedTuple):
    """A part of a load: how many rows it has added, and whether it was the last."""

    rows: int
    is_last: bool


class Loads:
    """
    Makes tables of the warehouse. Whatever it does to a table, it does whole or not at all.

    :param warehouse: The warehouse.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def whole(self, place: Place, readable: Scan | Stored, selection: Selection = EVERYTHING) -> int:
        """
        Replace a table by what is in a file.

        The types of a CSV file's columns are inferred from its beginning; if a later row does not fit them, from
        the whole file.

        :param place: The table; it need not exist.
        :param readable: The file.
        :param selection: Its columns.
        :return: The number of rows.
        :raises WarehouseError: the file cannot be read; the table is as it was.
        """
        with self._rows_of(place, readable) as (cursor, relations):
            return _carefully(relations, lambda relation: _create(cursor, place, _query(cursor, relation, selection)))

    def first_slice(self, place: Place, readable: Scan | Stored, size: int, selection: Selection = EVERYTHING) -> Slice:
        """
        Replace a table by the first rows of a file, and put all rows by for :meth:`next_slice`.

        :param size: How many rows, at the most.
        :return: If all rows are there, nothing is put by.
        :raises WarehouseError: the file cannot be read; the table is as it was.
        """
        staged = _staged(place)
        with self._rows_of(place, readable) as (cursor, relations):
            # Apart from what follows: the rows of a table are numbered for good once it is committed.
            total = _carefully(relations, lambda relation: _create(cursor, staged, _query(cursor, relation, selection)))
            with transaction(cursor):
                if total > size:
                    return Slice(_create(cursor, place, _part(staged, 0, size)), is_last=False)
                drop(cursor, place)
                cursor.execute(f"ALTER TABLE {staged.sql} RENAME TO {quoted(place.name)}")
                return Slice(total, is_last=True)

    def next_slice(self, place: Place, start: int, size: int | None) -> Slice:
        """
        Add the rows that follow. Done again after the process was killed, it adds nothing twice.

        :param place: The table.
        :param start: How many rows it has from the slices before.
        :param size: How many more, at the most; ``None`` for all that are left.
        :raises WarehouseError: somebody else has changed the table.
        """
        staged = _staged(place)
        with self._warehouse.cursor() as cursor, transaction(cursor):
            there = _count(cursor, place)
            if not _exists(cursor, staged):
                # The last slice was added, and the process killed before that was noted.
                return Slice(there - start, is_last=True)
            total = _count(cursor, staged)
            end = total if size is None else min(start + size, total)
            if there == start:
                cursor.execute(f"INSERT INTO {place.sql} {_part(staged, start, end)}")
            elif there != end:
                raise WarehouseError(f"{place} has {there} rows, and not the {start} that were loaded")
            if end == total:
                drop(cursor, staged)
            return Slice(end - start, is_last=end == total)

    def drop(self, place: Place) -> None:
        """Remove a table, and what was put by for it."""
        with self._warehouse.cursor() as cursor, transaction(cursor):
            drop(cursor, place)
            drop(cursor, _staged(place))

    @contextmanager
    def _rows_of(self, place: Place, readable: Scan | Stored) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
        self._warehouse.create_schema(place.schema)
        with self._warehouse.cursor() as cursor, _readable(cursor, readable) as relations:
            yield cursor, relations


def _carefully(relations: list[str], load: Callable[[str], T]) -> T:
    """Load from the first relation that can be: the later ones take more time."""
    *hasty, last = relations
    for relation in hasty:
        with suppress(duckdb.ConversionException, duckdb.InvalidInputException):
            return load(relation)
    return load(last)


@contextmanager
def _readable(cursor: duckdb.DuckDBPyConnection, readable: Scan | Stored) -> Iterator[list[str]]:
    if isinstance(readable, Scan):
        more_care = readable.reader == "read_csv" and "sample_size" not in readable.options
        yield [readable.sql(), *([readable.sql(sample_size=-1)] if more_care else [])]
        return
    alias = f"__stored__{uuid4().hex}"
    path = str(readable.path).replace("'", "''")
    cursor.execute(f"ATTACH '{path}' AS {alias} (READ_ONLY)")
    try:
        yield [f"{alias}.main.{RESULT}"]
    finally:
        cursor.execute(f"DETACH {alias}")


def _query(cursor: duckdb.DuckDBPyConnection, relation: str, selection: Selection) -> str:
    if selection.is_whole:
        return f"SELECT * FROM {relation}"  # noqa: S608 - quoted
    described = cursor.execute(f"DESCRIBE FROM {relation}").fetchall()
    return selection.sql(relation, [name for name, *_ in described])


def _create(cursor: duckdb.DuckDBPyConnection, place: Place, query: str) -> int:
    return number(cursor.execute(f"CREATE OR REPLACE TABLE {place.sql} AS {query}"))


def _part(staged: Place, start: int, end: int) -> str:
    # The rows of a table that was made at once and is never changed are numbered from 0.
    return f"SELECT * FROM {staged.sql} WHERE rowid >= {start} AND rowid < {end}"  # noqa: S608 - quoted


def _count(cursor: duckdb.DuckDBPyConnection, place: Place) -> int:
    return number(cursor.execute(f"SELECT count(*) FROM {place.sql}"))  # noqa: S608 - quoted


def _exists(cursor: duckdb.DuckDBPyConnection, place: Place) -> bool:
    found = cursor.execute(
        "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database()"
        " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
        [*place],
    ).fetchone()
    return found is not None


def _staged(place: Place) -> Place:
    return Place(place.schema, f"{_STAGED}{place.name}")
