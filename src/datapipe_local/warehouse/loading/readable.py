"""Source data to load: files for a reader of DuckDB, a stored result, or a query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from datapipe_local.warehouse.loading import csv_files, json_lines
from datapipe_local.warehouse.loading.relations import Relations
from datapipe_local.warehouse.loading.types import common_type, converted, described
from datapipe_local.warehouse.warehouse import Scan, WarehouseError, literal, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

#: Name of the table of a :class:`Stored` result.
RESULT = "__result__"


@dataclass(frozen=True)
class Selection:
    """
    Selection of the columns of a source for a table.

    :param excluded: The columns to omit.
    :param hashed: The columns to replace by the SHA-256 of their text, in hexadecimal digits; null stays null.
    :param substreams: Lists of records to omit if the source has them.
    """

    excluded: Collection[str] = ()
    hashed: Collection[str] = ()
    substreams: Collection[str] = ()

    @property
    def is_whole(self) -> bool:
        """True if all columns are loaded unchanged."""
        return not self.excluded and not self.hashed and not self.substreams

    @property
    def protected(self) -> tuple[str, ...]:
        """The columns that the source must have: otherwise their values may be in columns with other names."""
        return (*self.excluded, *self.hashed)

    @property
    def omitted(self) -> set[str]:
        """The names of all omitted columns, in lower case."""
        return {name.casefold() for name in (*self.excluded, *self.substreams)}

    def sql(self, relation: str, columns: Collection[str]) -> str:
        """
        Return the query of the selected columns.

        :param relation: The source, as an SQL relation.
        :param columns: The columns of the source.
        :raises WarehouseError: no column is left.
        """
        excluded, hashed = self.omitted, {name.casefold() for name in self.hashed}
        shown = [
            f"{hash_of(name)} AS {quoted(name)}" if name.casefold() in hashed else quoted(name)
            for name in columns
            if name.casefold() not in excluded
        ]
        if not shown:
            raise WarehouseError("No column would be left: exclude fewer columns")
        return f"SELECT {', '.join(shown)} FROM {relation}"  # noqa: S608 - quoted names


def hash_of(column: str) -> str:
    """Return the expression of a hashed column."""
    return f"sha256(CAST({quoted(column)} AS VARCHAR))"


@dataclass(frozen=True)
class Stored:
    """
    Result in a separate DuckDB file, as the table :data:`RESULT`.

    :param path: The file.
    """

    path: Path


@dataclass(frozen=True)
class Query:
    """
    Query of the service, in DuckDB's dialect.

    :param sql: The query.
    :param instead: A fallback if a value does not fit the types of the query.
    :param left_out: Excluded columns of the source that the query does not read.
    """

    sql: str
    instead: str | None = None
    left_out: tuple[str, ...] = ()


Readable: TypeAlias = Scan | Stored | Query


@contextmanager
def relations(
    cursor: duckdb.DuckDBPyConnection, readable: Readable, text: Collection[str] = ()
) -> Iterator[Sequence[str]]:
    """
    Yield the SQL relations of source data, which exist during the ``with`` block.

    :param cursor: The cursor that reads.
    :param readable: The source data.
    :param text: The columns that stay text if the source has text, whatever their values look like.
    :return: One relation or more. Each accepts more values than the previous one, and takes more time.
    """
    if isinstance(readable, Query):
        yield Relations.of(*(f"({query})" for query in (readable.sql, readable.instead) if query is not None))
        return
    if isinstance(readable, Scan):
        with json_lines.explained(readable) if readable.reader == "read_json" else nullcontext():
            yield relations_of_files(cursor, readable, {name.lower() for name in text})
        return
    alias = f"__stored__{uuid4().hex}"
    cursor.execute(f"ATTACH {literal(str(readable.path))} AS {alias} (READ_ONLY)")
    try:
        yield Relations.of(f"{alias}.main.{RESULT}")
    finally:
        cursor.execute(f"DETACH {alias}")


def relations_of_files(cursor: duckdb.DuckDBPyConnection, scan: Scan, text: Collection[str] = ()) -> Sequence[str]:
    """
    Return the relations of files: types are inferred from their beginning, then from all rows, then more cautiously.

    :param cursor: The cursor that reads.
    :param scan: The files.
    :param text: The columns of CSV files, in lower case, that become text whatever their values are.
    """
    if csv_files.is_csv(scan):
        return Relations(*csv_files.relations_of(cursor, scan, text))
    if scan.reader == "read_json":
        return json_lines.relations_of(cursor, scan)
    if scan.reader == "read_parquet" and len(scan.paths) > 1:
        return Relations(scan.sql, lambda: _file_by_file(cursor, scan))
    return Relations.of(scan.sql())


def _file_by_file(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> str:
    """Return a relation that reads each file with its own types, and converts them to common types."""
    files = [replace(scan, path=path).sql() for path in scan.paths]
    columns = [described(cursor, file) for file in files]
    wanted: dict[str, str] = {}
    for name, kind in (column for each in columns for column in each):
        wanted[name.lower()] = common_type(cursor, wanted.get(name.lower(), kind), kind)
    parts = []
    for file, typed in zip(files, columns, strict=True):
        shown = ", ".join(f"{converted(name, kind, wanted[name.lower()])} AS {quoted(name)}" for name, kind in typed)
        parts.append(f"SELECT {shown} FROM {file}")  # noqa: S608 - quoted names
    return f"({' UNION ALL BY NAME '.join(parts)})"
