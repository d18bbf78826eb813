"""One SQLite file in WAL mode, shared by all threads."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from datapipe_local.common.errors import SetupError
from datapipe_local.storage import write_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Version of :file:`schema.sql`. Files with another version are incompatible.
SCHEMA_VERSION = 2
#: SQLite name of a database without a file.
_IN_MEMORY = ":memory:"


class Database:
    """
    Connection that all threads share.

    Statements take microseconds, so waiting for the lock costs less than a connection per thread. A committed
    transaction survives any end of the process. It may not survive a power failure, because ``synchronous`` is NORMAL,
    which saves an fsync per commit.

    :param path: Database file. It is created if it does not exist.
    :raises SetupError: if the file cannot be opened or has another schema version.
    """

    def __init__(self, path: Path) -> None:
        self._turn = threading.RLock()
        self._depth = 0
        try:
            if not path.exists() and str(path) != _IN_MEMORY:
                # Settings contain secrets. SQLite gives the WAL files the same mode.
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            # Transactions are explicit, so the driver must not start any.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            # In KiB. The default of 2 MiB is too small to query the latest runs of a thousand streams.
            self._connection.execute("PRAGMA cache_size = -32768")
            self._prepare(path)
        except sqlite3.Error as error:
            failed = write_failures.failure(error, path.parent)
            reason = error if failed is None else f"{failed.reason}: {failed.advice}"
            raise SetupError(f"Cannot open the state in {path}: {reason}.") from error
        except OSError as error:
            raise SetupError(f"Cannot create the state in {path}: {error.strerror or error}.") from error

    def close(self) -> None:
        """Close the file. No thread may use it anymore."""
        with self._turn:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction. A nested block joins the outer transaction."""
        with self._turn:
            if self._depth == 0:
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._roll_back()
                raise
            self._depth -= 1
            if self._depth == 0:
                try:
                    self._connection.execute("COMMIT")
                except sqlite3.Error:
                    # Otherwise the transaction stays open and the next commit includes it.
                    self._roll_back()
                    raise

    def _roll_back(self) -> None:
        # SQLite has already rolled back if the disk is full.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def rows(self, sql: str, *parameters: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        with self._turn:
            return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, *parameters: Any) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        with self._turn:
            row: sqlite3.Row | None = self._connection.execute(sql, parameters).fetchone()
            return row

    def value(self, sql: str, *parameters: Any) -> Any:
        """Return the first column of the first row of a query, or None without a row."""
        row = self.row(sql, *parameters)
        return None if row is None else row[0]

    def run(self, sql: str, *parameters: Any) -> int:
        """Execute a statement and return the number of changed rows."""
        with self._turn:
            return self._connection.execute(sql, parameters).rowcount

    def run_many(self, sql: str, parameters: list[tuple[Any, ...]]) -> None:
        """Execute a statement once per parameter tuple, in one transaction."""
        with self.transaction():
            self._connection.executemany(sql, parameters)

    def tables(self) -> list[str]:
        """Return the names of all tables, without those of SQLite itself."""
        names = [row["name"] for row in self.rows("SELECT name FROM main.sqlite_master WHERE type = 'table'")]
        return [name for name in names if not name.startswith("sqlite_")]

    def define(self, name: str, arguments: int, function: Callable[..., Any]) -> None:
        """Register a function for use in SQL. It must not use this database."""
        with self._turn:
            self._connection.create_function(name, arguments, function)

    def script(self, sql: str) -> None:
        """Execute several statements outside of a transaction."""
        with self._turn:
            self._connection.executescript(sql)

    def _prepare(self, path: Path) -> None:
        version = self.value("PRAGMA user_version")
        if version == 0 and not self.value("SELECT count(*) FROM sqlite_master"):
            schema = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
            self._connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version != SCHEMA_VERSION:
            raise SetupError(
                f"{path} is of version {version}, this datapipe-local needs {SCHEMA_VERSION}: choose another --home."
            )
