"""Failed writes to disk: detection of a full or read-only disk, and of its recovery."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import sqlite3
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

_ADVICE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or raise the quota of this user",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EROFS: "make the file system writable",
    # SQLite also reports an exceeded quota or file size limit as EIO.
    errno.EIO: "check the disk, the quota of this user, and the limit on the size of files",
}
_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_IOERR: errno.EIO,
}
#: DuckDB errors that can report a failed write. Other errors may quote a value.
_DUCKDB = frozenset({"IOException", "TransactionException", "FatalException", "OutOfMemoryException"})
_DUCKDB_TEXTS = {number: re.compile(rf": {re.escape(os.strerror(number))}") for number in _ADVICE}
#: DuckDB limits its temporary files to the free disk space at its start.
_DUCKDB_LIMIT = "max_temp_directory_size"
_PRIMARY_CODE = 0xFF
#: Size of the test write that must succeed before the service resumes work.
_PROBE_BYTES = 1 << 18


class Failure(NamedTuple):
    """
    Failed write.

    :param reason: The reason, in the words of the operating system.
    :param advice: The remedy.
    :param in_warehouse: DuckDB reported it: a single transaction may have been too large.
    """

    reason: str
    advice: str
    in_warehouse: bool = False

    def at(self, folder: Path) -> str:
        """Return the reason, the place and the remedy in one line."""
        return f"{self.reason} in {folder}: {self.advice}"


def failure(error: BaseException, folder: Path | None = None) -> Failure | None:
    """
    Return the failed write that caused an error; None if another cause is possible.

    :param error: Any error; its explicit causes are considered, too.
    :param folder: The folder of the write. SQLite reports some failures without their reason: if the file system has no
        free space, that is assumed.
    """
    for each in _causes(error):
        number = _number(each)
        if number is not None:
            if number == errno.EIO and folder is not None and _is_full(folder):
                number = errno.ENOSPC
            return Failure(os.strerror(number), _ADVICE[number], _is_of_duckdb(each))
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno if error.errno in _ADVICE else None
    if isinstance(error, sqlite3.Error):
        return _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE)
    if not _is_of_duckdb(error) or type(error).__name__ not in _DUCKDB:
        return None
    if _DUCKDB_LIMIT in str(error):
        return errno.ENOSPC
    return next((number for number, text in _DUCKDB_TEXTS.items() if text.search(str(error))), None)


def _is_of_duckdb(error: BaseException) -> bool:
    # Without an import of DuckDB, which is slow.
    return type(error).__module__ == "_duckdb"


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free == 0
    except OSError:
        return False


class Outage:
    """
    Period in which the state cannot be written. Only its start and its end are logged.

    :param folder: The folder of the state.
    :param write: A function that writes something to the state.
    """

    def __init__(self, folder: Path, write: Callable[[], object]) -> None:
        self.folder = folder
        self._write = write
        self._guard = threading.Lock()
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """True if the last write failed."""
        return self._is_on

    def begin(self, error: BaseException) -> bool:
        """
        Return True if a failed write caused an error.

        A failed write of the state starts the outage, if it has not started.
        """
        found = failure(error, self.folder)
        if found is None or found.in_warehouse:
            return found is not None
        with self._guard:
            was_on, self._is_on = self._is_on, True
        if not was_on:
            log.error(
                "Cannot write the state: %s. Until then runs and schedules wait, and requests that change something"
                " get status 507",
                found.at(self.folder),
            )
        return True

    def probe(self) -> bool:
        """End the outage if writes succeed again. Return True if there is no outage."""
        if not self._is_on:
            return True
        file = self.folder / "scratch" / "probe"
        try:
            try:
                file.write_bytes(bytes(_PROBE_BYTES))
            finally:
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            self._write()
        except (OSError, sqlite3.Error):
            return False
        with self._guard:
            self._is_on = False
        log.info("The state in %s can be written again: runs and schedules continue", self.folder)
        return True
