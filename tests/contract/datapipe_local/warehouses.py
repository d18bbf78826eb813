"""Direct reads of the files of a service."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from tests.support.local_service import LocalService

_LIMIT = 10.0


def tables_of(service: LocalService) -> dict[str, int]:
    """Stop the service, return the row count of each table, and start it again."""
    service.stop()
    try:
        return tables_in(service)
    finally:
        service.start()


def tables_in(service: LocalService) -> dict[str, int]:
    """Return the row count of each table of a stopped service."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        names = warehouse.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        return {
            f"{schema}.{name}": rows
            for schema, name in names
            for (rows,) in warehouse.execute(f'SELECT count(*) FROM "{schema}"."{name}"').fetchall()  # noqa: S608 - its own names
        }


def rows_in(service: LocalService, table: str) -> list[tuple[Any, ...]]:
    """Return the sorted rows of a table of a stopped service."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        return warehouse.execute(f"FROM {table} ORDER BY ALL").fetchall()


def wait_for_schedule(service: LocalService, subject_id: str, expression: str | None) -> None:
    """Wait until a resource has this schedule, None for no schedule."""
    deadline = time.monotonic() + _LIMIT
    while True:
        with closing(sqlite3.connect(f"file:{service.home / 'state.sqlite'}?mode=ro", uri=True)) as state:
            found = state.execute(
                "SELECT cron_expression FROM schedules WHERE subject_id = ?", (subject_id,)
            ).fetchall()
        if found == ([] if expression is None else [(expression,)]):
            return
        assert time.monotonic() < deadline, (subject_id, found, expression)
        time.sleep(0.01)
