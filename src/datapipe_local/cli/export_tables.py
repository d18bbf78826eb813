"""Export of warehouse tables to files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from datapipe_local.common.errors import SetupError
from datapipe_local.storage import write_failures
from datapipe_local.warehouse.warehouse import Place, Warehouse, WarehouseError, literal, quoted

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

#: File formats of the export.
FORMATS = ("parquet", "csv")
#: Integers of 128 bits, such as sums of integers, and lists of them.
_WIDE = re.compile(r"U?HUGEINT((?:\[\d*\])*)")


def export(warehouse: Warehouse, folder: Path, form: str) -> list[Path]:
    """
    Write each table and view to a file ``<schema>/<name>.<format>``.

    :param warehouse: The warehouse.
    :param folder: The folder; it is created if it does not exist, and must be empty.
    :param form: One of :data:`FORMATS`.
    :return: The files.
    :raises SetupError: a file cannot be written, or the query of a view fails.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SetupError(f"{folder} is not empty: give another folder.")
        written = []
        for place in _places(warehouse):
            file = folder / place.schema / f"{place.name}.{form}"
            file.parent.mkdir(exist_ok=True)
            options = "FORMAT parquet" if form == "parquet" else "FORMAT csv, HEADER"
            with warehouse.cursor() as cursor:
                query = _parquet_query(cursor, place) if form == "parquet" else f"FROM {place.sql}"
                cursor.execute(f"COPY ({query}) TO {literal(str(file))} ({options})")
            written.append(file)
    except OSError as error:
        failed = write_failures.failure(error)
        reason = (error.strerror or error) if failed is None else f"{failed.reason}: {failed.advice}"
        raise SetupError(f"Cannot write to {folder}: {reason}.") from error
    except WarehouseError as error:
        failed = write_failures.failure(error)
        reason = str(error) if failed is None else f"{failed.reason}: {failed.advice}."
        raise SetupError(f"Cannot write the tables to {folder}: {reason}") from error
    return written


def _parquet_query(cursor: duckdb.DuckDBPyConnection, place: Place) -> str:
    """Return a query whose integers keep all digits in Parquet. DuckDB writes those of 128 bits as DOUBLE."""
    columns = []
    for name, kind, *_ in cursor.execute(f"DESCRIBE {place.sql}").fetchall():
        column, wide = quoted(name), _WIDE.fullmatch(kind)
        if wide:
            decimal = f"DECIMAL(38, 0){wide[1]}"
            fits = f"bool_and({column} IS NULL OR TRY_CAST({column} AS {decimal}) IS NOT NULL)"
            found = cursor.execute(f"FROM {place.sql} SELECT {fits}").fetchone()
            column = f"CAST({column} AS {f'VARCHAR{wide[1]}' if found == (False,) else decimal}) AS {column}"
        columns.append(column)
    return f"FROM {place.sql} SELECT {', '.join(columns)}"


def _places(warehouse: Warehouse) -> list[Place]:
    with warehouse.cursor() as cursor:
        found = cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database() ORDER BY ALL"
        ).fetchall()
    return [Place(schema, name) for schema, name in found]
