"""Loading: what a source has becomes a table of the warehouse, as a whole, in slices, or by what is new."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import duckdb

from datapipe_local.loading import csv_errors, csv_files, history, increment, json_lines, protection, substreams
from datapipe_local.loading.columns import ColumnsError, check_renamed
from datapipe_local.loading.increment import OutdatedError
from datapipe_local.loading.manner import Manner, Note, Run
from datapipe_local.loading.readable import relations
from datapipe_local.loading.structure import StructureError
from datapipe_local.loading.types import described, has
from datapipe_local.warehouse import Place, Scan, WarehouseError, drop, number, quoted, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from datapipe_local.loading.increment import Newest
    from datapipe_local.loading.readable import Readable
    from datapipe_local.warehouse import Warehouse

T = TypeVar("T")

#: What the table is called that holds the rows of a load in slices. Nobody else's name begins so.
_STAGED = "__staged__"
#: What goes wrong when a value does not fit a type.
_MISFITS = (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)


class Slice(NamedTuple):
    """A part of a load: how many rows it has added, and whether it was the last."""

    rows: int
    is_last: bool


class TableColumn(NamedTuple):
    """A column of a table, and whether it contains hashes."""

    name: str
    type: str
    hashed: bool


class TableShape(NamedTuple):
    """
    The columns of a table.

    :param columns: The columns.
    :param rows: The rows that the last load moved; None while a load in slices goes on.
    """

    columns: list[TableColumn]
    rows: int | None


class Told(NamedTuple):
    """
    What is noted with a table about its load.

    :param run: The run.
    :param size: How many bytes it has read at the source.
    :param mode: How it loads, as the interface says it.
    :param trigger: Why it loads everything, if it does.
    :param accepts_columns: The source may share no column name with the table of the previous load.
    """

    run: Run
    size: int
    mode: str
    trigger: str
    accepts_columns: bool = False


class Loads:
    """
    Makes tables of the warehouse. Whatever it does to a table, it does whole or not at all.

    :param warehouse: The warehouse.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def noted(self, place: Place) -> Note | None:
        """Give what is known of the last load of a table."""
        with self._warehouse.cursor() as cursor:
            return Note.read(cursor, place)

    def shape(self, place: Place) -> TableShape | None:
        """Return the columns of a table, or None if there is no table. Reads no rows, and does not wait for loads."""
        # One transaction: a load can replace the table at any time.
        with self._warehouse.cursor() as cursor, transaction(cursor):
            if not _exists(cursor, place):
                return None
            note = Note.read(cursor, place)
            hashed = note.hashed if note else set()
            columns = [TableColumn(*each, each.name.casefold() in hashed) for each in described(cursor, place.sql)]
            return TableShape(columns, note.rows if note else None)

    def whole(self, place: Place, readable: Readable, manner: Manner, told: Told) -> int:
        """
        Replace a table by what is at its source.

        The types of a CSV file's columns are inferred from its beginning; if a later row does not fit them, from
        the whole file.

        :param place: The table; it need not exist.
        :param readable: What is at the source.
        :param manner: How it is loaded.
        :param told: What is noted with it.
        :return: The number of rows.
        :raises WarehouseError: it cannot be read; the table is as it was.
        """

        def load(cursor: duckdb.DuckDBPyConnection, relation: str, *, cautious: bool = False) -> int:
            before = Note.read(cursor, place)
            query = _query(cursor, relation, readable, manner)
            _check_columns(cursor, place, relation, readable, manner=manner, told=told)
            rows = _create(cursor, place, query)
            _finish(cursor, place, manner, told, rows=rows, before=before, cautious=cautious)
            return rows

        with self._rows_of(place, readable) as (cursor, found):
            return _most_carefully(cursor, readable, found, load)

    def newest(self, place: Place, manner: Manner) -> Newest | None:
        """Give from where on :meth:`added` needs rows, as far as that can be told."""
        with self._warehouse.cursor() as cursor:
            return increment.newest(cursor, place, manner)

    def added(
        self, place: Place, readable: Readable, manner: Manner, told: Told, *, since: Newest | None = None
    ) -> int:
        """
        Add to a table what is new at its source.

        :param since: The rows of the source were read from there on alone, as :meth:`newest` had said.
        :return: The number of rows that are added or changed.
        :raises OutdatedError: all has to be loaded; the table is as it was.
        :raises WarehouseError: it cannot be read; the table is as it was.
        """

        def load(cursor: duckdb.DuckDBPyConnection, relation: str, *, cautious: bool = False) -> int:
            before = Note.read(cursor, place)
            if since is not None and increment.newest(cursor, place, manner) != since:
                raise OutdatedError("its table was changed while its source was read")
            query = _selected(cursor, relation, readable, manner)
            increment.check(cursor, place, query, manner)
            rows = increment.add(cursor, place, query, manner, cautious=cautious)
            _finish(cursor, place, manner, told, rows=rows, before=before, cautious=cautious)
            return rows

        with self._rows_of(place, readable, manner) as (cursor, found):
            return _most_carefully(cursor, readable, found, load)

    def first_slice(self, place: Place, readable: Readable, size: int, manner: Manner, told: Told) -> Slice:
        """
        Replace a table by the first rows of its source, and put all rows by for :meth:`next_slice`.

        :param size: How many rows, at the most.
        :return: If all rows are there, nothing is put by.
        :raises WarehouseError: it cannot be read; the table is as it was.
        """
        staged = _staged(place)

        def stage(cursor: duckdb.DuckDBPyConnection, relation: str) -> int:
            query = _query(cursor, relation, readable, manner)
            _check_columns(cursor, place, relation, readable, manner=manner, told=told)
            return _create(cursor, staged, query)

        with self._rows_of(place, readable) as (cursor, found):
            # Apart from what follows: the rows of a table are numbered for good once it is committed.
            total = _carefully(cursor, readable, found, stage)
            with transaction(cursor):
                before = Note.read(cursor, place)
                if total > size:
                    return Slice(_create(cursor, place, _part(staged, 0, size)), is_last=False)
                drop(cursor, place)
                cursor.execute(f"ALTER TABLE {staged.sql} RENAME TO {quoted(place.name)}")
                _finish(cursor, place, manner, told, rows=total, before=before)
                return Slice(total, is_last=True)

    def next_slice(self, place: Place, start: int, size: int | None, manner: Manner, told: Told) -> Slice:
        """
        Add the rows that follow. Done again after the process was killed, it adds nothing twice.

        :param place: The table.
        :param start: How many rows it has from the slices before.
        :param size: How many more, at the most; ``None`` for all that are left.
        :param manner: How it is loaded.
        :param told: What is noted with it after the last slice.
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
                _finish(cursor, place, manner, told, rows=end - start, before=None)
            return Slice(end - start, is_last=end == total)

    def parts(self, place: Place) -> list[Place]:
        """Give what stands beside a table and belongs to it: its history, its lists of records."""
        with self._warehouse.cursor() as cursor:
            past = history.history_of(place)
            return [*([past] if _exists(cursor, past) else []), *substreams.views(cursor, place)]

    def drop(self, place: Place) -> None:
        """Remove a table, what was put by for it, and its lists of records."""
        with self._warehouse.cursor() as cursor, transaction(cursor):
            substreams.hide(cursor, place)
            drop(cursor, place)
            drop(cursor, _staged(place))

    @contextmanager
    def _rows_of(
        self, place: Place, readable: Readable, manner: Manner | None = None
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, Sequence[str]]]:
        """Have at hand what can be read; if its manner is given, as what the table has by now."""
        self._warehouse.create_schema(place.schema)
        with self._warehouse.cursor() as cursor:
            text = _text(cursor, place, manner) if manner is not None and _exists(cursor, place) else []
            if manner is not None:
                # The hash of a value must not depend on the other values of its column.
                text += manner.selection.hashed
            with _explained_values(readable), relations(cursor, readable, text) as found:
                if isinstance(readable, Scan) and readable.reader == "read_json":
                    yield cursor, json_lines.verified(cursor, readable, found)
                else:
                    yield cursor, found


@contextmanager
def _explained_values(readable: Readable) -> Iterator[None]:
    """Raise a :class:`StructureError` for an error about a value of a CSV file that has a detected type."""
    try:
        yield
    except duckdb.Error as error:
        reason = csv_errors.explain_value(error, readable)
        if reason is None:
            raise
        raise StructureError(reason) from error


def _carefully(
    cursor: duckdb.DuckDBPyConnection,
    readable: Readable,
    found: Sequence[str],
    load: Callable[[duckdb.DuckDBPyConnection, str], T],
) -> T:
    """Load from the first relation that can be, each in a transaction: the later ones take more time."""
    # By position, within the transaction: a relation can require a reading of its own.
    for position in range(len(found) - 1):
        try:
            return _loaded(cursor, readable, partial(_load_at, cursor, found, position, load), can_retry=True)
        except _MISFITS:
            continue
        except csv_errors.MisreadError:
            break
        except ColumnsError:
            if not protection.can_gain_columns(readable):
                raise
    return _loaded(cursor, readable, partial(_load_at, cursor, found, len(found) - 1, load))


def _load_at(
    cursor: duckdb.DuckDBPyConnection,
    found: Sequence[str],
    position: int,
    load: Callable[[duckdb.DuckDBPyConnection, str], T],
) -> T:
    return load(cursor, found[position])


def _loaded(
    cursor: duckdb.DuckDBPyConnection, readable: Readable, load: Callable[[], T], *, can_retry: bool = False
) -> T:
    try:
        with transaction(cursor):
            with csv_files.verified(cursor, readable):
                loaded = load()
            if isinstance(readable, Scan):
                readable.check()
            return loaded
    except duckdb.Error as error:
        reason = csv_errors.explain(error, readable)
        if reason is None:
            raise
        if can_retry and csv_errors.is_misread(error, readable):
            raise csv_errors.MisreadError from error
        # Other types do not help.
        raise StructureError(reason) from error


class _Loader(Protocol):
    """Loads from a relation. If it is cautious, types that are alike become text."""

    def __call__(self, cursor: duckdb.DuckDBPyConnection, relation: str, *, cautious: bool = False) -> int: ...


def _most_carefully(cursor: duckdb.DuckDBPyConnection, readable: Readable, found: Sequence[str], load: _Loader) -> int:
    try:
        return _carefully(cursor, readable, found, load)
    except _MISFITS:
        # It may be no text that was misread: types that are alike do not take one another's values.
        return _loaded(cursor, readable, partial(load, cursor, found[-1], cautious=True))


def _finish(
    cursor: duckdb.DuckDBPyConnection,
    place: Place,
    manner: Manner,
    told: Told,
    *,
    rows: int,
    before: Note | None,
    cautious: bool = False,
) -> None:
    """Do what belongs to every load, in its transaction."""
    history.hide(cursor, place, manner.signature, before.signature if before else None)
    if manner.keeps_history:
        history.keep(cursor, place, told.run, cautious=cautious)
    substreams.show(cursor, place, manner.key)
    Note(told.run.id, rows, told.size, told.mode, told.trigger, manner.signature).write(cursor, place)


def _text(cursor: duckdb.DuckDBPyConnection, place: Place, manner: Manner) -> list[str]:
    """Give the columns that are text in a table, and at its source. One without values is nothing yet."""
    hashed = {name.casefold() for name in manner.selection.hashed}
    return [
        name
        for name, kind in described(cursor, place.sql)
        if kind == "VARCHAR" and name.casefold() not in hashed and has(cursor, place.sql, f"{quoted(name)} IS NOT NULL")
    ]


def _check_columns(
    cursor: duckdb.DuckDBPyConnection, place: Place, relation: str, readable: Readable, *, manner: Manner, told: Told
) -> None:
    """Raise if the source shares no column name with the table of the previous load, unless the user accepts that."""
    if told.accepts_columns or not _exists(cursor, place) or not has(cursor, place.sql, "true"):
        return
    before, now = ([name for name, _ in described(cursor, each)] for each in (place.sql, relation))
    check_renamed(before, [*now, *protection.left_out(readable)], hide_names=bool(manner.selection.protected))


def _selected(cursor: duckdb.DuckDBPyConnection, relation: str, readable: Readable, manner: Manner) -> str:
    if manner.selection.is_whole:
        return f"SELECT * FROM {relation}"  # noqa: S608 - quoted
    return protection.query_of(cursor, relation, readable, manner.selection)


def _query(cursor: duckdb.DuckDBPyConnection, relation: str, readable: Readable, manner: Manner) -> str:
    query = _selected(cursor, relation, readable, manner)
    if not manner.key or manner.pointer is None:
        return query
    return increment.newest_of_each(query, described(cursor, f"({query})"), manner)


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
