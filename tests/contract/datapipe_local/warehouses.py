"""Direct reads and changes of the files of a service."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import duckdb

from tests.support.processes import wait_for

if TYPE_CHECKING:
    from tests.support.local_service import LocalService


@contextmanager
def changed_state(service: LocalService) -> Iterator[sqlite3.Connection]:
    """Stop the service for a change of its database, and start it again."""
    service.stop()
    with closing(sqlite3.connect(service.home / "state.sqlite")) as state, state:
        yield state
    service.start()


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
            for (rows,) in warehouse.execute(f'SELECT count(*) FROM "{schema}"."{name}"').fetchall()  # noqa: S608 - fixed names of the test
        }


def rows_in(service: LocalService, table: str) -> list[tuple[Any, ...]]:
    """Return the sorted rows of a table of a stopped service."""
    with closing(duckdb.connect(str(service.warehouse), read_only=True)) as warehouse:
        return warehouse.execute(f"FROM {table} ORDER BY ALL").fetchall()


def wait_for_schedule(service: LocalService, subject_id: str, expression: str | None) -> None:
    """Wait until a resource has this schedule, None for no schedule."""

    def has_schedule() -> bool:
        with closing(sqlite3.connect(f"file:{service.home / 'state.sqlite'}?mode=ro", uri=True)) as state:
            query = "SELECT cron_expression FROM schedules WHERE subject_id = ?"
            return state.execute(query, (subject_id,)).fetchall() == ([] if expression is None else [(expression,)])

    wait_for(f"schedule {expression} of {subject_id}", has_schedule, limit=60, interval=0.01)
