"""Metadata database of Airflow in the system tests: PostgreSQL if it is installed, otherwise SQLite."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from tests.support.postgresql import PostgreSQL, programs

_DRIVER = "postgresql+psycopg:"
#: A transaction that has been open for this number of seconds belongs to a frozen process.
_LONG = 0.5


@contextmanager
def metadata_database() -> Iterator[dict[str, str]]:
    """
    Run a PostgreSQL server, and return Airflow's settings for it. Without PostgreSQL, return no settings (SQLite).

    SQLite has one writer at a time: on a busy machine, Airflow's API server answers 500 (database is locked).
    """
    if programs() is None:
        yield {}
        return
    with PostgreSQL() as server:
        # Without the second setting, Airflow would require asyncpg.
        yield {"database.sql_alchemy_conn": server.url, "database.sql_alchemy_conn_async": server.url}


def sqlite_url(home: Path) -> str:
    """Return the URL of a database in an AIRFLOW_HOME. A writer waits for a lock for up to 60 s."""
    return f"sqlite:///{home}/airflow.db?timeout=60"


def is_unlocked(url: str) -> bool:
    """Return True if no frozen process has an open transaction."""
    if not url.startswith(_DRIVER):
        with closing(sqlite3.connect(_file(url), timeout=2, isolation_level=None)) as database:
            try:
                database.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                return False
            database.execute("ROLLBACK")
        return True
    time.sleep(_LONG)
    is_open = "starts_with(state, 'idle in transaction') AND now() - state_change > make_interval(secs => %s)"
    return not _select(url, f"SELECT 1 FROM pg_stat_activity WHERE {is_open}", _LONG)  # noqa: S608 - constant text


def count_rows(url: str, table: str, key_prefix: str) -> int:
    """Count the rows of a table with ``key`` that starts with a prefix."""
    count = f"SELECT count(*) FROM {table} WHERE key LIKE "  # noqa: S608 - table names of the tests
    if url.startswith(_DRIVER):
        return int(_select(url, f"{count} %s", f"{key_prefix}%")[0][0])
    with closing(sqlite3.connect(f"file:{_file(url)}?mode=ro", uri=True, timeout=10)) as database:
        return int(database.execute(f"{count} ?", (f"{key_prefix}%",)).fetchone()[0])


def _file(url: str) -> str:
    return url.removeprefix("sqlite:///").partition("?")[0]


def _select(url: str, query: str, *values: object) -> list[tuple[int, ...]]:
    with psycopg.connect(url.replace(_DRIVER, "postgresql:", 1)) as connection:
        return connection.execute(query.encode(), values).fetchall()
