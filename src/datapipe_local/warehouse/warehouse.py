"""Warehouse: a DuckDB file."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from datapipe_local.common.errors import SetupError
from datapipe_local.storage import write_failures
from datapipe_local.warehouse import query_rules
from datapipe_local.warehouse.query_process.pool import QueryProcesses
from datapipe_local.warehouse.statements import Statements, WarehouseError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "NESTED",
    "Column",
    "Place",
    "Scan",
    "Unfinished",
    "Warehouse",
    "WarehouseError",
    "as_json_can",
    "drop",
    "exists_at",
    "literal",
    "number",
    "one_line",
    "quoted",
    "transaction",
    "with_nested",
]

#: The engine runs this number at a time.
_MOST_PREVIEWS = 4
_MOST_REPORTS = 8
#: Prefix of the names of unfinished tables of :meth:`Warehouse.build`.
_UNFINISHED = "__unfinished__"
#: Types whose values arrive as JSON.
NESTED = re.compile(r"(STRUCT|MAP|UNION)\(|.*\]$|JSON$")


class Place(NamedTuple):
    """Schema and name of a table or view."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """Quoted name for SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


class Column(NamedTuple):
    """Column of a table, view or query."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Scan:
    """
    File, or several files read as one, for a reader of DuckDB.

    :param reader: The reader, such as ``read_csv``.
    :param path: The file, or the files.
    :param options: The reader's options.
    :param stamps: The identity and size of each file, as :meth:`stamped` recorded them.
    :param names: The names of the files for messages, in the order of the paths.
    """

    reader: str
    path: Path | tuple[Path, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    stamps: tuple[tuple[int, int, int], ...] = ()
    names: tuple[str, ...] = ()

    def name_of(self, path: Path) -> str:
        """Return the name of a file for messages."""
        return dict(zip(self.paths, self.names, strict=False)).get(path, str(path))

    def prefix_of(self, path: Path) -> str:
        """Return the name of a file as the beginning of a message; empty if it is the only file."""
        return f"{self.name_of(path)}: " if len(self.paths) > 1 else ""

    def stamped(self) -> Scan:
        """Return a copy with the present identity and size of the files."""
        return replace(self, stamps=tuple(map(_stamp, self.paths)))

    def check(self) -> None:
        """
        Raise if a file was replaced or truncated: DuckDB opens files more than once.

        A file that has grown is accepted.

        :raises WarehouseError: a file was replaced, truncated or removed.
        """
        for path, before in zip(self.paths, self.stamps, strict=False):
            try:
                now = _stamp(path)
            except OSError as error:
                raise WarehouseError(f"{path} was removed while it was read") from error
            if now[:2] != before[:2] or now[2] < before[2]:
                raise WarehouseError(f"{path} was replaced while it was read: run the stream again")

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        return self.path if isinstance(self.path, tuple) else (self.path,)

    def sql(self, **more: Any) -> str:
        """Return the SQL that calls the reader."""
        options = {**self.options, **more}
        where = [str(path) for path in self.paths] if isinstance(self.path, tuple) else str(self.path)
        arguments = [literal(where), *(f"{name} = {literal(value)}" for name, value in options.items())]
        return f"{self.reader}({', '.join(arguments)})"


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size


class Warehouse(Statements):
    """
    Open warehouse, for all threads: each statement gets its own cursor.

    Each method makes its changes completely or not at all, also if the process is killed.

    :param path: The file; it is created if it does not exist.
    :param scratch: A folder for data that does not fit into memory.
    :param memory_limit: The memory limit of DuckDB, such as ``2GB``; ``None`` for four fifths of the machine's memory.
    :raises SetupError: the file cannot be opened.
    """

    def __init__(self, path: Path, scratch: Path, memory_limit: str | None = None) -> None:
        def connect() -> duckdb.DuckDBPyConnection:
            connection = duckdb.connect(
                str(path),
                config={
                    # No downloads that the user did not request.
                    "autoinstall_known_extensions": False,
                    # Python variables of this program are not tables.
                    "python_enable_replacements": False,
                    "temp_directory": str(scratch / "duckdb"),
                    # SQL promises no order; without one, loads are faster and need little memory.
                    "preserve_insertion_order": False,
                    **({} if memory_limit is None else {"memory_limit": memory_limit}),
                },
            )
            use_utc(connection)
            return connection

        try:
            super().__init__(connect, path.parent)
        except duckdb.Error as error:
            failed = write_failures.failure(error, path.parent)
            reason = one_line(error) if failed is None else f"{failed.reason}: {failed.advice}."
            raise SetupError(f"Cannot open the warehouse {path}: {reason}") from error
        # DuckDB creates the file with the umask of the process.
        path.chmod(0o600)
        #: Folder for temporary files.
        self.scratch = scratch
        self._schemas = threading.Lock()
        #: Processes for queries with a time limit. They are separate, so that these queries do not wait long.
        self.preview_processes = QueryProcesses(self._memory_bytes, _MOST_PREVIEWS)
        #: Processes for queries without a time limit.
        self.report_processes = QueryProcesses(self._memory_bytes, _MOST_REPORTS)

    def close(self) -> None:
        """Close the file and stop the query processes. No thread may use it any more."""
        self.preview_processes.close()
        self.report_processes.close()
        super().close()

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """
        Run all statements of this thread in the block in one transaction. A nested block joins the outer transaction.

        :return: The cursor of the transaction.
        :raises WarehouseError: DuckDB refuses a statement; nothing is changed.
        """
        with self.cursor() as cursor:
            if self._shared is not None:
                yield cursor
                return
            with transaction(cursor), self.sharing(cursor):
                yield cursor

    def clear(self) -> None:
        """Remove all tables, views and schemas."""
        with self.transaction() as cursor:
            tables = cursor.execute(
                "SELECT table_schema, table_name FROM information_schema.tables"
                " WHERE table_catalog = current_database() AND table_schema = 'main'"
            ).fetchall()
            for schema, name in tables:
                drop(cursor, Place(schema, name))
            schemas = cursor.execute(
                "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() AND NOT internal"
            ).fetchall()
            for (schema,) in schemas:
                if schema != "main":
                    cursor.execute(f"DROP SCHEMA {quoted(schema)} CASCADE")

    def create_view(
        self, place: Place, query: str, *, instead_of: Place | None = None, comment: str | None = None
    ) -> None:
        """
        Create or replace a view.

        :param place: The view.
        :param query: Its query.
        :param instead_of: Another table or view to remove in the same transaction.
        :param comment: A comment to store with the view.
        :raises WarehouseError: DuckDB refuses the query; nothing is changed.
        """
        self.create_schema(place.schema)
        with self.transaction() as cursor:
            for old in {instead_of or place, place}:
                drop(cursor, old)
            cursor.execute(f"CREATE VIEW {place.sql} AS {query}")
            # DuckDB binds the whole query only now, and reports its errors.
            cursor.execute(f"DESCRIBE {place.sql}")
            if comment is not None:
                cursor.execute(f"COMMENT ON VIEW {place.sql} IS {literal(comment)}")

    def view_comments(self) -> list[tuple[Place, str]]:
        """Return the views that have a comment, and their comments."""
        with self.cursor() as cursor:
            found = cursor.execute(
                "SELECT schema_name, view_name, comment FROM duckdb_views()"
                " WHERE database_name = current_database() AND comment IS NOT NULL"
            ).fetchall()
        return [(Place(schema, name), comment) for schema, name, comment in found]

    def has(self, place: Place) -> bool:
        """Return True if the table or view exists."""
        with self.cursor() as cursor:
            return exists_at(cursor, place)

    def build(self, place: Place, query: str, publication: int) -> Unfinished:
        """
        Build a table under a temporary name.

        :param place: The final place of the table.
        :param query: Its query.
        :param publication: A number that distinguishes builds of the same table.
        :raises WarehouseError: the query fails.
        """
        self.create_schema(place.schema)
        unfinished = Unfinished(Place(place.schema, f"{_UNFINISHED}{place.name}_{publication}"), place)
        with self.cursor() as cursor:
            cursor.execute(f"CREATE OR REPLACE TABLE {unfinished.built.sql} AS {query}")
        return unfinished

    def show(self, unfinished: Unfinished, *, instead_of: Place | None = None) -> None:
        """
        Move a built table to its final place, and replace the table or view there.

        :param unfinished: The result of :meth:`build`.
        :param instead_of: Another table or view to remove in the same transaction.
        """
        with self.cursor() as cursor, transaction(cursor):
            if not exists_at(cursor, unfinished.built):
                # An earlier call has done this, and was killed before the caller recorded it.
                return
            for old in {instead_of or unfinished.place, unfinished.place}:
                drop(cursor, old)
            cursor.execute(f"ALTER TABLE {unfinished.built.sql} RENAME TO {quoted(unfinished.place.name)}")

    def drop(self, place: Place) -> None:
        """Remove a table or view if it exists."""
        with self.cursor() as cursor, transaction(cursor):
            drop(cursor, place)

    def discard_all_unfinished(self) -> None:
        """Remove the unfinished tables that a killed process has left."""
        with self.cursor() as cursor:
            left = cursor.execute(
                "SELECT schema_name, table_name FROM duckdb_tables()"
                " WHERE database_name = current_database() AND starts_with(table_name, ?)",
                [_UNFINISHED],
            ).fetchall()
            for schema, name in left:
                cursor.execute(f"DROP TABLE {Place(schema, name).sql}")

    def check_query(self, query: str) -> None:
        """
        Raise if a text is not a single query that only reads the warehouse.

        The service embeds the text in its own statements.

        :raises WarehouseError: it is not.
        """
        with self.cursor() as cursor:
            if query_rules.is_too_nested(query):
                raise WarehouseError("The SQL is nested too deeply.")
            statements = cursor.extract_statements(query)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise WarehouseError("The SQL must be a single SELECT.")
            try:
                tree = query_rules.syntax_tree(cursor, query)
            except RecursionError:
                raise WarehouseError("The SQL is nested too deeply.") from None
            if tree.get("error") is not False:
                raise WarehouseError("The SQL must be a single SELECT.")
            obstacle, tables = query_rules.reading(tree, query_rules.system_views())
            if obstacle is not None:
                raise WarehouseError(f"{obstacle}.")
            for table in tables:
                if _type_at(cursor, Place(*table)) is None:
                    raise WarehouseError(f"There is no table {table.schema[:100]}.{table.name[:100]}.")

    def columns(self, query: str) -> list[Column]:
        """
        Return the columns of a query.

        :raises WarehouseError: DuckDB refuses it.
        """
        with self.cursor() as cursor:
            described = cursor.execute(f"DESCRIBE {query}").fetchall()
        return [Column(name, kind, null == "YES") for name, kind, null, *_ in described]

    def count(self, place: Place) -> int:
        """
        Return the number of rows of a table or view.

        :raises WarehouseError: it does not exist, or its query fails.
        """
        with self.cursor() as cursor:
            return number(cursor.execute(f"SELECT count(*) FROM {place.sql}"))  # noqa: S608 - quoted names

    def distinct_rows(
        self, place: Place, columns: Sequence[str], keys: Sequence[str], batch: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """
        Yield columns of a table or view, one row per key, in batches.

        Of several rows with the same key, the first in the order of its values is returned.

        :param place: The table or view.
        :param columns: The columns, in the wanted order; they must exist.
        :param keys: The key columns; without any, every row is returned.
        :param batch: The number of rows of a batch.
        :raises WarehouseError: the table does not exist, or its query fails.
        """
        kinds = {column.name: column.type for column in self.columns(f"FROM {place.sql}")}
        shown = [as_json_can(name, kinds[name]) for name in columns]
        nested = [index for index, name in enumerate(columns) if NESTED.match(kinds[name])]
        only = f"DISTINCT ON ({', '.join(map(quoted, keys))})" if keys else ""
        order = f"ORDER BY {', '.join(map(quoted, columns))}" if keys else ""
        with self.cursor() as cursor:
            cursor.execute(f"SELECT {only} {', '.join(shown)} FROM {place.sql} {order}")  # noqa: S608 - quoted names
            while rows := cursor.fetchmany(batch):
                yield [with_nested(row, nested) for row in rows] if nested else rows

    def _memory_bytes(self) -> int:
        with self.cursor() as cursor:
            row = cursor.execute("SELECT current_setting('memory_limit')").fetchone()
        return bytes_of(str(row[0]) if row else "")

    def create_schema(self, schema: str) -> None:
        """Create a schema if it does not exist."""
        # If two threads create the same schema at once, DuckDB fails one of them.
        with self._schemas, self.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")


class Unfinished(NamedTuple):
    """Table that was built under a temporary name, and its final place."""

    built: Place
    place: Place


def bytes_of(size: str) -> int:
    """Return the number of bytes of a size as DuckDB shows it, such as ``1.5 GiB``."""
    amount, _, unit = size.partition(" ")
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    return int(float(amount) * 1024 ** units.index(unit))


def use_utc(connection: duckdb.DuckDBPyConnection) -> None:
    """Set the time zone of a database: results must not depend on the machine."""
    connection.execute("SET GLOBAL TimeZone = 'UTC'")


@contextmanager
def transaction(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run the block in a transaction."""
    cursor.execute("BEGIN")
    try:
        yield
    except BaseException:
        # A database that a failed write has invalidated refuses ROLLBACK, too: the first error is the cause.
        with suppress(duckdb.FatalException, duckdb.TransactionException):
            cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")


def drop(cursor: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Remove a table or view if it exists."""
    # DROP TABLE refuses a view and DROP VIEW a table, even with IF EXISTS.
    found = _type_at(cursor, place)
    if found is not None:
        cursor.execute(f"DROP {'VIEW' if found == 'VIEW' else 'TABLE'} {place.sql}")


def exists_at(cursor: duckdb.DuckDBPyConnection, place: Place) -> bool:
    """Return True if the table or view exists."""
    return _type_at(cursor, place) is not None


def _type_at(cursor: duckdb.DuckDBPyConnection, place: Place) -> str | None:
    found = cursor.execute(
        "SELECT table_type FROM information_schema.tables"
        " WHERE table_catalog = current_database() AND lower(table_schema) = lower(?) AND lower(table_name) = lower(?)",
        [*place],
    ).fetchone()
    return str(found[0]) if found else None


def number(result: duckdb.DuckDBPyConnection) -> int:
    """Return the first column of the first row; 0 without rows."""
    row = result.fetchone()
    return int(row[0]) if row else 0


def as_json_can(column: str, kind: str) -> str:
    """Return the SQL that reads a column as a plain value: DuckDB needs pytz for times with a zone."""
    named = quoted(column)
    if kind in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"):
        # Microseconds: the rest is not significant. DuckDB's own %n garbles nanoseconds.
        return f"strftime(timezone('UTC', {named}), '%Y-%m-%dT%H:%M:%S.%fZ')"
    return f"to_json({named})::VARCHAR" if NESTED.match(kind) else named


def with_nested(row: tuple[Any, ...], nested: Sequence[int]) -> tuple[Any, ...]:
    """Parse the values that :func:`as_json_can` wrote as JSON, at the given positions of a row."""
    values = list(row)
    for index in nested:
        if values[index] is not None:
            values[index] = json.loads(values[index])
    return tuple(values)


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """Return a value as an SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(entry)}" for key, entry in value.items()) + "}"
    return "[" + ", ".join(map(literal, value)) + "]"
