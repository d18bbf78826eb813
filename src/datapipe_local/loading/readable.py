"""What can be loaded: files for one of DuckDB's readers, a stored result, a query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, overload
from uuid import uuid4

from datapipe_local.loading import csv_files, json_lines
from datapipe_local.loading.types import common_type, converted, described
from datapipe_local.warehouse import Scan, WarehouseError, literal, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import duckdb

#: The table of a :class:`Stored` result.
RESULT = "__result__"


@dataclass(frozen=True)
class Selection:
    """
    Columns of a source that a table gets.

    :param excluded: Left out.
    :param hashed: Replaced by the SHA-256 of their text, in hexadecimal digits; null stays null.
    :param substreams: Lists of records that are left out if the source has them.
    """

    excluded: Collection[str] = ()
    hashed: Collection[str] = ()
    substreams: Collection[str] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether it is all of the columns as they are."""
        return not self.excluded and not self.hashed and not self.substreams

    @property
    def protected(self) -> tuple[str, ...]:
        """The columns that the source must have: else their values can be in columns with other names."""
        return (*self.excluded, *self.hashed)

    @property
    def omitted(self) -> set[str]:
        """The names of all columns that are left out, in lower case."""
        return {name.casefold() for name in (*self.excluded, *self.substreams)}

    def sql(self, relation: str, columns: Collection[str]) -> str:
        """
        Give the query of the selected columns.

        :param relation: What is read, as SQL names it.
        :param columns: The columns that it has.
        :raises WarehouseError: none is left of them.
        """
        excluded, hashed = self.omitted, {name.casefold() for name in self.hashed}
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
    :param left_out: Columns that the source has and the query has not, because they are excluded.
    """

    sql: str
    instead: str | None = None
    left_out: tuple[str, ...] = ()


Readable: TypeAlias = Scan | Stored | Query


class Relations(Sequence[str]):
    """
    Relations of the same rows: if a value does not fit the types of one, the next takes more time and more care.

    :param makers: Functions that return a relation. They are called when it is needed, and not twice.
    """

    def __init__(self, *makers: Callable[[], str]) -> None:
        self._makers = [cache(make) for make in makers]

    @classmethod
    def of(cls, *relations: str) -> Relations:
        """Return relations that are known."""
        return cls(*((lambda relation=relation: relation) for relation in relations))

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Relations: ...

    def __getitem__(self, index: int | slice) -> str | Relations:
        """Return a relation, or some of them."""
        return Relations(*self._makers[index]) if isinstance(index, slice) else self._makers[index]()

    def __len__(self) -> int:
        """Return the number of relations."""
        return len(self._makers)


@contextmanager
def relations(
    cursor: duckdb.DuckDBPyConnection, readable: Readable, text: Collection[str] = ()
) -> Iterator[Sequence[str]]:
    """
    Give what SQL can read, for the time of a ``with`` block.

    :param cursor: By which it is read.
    :param readable: What is to be read.
    :param text: Columns that are text wherever they are written as text, whatever they look like.
    :return: One relation or more: if a value does not fit the types of one, the next takes more time and more care.
    """
    if isinstance(readable, Query):
        yield Relations.of(*(f"({query})" for query in (readable.sql, readable.instead) if query is not None))
        return
    if isinstance(readable, Scan):
        with json_lines.explained(readable) if readable.reader == "read_json" else nullcontext():
            yield ways(cursor, readable, {name.lower() for name in text})
        return
    alias = f"__stored__{uuid4().hex}"
    cursor.execute(f"ATTACH {literal(str(readable.path))} AS {alias} (READ_ONLY)")
    try:
        yield Relations.of(f"{alias}.main.{RESULT}")
    finally:
        cursor.execute(f"DETACH {alias}")


def ways(cursor: duckdb.DuckDBPyConnection, scan: Scan, text: Collection[str] = ()) -> Sequence[str]:
    """
    Return the relations of files: types are inferred from their beginning, then from all of them, then fewer of them.

    :param cursor: The cursor that reads.
    :param scan: The files.
    :param text: Columns of CSV files that are text, in lower case, whatever their values are.
    """
    if csv_files.is_csv(scan):
        return Relations(*csv_files.relations_of(cursor, scan, text))
    if scan.reader == "read_json":
        return json_lines.readings(cursor, scan)
    if scan.reader == "read_parquet" and len(scan.paths) > 1:
        return Relations(scan.sql, lambda: _file_by_file(cursor, scan))
    return Relations.of(scan.sql())


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
