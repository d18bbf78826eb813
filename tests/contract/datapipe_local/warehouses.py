"""Looking into a service from outside of it."""

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
    """Tell the tables of a service and how many rows they have, for which it is stopped for a moment."""
    service.stop()
    try:
        return tables_in(service)
    finally:
        service.start()


def tables_in(service: LocalService) -> dict[str, int]:
    """Tell the tables of a service that is not running, and how many rows they have."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        names = warehouse.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        return {
            f"{schema}.{name}": rows
            for schema, name in names
            for (rows,) in warehouse.execute(f'SELECT count(*) FROM "{schema}"."{name}"').fetchall()  # noqa: S608 - its own names
        }


def rows_in(service: LocalService, table: str) -> list[tuple[Any, ...]]:
    """Give the rows of a table of a service that is not running, sorted."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        return warehouse.execute(f"FROM {table} ORDER BY ALL").fetchall()


def wait_for_schedule(service: LocalService, subject_id: str, expression: str | None) -> None:
    """Wait until something runs on a schedule, or on none."""
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
