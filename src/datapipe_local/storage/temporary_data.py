"""Temporary data on disk, in unnamed files that disappear with the process."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from datapipe_local.common.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterable


def open_temporary_database() -> sqlite3.Connection:
    """Return an empty private database. Data beyond a few MiB goes to disk."""
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # The data need not survive a crash.
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA cache_size = -4096")
    return database


class DiskSet:
    """Set of strings."""

    def __init__(self) -> None:
        self._database = open_temporary_database()
        self._database.execute("CREATE TABLE entries (entry TEXT PRIMARY KEY) WITHOUT ROWID")

    def update(self, entries: Iterable[str]) -> None:
        """
        Add strings.

        :raises RunError: the disk is full.
        """
        try:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR IGNORE INTO entries VALUES (?)", ((entry,) for entry in entries))
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise RunError(f"There is no disk space for temporary data ({error}): free some.") from error

    def __contains__(self, entry: object) -> bool:
        return self._database.execute("SELECT 1 FROM entries WHERE entry = ?", (entry,)).fetchone() is not None

    def close(self) -> None:
        """Close the database."""
        self._database.close()
