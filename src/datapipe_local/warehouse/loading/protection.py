"""Protection of columns at the source: in each of its files, and in error messages."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from datapipe_local.warehouse.loading import csv_files
from datapipe_local.warehouse.loading.columns import ColumnsError, check_protected, possible_duplicates
from datapipe_local.warehouse.loading.readable import Query, Selection
from datapipe_local.warehouse.loading.types import described, has
from datapipe_local.warehouse.statements import StructureError
from datapipe_local.warehouse.warehouse import Scan, WarehouseError, literal

if TYPE_CHECKING:
    from datapipe_local.warehouse.loading.readable import Readable

_JSON = "read_json"
#: Options that the JSON reader and the reader of JSON objects have in common.
_OF_OBJECTS = ("format", "maximum_object_size")
_LINE = re.compile(r"\b[Ll]ine:? (\d+)")
#: Errors about rows: their messages contain values, even whole lines.
_ABOUT_ROWS = (duckdb.DataError, duckdb.InvalidInputException)


def query_of(cursor: duckdb.DuckDBPyConnection, relation: str, readable: Readable, selection: Selection) -> str:
    """
    Return the query of the selected columns.

    :param cursor: The cursor that reads.
    :param relation: The source, as an SQL relation.
    :param readable: The source. If it consists of several files, each needs the protected columns.
    :param selection: The columns.
    :raises ColumnsError: A protected column is missing.
    :raises WarehouseError: No column is left.
    """
    columns = [name for name, _ in described(cursor, relation)]
    if selection.protected and not _is_without_rows(cursor, relation, readable):
        check_protected(selection.protected, [*columns, *left_out(readable)], "the source")
        _check_files(cursor, readable, selection)
        for name in possible_duplicates(selection.protected, columns):
            if isinstance(readable, Scan) and not _has_name(cursor, readable, name):
                raise ColumnsError(
                    f"the source has a protected column twice, and the reader names the second one {name!r}."
                    " Rename one of them at the source, or also protect this name"
                )
    return selection.sql(relation, columns)


def left_out(readable: Readable) -> tuple[str, ...]:
    """Return the excluded columns that were not read from the source."""
    return readable.left_out if isinstance(readable, Query) else ()


def can_gain_columns(readable: Readable) -> bool:
    """Return True if a longer sample of the source can show more columns: JSON objects need not have every key."""
    return isinstance(readable, Scan) and readable.reader == _JSON


def without_values(error: WarehouseError) -> str:
    """Return the message of an error without any values of rows."""
    cause = error.__cause__
    if isinstance(error, StructureError) or not isinstance(cause, _ABOUT_ROWS):
        return str(error)
    line = _LINE.search(str(cause))
    where = f" at line {line[1]}" if line else ""
    return f"DuckDB cannot read the data{where} (the details are not shown, because the stream has protected columns)"


def _is_without_rows(cursor: duckdb.DuckDBPyConnection, relation: str, readable: Readable) -> bool:
    # JSON has column names only in its rows: a webhook without requests has no columns yet.
    return can_gain_columns(readable) and not has(cursor, relation, "true")


def _has_name(cursor: duckdb.DuckDBPyConnection, scan: Scan, name: str) -> bool:
    """Return True if the files contain exactly this column name."""
    if csv_files.is_csv(scan):
        return any(name in columns for columns in csv_files.columns_of(scan))
    if scan.reader == "read_parquet":
        names = f"SELECT name AS found FROM parquet_schema({literal([str(path) for path in scan.paths])})"  # noqa: S608 - quoted names
    else:
        options = {key: value for key, value in scan.options.items() if key in _OF_OBJECTS}
        objects = replace(scan, reader="read_json_objects", options=options)
        names = f"SELECT unnest(json_keys(json)) AS found FROM {objects.sql()} WHERE json_type(json) = 'OBJECT'"  # noqa: S608 - quoted names
    return has(cursor, f"({names})", f"trim(found) = {literal(name)}")


def _check_files(cursor: duckdb.DuckDBPyConnection, readable: Readable, selection: Selection) -> None:
    if not isinstance(readable, Scan) or len(readable.paths) == 1:
        return
    for number, path in enumerate(readable.paths, 1):
        file = replace(readable, path=path, names=())
        # Show the number, too: files of several archives can have the same name.
        where = f"file {number} of {len(readable.paths)} ({Path(readable.name_of(path)).name})"
        if csv_files.is_csv(readable):
            (columns,) = csv_files.columns_of(file)
            check_protected(selection.protected, columns, where)
            continue
        try:
            check_protected(selection.protected, [name for name, _ in described(cursor, file.sql())], where)
        except ColumnsError:
            if not can_gain_columns(readable) or file.options.keys() & {"columns", "sample_size"}:
                raise
            names = [name for name, _ in described(cursor, file.sql(sample_size=-1))]
            check_protected(selection.protected, names, where)
