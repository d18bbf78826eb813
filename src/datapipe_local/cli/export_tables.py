"""Export of warehouse tables to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import SetupError
from datapipe_local.storage import write_failures as storage
from datapipe_local.warehouse.warehouse import Place, Warehouse, WarehouseError, literal

if TYPE_CHECKING:
    from pathlib import Path

#: File formats of the export.
FORMATS = ("parquet", "csv")


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
                cursor.execute(f"COPY (FROM {place.sql}) TO {literal(str(file))} ({options})")
            written.append(file)
    except OSError as error:
        failed = storage.failure(error)
        reason = (error.strerror or error) if failed is None else f"{failed.reason}: {failed.advice}"
        raise SetupError(f"Cannot write to {folder}: {reason}.") from error
    except WarehouseError as error:
        failed = storage.failure(error)
        reason = str(error) if failed is None else f"{failed.reason}: {failed.advice}."
        raise SetupError(f"Cannot write the tables to {folder}: {reason}") from error
    return written


def _places(warehouse: Warehouse) -> list[Place]:
    with warehouse.cursor() as cursor:
        found = cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database() ORDER BY ALL"
        ).fetchall()
    return [Place(schema, name) for schema, name in found]
