"""One SQLite file in WAL mode, shared by all threads."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from datapipe_local import storage
from datapipe_local.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Which :file:`schema.sql` a file was made with; another number is another, incompatible layout.
SCHEMA_VERSION = 2
#: SQLite's name of a database without a file.
_IN_MEMORY = ":memory:"


class Database:
    """
    A connection that threads take turns at.

    Statements take microseconds, so that waiting costs less than a connection per thread would. A committed
    transaction survives the end of this process in any way. (It may not survive a power failure:
    ``synchronous`` is NORMAL, which saves an fsync per commit.)

    :param path: The file; it is created where there is none.
    :raises SetupError: it is no database of this version of the service.
    """

    def __init__(self, path: Path) -> None:
        self._turn = threading.RLock()
        self._depth = 0
        try:
            if not path.exists() and str(path) != _IN_MEMORY:
                # Settings hold secrets. SQLite gives the files beside it the same mode.
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            # Transactions are begun by name, never by the driver.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            # In KiB. The ends of a thousand histories do not fit into the two MiB that are usual.
            self._connection.execute("PRAGMA cache_size = -32768")
            self._prepare(path)
        except sqlite3.Error as error:
            failed = storage.failure(error, path.parent)
            reason = error if failed is None else f"{failed.reason}: {failed.advice}"
            raise SetupError(f"Cannot open the state in {path}: {reason}.") from error
        except OSError as error:
            raise SetupError(f"Cannot create the state in {path}: {error.strerror or error}.") from error

    def close(self) -> None:
        """Close the file. No thread may be at work on it."""
        with self._turn:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of the block or nothing of it. A block within a block belongs to the outer one."""
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
                    # It would stay open, and be committed with the next.
                    self._roll_back()
                    raise

    def _roll_back(self) -> None:
        # On a full disk SQLite has done so by itself.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def rows(self, sql: str, *parameters: Any) -> list[sqlite3.Row]:
        """Give all rows of a query."""
        with self._turn:
            return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, *parameters: Any) -> sqlite3.Row | None:
        """Give the first row of a query, if there is any."""
        with self._turn:
            row: sqlite3.Row | None = self._connection.execute(sql, parameters).fetchone()
            return row

    def value(self, sql: str, *parameters: Any) -> Any:
        """Give the first column of the first row of a query; ``None`` without a row."""
        row = self.row(sql, *parameters)
        return None if row is None else row[0]

    def run(self, sql: str, *parameters: Any) -> int:
        """Execute a statement and give the number of rows that it changed."""
        with self._turn:
            return self._connection.execute(sql, parameters).rowcount

    def run_many(self, sql: str, parameters: list[tuple[Any, ...]]) -> None:
        """Execute a statement once for each of the parameters, in one transaction."""
        with self.transaction():
            self._connection.executemany(sql, parameters)

    def define(self, name: str, arguments: int, function: Callable[..., Any]) -> None:
        """Let SQL call a function. It must not use this database."""
        with self._turn:
            self._connection.create_function(name, arguments, function)

    def script(self, sql: str) -> None:
        """Execute several statements, outside of any transaction."""
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
