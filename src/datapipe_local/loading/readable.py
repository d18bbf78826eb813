"""What can be loaded: files for one of DuckDB's readers, a stored result, a query."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import duckdb

from datapipe_local.loading.types import common_type, converted, described
from datapipe_local.warehouse import Scan, WarehouseError, literal, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The table of a :class:`Stored` result.
RESULT = "__result__"
#: The types of CSV, without those of times and truth.
_NUMBERS_AND_TEXT = ["BIGINT", "BIGNUM", "DOUBLE", "VARCHAR"]
#: Has each field of a row be a column, however many there are, and however rare they are.
_BY_COLUMN = {"map_inference_threshold": -1, "field_appearance_threshold": 0}


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
        :raises WarehouseError: none is left of them.
        """
        excluded, hashed = ({name.casefold() for name in names} for names in (self.excluded, self.hashed))
        shown = [
            f"{hash_of(name)} AS {quoted(name)}" if name.casefold() in hashed else quoted(name)
            for name in columns
            if name.casefold() not in excluded
        ]
        if not shown:
            raise WarehouseError("No column would be left: exclude fewer")
        return f"SELECT {', '.join(shown)} FROM {relation}"  # noqa: S608 - quoted


def hash_of(column: str) -> str:
    """Give the expression of what a hashed column holds."""
    return f"sha256(CAST({quoted(column)} AS VARCHAR))"


@dataclass(frozen=True)
class Stored:
    """
    A result that stands in a DuckDB file of its own, as the table :data:`RESULT`.

    :param path: The file.
    """

    path: Path


@dataclass(frozen=True)
class Query:
    """
    A query of our own, in DuckDB's words.

    :param sql: The query.
    :param instead: What is tried if a value does not fit the types of it.
    """

    sql: str
    instead: str | None = None


Readable: TypeAlias = Scan | Stored | Query


@contextmanager
def relations(cursor: duckdb.DuckDBPyConnection, readable: Readable, text: Collection[str] = ()) -> Iterator[list[str]]:
    """
    Give what SQL can read, for the time of a ``with`` block.

    :param cursor: By which it is read.
    :param readable: What is to be read.
    :param text: Columns that are text wherever they are written as text, whatever they look like.
    :return: One relation or more: if a value does not fit the types of one, the next takes more time and more care.
    """
    if isinstance(readable, Query):
        yield [f"({query})" for query in (readable.sql, readable.instead) if query is not None]
        return
    if isinstance(readable, Scan):
        yield ways(cursor, _with_text(cursor, readable, {name.lower() for name in text}))
        return
    alias = f"__stored__{uuid4().hex}"
    cursor.execute(f"ATTACH {literal(str(readable.path))} AS {alias} (READ_ONLY)")
    try:
        yield [f"{alias}.main.{RESULT}"]
    finally:
        cursor.execute(f"DETACH {alias}")


def ways(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> list[str]:
    """Give the ways to read a file: types are inferred from its beginning, then from all of it, then fewer of them."""
    given = scan.options.keys()
    if scan.reader == "read_csv" and "sample_size" not in given:
        # Days that are written in several ways, and words of truth among numbers, are errors to DuckDB, and no text.
        fewer = (["BOOLEAN", *_NUMBERS_AND_TEXT], _NUMBERS_AND_TEXT)
        careful = [scan.sql(sample_size=-1, auto_type_candidates=types) for types in fewer]
        return [scan.sql(), scan.sql(sample_size=-1), *careful]
    if scan.reader == "read_json" and not given & {"columns", "sample_size"}:
        more = _BY_COLUMN if _is_one_map(cursor, scan) else {}
        return [scan.sql(**more), scan.sql(**more, sample_size=-1)]
    if scan.reader == "read_parquet" and len(scan.paths) > 1:
        return [scan.sql(), _file_by_file(cursor, scan)]
    return [scan.sql()]


def _with_text(cursor: duckdb.DuckDBPyConnection, scan: Scan, text: Collection[str]) -> Scan:
    """Have columns of CSV read as text."""
    if scan.reader != "read_csv" or not text:
        return scan
    try:
        present = [name for name, _ in described(cursor, scan.sql())]
    except duckdb.Error:
        # Whoever reads it says what is wrong.
        return scan
    given = scan.options.get("types", {})
    taken = {name.lower() for name in given}
    found = {name: "VARCHAR" for name in present if name.lower() in text and name.lower() not in taken}
    return replace(scan, options={**scan.options, "types": {**given, **found}}) if found else scan


def _file_by_file(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> str:
    """Read files that say of which type their columns are, each as what it says, into types that take all of them."""
    files = [replace(scan, path=path).sql() for path in scan.paths]
    columns = [described(cursor, file) for file in files]
    wanted: dict[str, str] = {}
    for name, kind in (column for each in columns for column in each):
        wanted[name.lower()] = common_type(cursor, wanted.get(name.lower(), kind), kind)
    parts = []
    for file, typed in zip(files, columns, strict=True):
        shown = ", ".join(f"{converted(name, kind, wanted[name.lower()])} AS {quoted(name)}" for name, kind in typed)
        parts.append(f"SELECT {shown} FROM {file}")  # noqa: S608 - quoted
    return f"({' UNION ALL BY NAME '.join(parts)})"


def _is_one_map(cursor: duckdb.DuckDBPyConnection, scan: Scan) -> bool:
    """Tell whether rows have so many fields that DuckDB takes them for one value."""
    columns = cursor.execute(f"DESCRIBE FROM {scan.sql()}").fetchall()
    return len(columns) == 1 and str(columns[0][1]).startswith("MAP(")
