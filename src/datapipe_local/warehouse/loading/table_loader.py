"""Loader of warehouse tables: the rows of a source enter a table here, in full, in slices, or incrementally."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import duckdb

from datapipe_local.warehouse.loading import (
    csv_errors,
    csv_files,
    history,
    incremental,
    json_lines,
    protection,
    substreams,
)
from datapipe_local.warehouse.loading.columns import ColumnsError, check_renamed
from datapipe_local.warehouse.loading.incremental import OutdatedError
from datapipe_local.warehouse.loading.load_options import LoadOptions, Note, Run
from datapipe_local.warehouse.loading.readable import relations
from datapipe_local.warehouse.loading.types import described, has
from datapipe_local.warehouse.statements import StructureError
from datapipe_local.warehouse.warehouse import Place, Scan, WarehouseError, drop, number, quoted, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from datapipe_local.warehouse.loading.incremental import Newest
    from datapipe_local.warehouse.loading.readable import Readable
    from datapipe_local.warehouse.warehouse import Warehouse

T = TypeVar("T")

#: Prefix of the staging table of a load in slices. No other table name starts with it.
_STAGED = "__staged__"
#: Prefix of a staged column named rowid: it would hide DuckDB's numbers of rows.
_RENAMED = "__renamed__"
_ROWID = "rowid"
#: Errors of values that do not fit a column type.
_MISFITS = (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)


class Slice(NamedTuple):
    """Part of a load: the number of rows it added, and whether it was the last part."""

    rows: int
    is_last: bool


class TableColumn(NamedTuple):
    """Column of a table, and whether it contains hashes."""

    name: str
    type: str
    hashed: bool


class TableShape(NamedTuple):
    """
    Columns of a table.

    :param columns: The columns.
    :param rows: The number of rows that the last load moved; None while a load in slices goes on.
    """

    columns: list[TableColumn]
    rows: int | None


class LoadFacts(NamedTuple):
    """
    Facts about a load that are stored with its table.

    :param run: The run.
    :param size: The number of bytes that the run has read at the source.
    :param mode: The load mode, in the terms of the interface.
    :param trigger: The reason for a full load, if it is one.
    :param accepts_columns: The source may share no column name with the table of the previous load.
    """

    run: Run
    size: int
    mode: str
    trigger: str
    accepts_columns: bool = False


class TableLoader:
    """
    Loader of warehouse tables. Each method changes a table completely or not at all.

    :param warehouse: The warehouse.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def last_load(self, place: Place) -> Note | None:
        """Return the note about the last load of a table, if there is one."""
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
            return TableShape(columns, note.rows if note and note.run else None)

    def load_all_rows(self, place: Place, readable: Readable, options: LoadOptions, facts: LoadFacts) -> int:
        """
        Replace a table with the rows of its source.

        The types of a CSV file's columns are inferred from its beginning; if a later row does not fit them, from the
        whole file.

        :param place: The table; it need not exist.
        :param readable: The source data.
        :param options: The load options.
        :param facts: The facts to store with the table.
        :return: The number of rows.
        :raises WarehouseError: the source cannot be read; the table is unchanged.
        """

        def load(cursor: duckdb.DuckDBPyConnection, relation: str, *, cautious: bool = False) -> int:
            before = Note.read(cursor, place)
            query = _query(cursor, relation, readable, options)
            _check_columns(cursor, place, relation, readable, options=options, facts=facts)
            rows = _create(cursor, place, query)
            _finish(cursor, place, options, facts, rows=rows, before=before, cautious=cautious)
            return rows

        with self._rows_of(place, readable, options) as (cursor, found):
            return _most_carefully(cursor, readable, found, load)

    def newest_pointer(self, place: Place, options: LoadOptions) -> Newest | None:
        """Return the value from which :meth:`load_new_rows` needs rows, if it can be determined."""
        with self._warehouse.cursor() as cursor:
            return incremental.newest(cursor, place, options)

    def load_new_rows(
        self, place: Place, readable: Readable, options: LoadOptions, facts: LoadFacts, *, since: Newest | None = None
    ) -> int:
        """
        Add the new rows of a source to a table.

        :param since: The value of :meth:`newest_pointer` from which the source was read; ``None`` if it was read
            completely.
        :return: The number of added or changed rows.
        :raises OutdatedError: a full load is needed; the table is unchanged.
        :raises WarehouseError: the source cannot be read; the table is unchanged.
        """

        def load(cursor: duckdb.DuckDBPyConnection, relation: str, *, cautious: bool = False) -> int:
            before = Note.read(cursor, place)
            if since is not None and incremental.newest(cursor, place, options) != since:
                raise OutdatedError("its table was changed while its source was read")
            query = _selected(cursor, relation, readable, options)
            incremental.check(cursor, place, query, options)
            rows = incremental.add(cursor, place, query, options, cautious=cautious)
            _finish(cursor, place, options, facts, rows=rows, before=before, cautious=cautious)
            return rows

        with self._rows_of(place, readable, options, is_incremental=True) as (cursor, found):
            return _most_carefully(cursor, readable, found, load)

    def load_first_slice(
        self, place: Place, readable: Readable, size: int, options: LoadOptions, facts: LoadFacts
    ) -> Slice:
        """
        Replace a table with the first rows of its source, and stage all rows for :meth:`load_next_slice`.

        :param size: The largest number of rows of the slice.
        :return: The slice. If it has all rows, nothing stays staged.
        :raises WarehouseError: the source cannot be read; the table is unchanged.
        """
        staged = _staged(place)

        def stage(cursor: duckdb.DuckDBPyConnection, relation: str) -> int:
            query = _query(cursor, relation, readable, options)
            _check_columns(cursor, place, relation, readable, options=options, facts=facts)
            return _create(cursor, staged, _without_rowid(cursor, query))

        with self._rows_of(place, readable, options) as (cursor, found):
            # In a separate transaction: row IDs are final only after the commit.
            total = _carefully(cursor, readable, found, stage)
            with transaction(cursor):
                before = Note.read(cursor, place)
                if total > size:
                    rows = _create(cursor, place, _part(cursor, staged, 0, size))
                    history.hide(cursor, place, options.signature, before.signature if before else None)
                    # The options can change before the last slice.
                    _note(facts, rows, options.signature, run=None).write(cursor, place)
                    return Slice(rows, is_last=False)
                drop(cursor, place)
                cursor.execute(f"ALTER TABLE {staged.sql} RENAME TO {quoted(place.name)}")
                for renamed, name in _renamed(cursor, place):
                    cursor.execute(f"ALTER TABLE {place.sql} RENAME COLUMN {quoted(renamed)} TO {quoted(name)}")
                _finish(cursor, place, options, facts, rows=total, before=before)
                return Slice(total, is_last=True)

    def load_next_slice(
        self, place: Place, start: int, size: int | None, options: LoadOptions, facts: LoadFacts
    ) -> Slice:
        """
        Add the next staged rows. Idempotent: a repetition after a kill adds no row twice.

        :param place: The table.
        :param start: The number of rows that the previous slices added.
        :param size: The largest number of rows of the slice; ``None`` for all remaining rows.
        :param options: The load options. All slices have the columns that were selected at the first one: if they have
            changed, the next load is a full one.
        :param facts: The facts to store with the table after the last slice.
        :raises WarehouseError: the table was changed by others.
        """
        staged = _staged(place)
        with self._warehouse.cursor() as cursor, transaction(cursor):
            there = _count(cursor, place)
            if not _exists(cursor, staged):
                # The last slice was added, and the process was killed before it could record that.
                return Slice(there - start, is_last=True)
            total = _count(cursor, staged)
            end = total if size is None else min(start + size, total)
            if there == start:
                cursor.execute(f"INSERT INTO {place.sql} {_part(cursor, staged, start, end)}")
            elif there != end:
                raise WarehouseError(f"{place} has {there} rows instead of the {start} loaded ones")
            if end == total:
                drop(cursor, staged)
                first = Note.read(cursor, place)
                if first is None:
                    raise WarehouseError(f"{place} has no record of its first slice")
                _finish(cursor, place, options, facts, rows=end - start, before=first, signature=first.signature)
            return Slice(end - start, is_last=end == total)

    def related_tables(self, place: Place) -> list[Place]:
        """Return the tables and views that belong to a table: its history and its substreams."""
        with self._warehouse.cursor() as cursor:
            past = history.history_of(place)
            return [*([past] if _exists(cursor, past) else []), *substreams.views(cursor, place)]

    def drop(self, place: Place) -> None:
        """Remove a table, its staging table and its substreams."""
        with self._warehouse.cursor() as cursor, transaction(cursor):
            substreams.hide(cursor, place)
            drop(cursor, place)
            drop(cursor, _staged(place))

    @contextmanager
    def _rows_of(
        self, place: Place, readable: Readable, options: LoadOptions, *, is_incremental: bool = False
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, Sequence[str]]]:
        """Yield the relations of the source."""
        self._warehouse.create_schema(place.schema)
        with self._warehouse.cursor() as cursor:
            text = _text(cursor, place, options) if is_incremental and _exists(cursor, place) else []
            # The hash of a value must not depend on the other values of its column.
            text += options.selection.hashed
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
    """Load from the first relation that works, each in a transaction. Later relations take more time."""
    # Look relations up by position, within the transaction: one can require its own read.
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
        # Other column types do not help.
        raise StructureError(reason) from error


class _Loader(Protocol):
    """Load function. If it is cautious, it turns ambiguous types into text."""

    def __call__(self, cursor: duckdb.DuckDBPyConnection, relation: str, *, cautious: bool = False) -> int: ...


def _most_carefully(cursor: duckdb.DuckDBPyConnection, readable: Readable, found: Sequence[str], load: _Loader) -> int:
    try:
        return _carefully(cursor, readable, found, load)
    except _MISFITS:
        # The cause may not be misread text: similar types do not accept each other's values.
        return _loaded(cursor, readable, partial(load, cursor, found[-1], cautious=True))


def _finish(
    cursor: duckdb.DuckDBPyConnection,
    place: Place,
    options: LoadOptions,
    facts: LoadFacts,
    *,
    rows: int,
    before: Note | None,
    signature: list[object] | None = None,
    cautious: bool = False,
) -> None:
    """Do the steps that all loads have in common, in the transaction of the load."""
    signature = options.signature if signature is None else signature
    history.hide(cursor, place, signature, before.signature if before else None)
    if options.keeps_history:
        history.keep(cursor, place, facts.run, cautious=cautious)
    substreams.show(cursor, place, options.key)
    _note(facts, rows, signature, run=facts.run.id).write(cursor, place)


def _note(facts: LoadFacts, rows: int, signature: list[object], *, run: str | None) -> Note:
    return Note(run, rows, facts.size, facts.mode, facts.trigger, signature)


def _text(cursor: duckdb.DuckDBPyConnection, place: Place, options: LoadOptions) -> list[str]:
    """Return the columns that must stay text, because they are text with values in the table."""
    hashed = {name.casefold() for name in options.selection.hashed}
    return [
        name
        for name, kind in described(cursor, place.sql)
        if kind == "VARCHAR" and name.casefold() not in hashed and has(cursor, place.sql, f"{quoted(name)} IS NOT NULL")
    ]


def _check_columns(
    cursor: duckdb.DuckDBPyConnection,
    place: Place,
    relation: str,
    readable: Readable,
    *,
    options: LoadOptions,
    facts: LoadFacts,
) -> None:
    """Raise if the source shares no column name with the table of the previous load, unless the user accepts that."""
    if facts.accepts_columns or not _exists(cursor, place) or not has(cursor, place.sql, "true"):
        return
    before, now = ([name for name, _ in described(cursor, each)] for each in (place.sql, relation))
    if before == [json_lines.NO_FIELDS] and isinstance(readable, Scan) and json_lines.is_pushed(readable):
        return
    check_renamed(before, [*now, *protection.left_out(readable)], hide_names=bool(options.selection.protected))


def _selected(cursor: duckdb.DuckDBPyConnection, relation: str, readable: Readable, options: LoadOptions) -> str:
    if options.selection.is_whole:
        return f"SELECT * FROM {relation}"  # noqa: S608 - quoted names
    return protection.query_of(cursor, relation, readable, options.selection)


def _query(cursor: duckdb.DuckDBPyConnection, relation: str, readable: Readable, options: LoadOptions) -> str:
    query = _selected(cursor, relation, readable, options)
    if not options.key or options.pointer is None:
        return query
    return incremental.newest_of_each(query, described(cursor, f"({query})"), options)


def _create(cursor: duckdb.DuckDBPyConnection, place: Place, query: str) -> int:
    return number(cursor.execute(f"CREATE OR REPLACE TABLE {place.sql} AS {query}"))


def _without_rowid(cursor: duckdb.DuckDBPyConnection, query: str) -> str:
    """Return a query with the same columns, of which none is named rowid."""
    for name, _ in described(cursor, f"({query})"):
        if name.lower() == _ROWID:
            return f"SELECT * RENAME ({quoted(name)} AS {quoted(_RENAMED + name)}) FROM ({query})"  # noqa: S608 - quoted names
    return query


def _renamed(cursor: duckdb.DuckDBPyConnection, staged: Place) -> list[tuple[str, str]]:
    """Return the columns that :func:`_without_rowid` has renamed, each with its original name."""
    names = [name for name, _ in described(cursor, staged.sql)]
    return [(name, name.removeprefix(_RENAMED)) for name in names if name.lower() == _RENAMED + _ROWID]


def _part(cursor: duckdb.DuckDBPyConnection, staged: Place, start: int, end: int) -> str:
    renamed = ", ".join(f"{quoted(now)} AS {quoted(name)}" for now, name in _renamed(cursor, staged))
    star = f"* RENAME ({renamed})" if renamed else "*"
    # Rows of a table that was created in one statement and never changed are numbered from 0.
    return f"SELECT {star} FROM {staged.sql} WHERE rowid >= {start} AND rowid < {end}"  # noqa: S608 - quoted names


def _count(cursor: duckdb.DuckDBPyConnection, place: Place) -> int:
    return number(cursor.execute(f"SELECT count(*) FROM {place.sql}"))  # noqa: S608 - quoted names


def _exists(cursor: duckdb.DuckDBPyConnection, place: Place) -> bool:
    found = cursor.execute(
        "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database()"
        " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
        [*place],
    ).fetchone()
    return found is not None


def _staged(place: Place) -> Place:
    return Place(place.schema, f"{_STAGED}{place.name}")
