"""Statements of DuckDB: registry of the running ones, and their interruption."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import duckdb

from datapipe_local.storage import write_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LONGEST_REASON = 400


class WarehouseError(Exception):
    """Refusal by DuckDB. The message is DuckDB's own, in one line."""


class WarehouseStorageError(WarehouseError):
    """Full or unwritable disk. The message contains the folder and the remedy."""


class StructureError(WarehouseError):
    """Malformed file, or file with an unclear structure. The message has the line and the remedy, and no values."""


def one_line(error: duckdb.Error) -> str:
    """Return the first part of an error message of DuckDB, without advice and diagrams, in one line."""
    reasons = []
    for line in str(error).splitlines():
        if not line.strip() or line.startswith(("Possible", "The search space", "LINE ")):
            break
        reasons.append(line.strip().rstrip("."))
    text = "; ".join(reasons) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"


class Interruptible(Protocol):
    """Operation that can be interrupted."""

    def interrupt(self) -> None:
        """Make the operation fail with its own error. Must return quickly."""


class Statements:
    """
    Statements on one database, for all threads: each gets its own cursor.

    :param connect: A function that opens the database.
    :param folder: The folder of the database.
    """

    def __init__(self, connect: Callable[[], duckdb.DuckDBPyConnection], folder: Path) -> None:
        self._connect = connect
        self._folder = folder
        self._connection = connect()
        #: True after a failed checkpoint: DuckDB refuses everything until the database is opened again.
        self._is_broken = False
        self._open_cursors = 0
        #: The running operations, and the job of each.
        self._busy: dict[Interruptible, int | None] = {}
        self._working: set[int] = set()
        self._interrupted_jobs: set[int] = set()
        self._local = threading.local()
        self._guard = threading.Condition(threading.Lock())
        self._closing = False

    def close(self) -> None:
        """Close the database. No thread may use it any more."""
        self._connection.close()

    def interrupt(self) -> None:
        """Interrupt all present and later statements; they raise :class:`WarehouseError`."""
        with self._guard:
            self._closing = True
            for cursor in self._busy:
                cursor.interrupt()

    def wait_until_idle(self, seconds: float) -> bool:
        """
        Wait until no statement runs.

        :param seconds: The largest waiting time, in seconds.
        :return: True if no statement runs.
        """
        with self._guard:
            return self._guard.wait_for(lambda: not self._busy, seconds)

    @contextmanager
    def working_on(self, work: int) -> Iterator[None]:
        """
        Let :meth:`interrupt_job` interrupt the work of this thread in the block.

        :param work: The unique number of the job.
        """
        with self._guard:
            self._working.add(work)
        self._local.work = work
        try:
            yield
        finally:
            self._local.work = None
            with self._guard:
                self._working.discard(work)
                self._interrupted_jobs.discard(work)

    def interrupt_job(self, work: int) -> None:
        """Interrupt the present and later statements of a job; they raise :class:`WarehouseError`."""
        with self._guard:
            if work in self._working:
                self._interrupted_jobs.add(work)
            for connection, owner in self._busy.items():
                if owner == work:
                    connection.interrupt()

    def check(self) -> None:
        """
        Raise if the work of this thread was interrupted. For code between statements.

        :raises WarehouseError: the work was interrupted.
        """
        with self._guard:
            self._check(getattr(self._local, "work", None))

    def resume(self) -> None:
        """Accept statements again after :meth:`interrupt`."""
        with self._guard:
            self._closing = False

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """
        Yield a cursor for statements, one after the other. In a block of :meth:`sharing`, it is the shared cursor.

        :raises WarehouseError: DuckDB refuses a statement of the block.
        """
        shared = self._shared
        if shared is not None:
            with self._explained(), self._noted_failures():
                yield shared
            return
        cursor = self._cursor()
        try:
            with self.watched(cursor), self._noted_failures():
                yield cursor
        finally:
            with self._guard:
                self._open_cursors -= 1

    @contextmanager
    def sharing(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Let all statements of this thread in the block use a cursor."""
        self._local.shared = cursor
        try:
            yield
        finally:
            self._local.shared = None

    @property
    def _shared(self) -> duckdb.DuckDBPyConnection | None:
        return getattr(self._local, "shared", None)

    @contextmanager
    def _noted_failures(self) -> Iterator[None]:
        try:
            yield
        except duckdb.FatalException:
            self._is_broken = True
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            raise self._refusal(error) from error

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._guard:
            try:
                # All cursors must be closed: otherwise DuckDB reuses the open database.
                if self._is_broken and not self._open_cursors:
                    self._connection.close()
                    self._connection = self._connect()
                    self._is_broken = False
                cursor = self._connection.cursor()
            except duckdb.Error as error:
                self._is_broken = True
                raise self._refusal(error) from error
            self._open_cursors += 1
            return cursor

    def _refusal(self, error: duckdb.Error) -> WarehouseError:
        failed = write_failures.failure(error, self._folder)
        return WarehouseError(one_line(error)) if failed is None else WarehouseStorageError(failed.at(self._folder))

    @contextmanager
    def interruptible(self, statement: Interruptible) -> Iterator[None]:
        """
        Let :meth:`interrupt` and :meth:`interrupt_job` also interrupt another operation of this thread in the block.

        :raises WarehouseError: the work is already interrupted.
        """
        owner: int | None = getattr(self._local, "work", None)
        with self._guard:
            self._check(owner)
            self._busy[statement] = owner
        try:
            yield
        finally:
            with self._guard:
                self._busy.pop(statement, None)

    @contextmanager
    def watched(self, connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
        """
        Let :meth:`interrupt` interrupt the statements of a connection, and close it at the end.

        :raises WarehouseError: DuckDB refuses a statement of the block.
        """
        owner: int | None = getattr(self._local, "work", None)
        try:
            with self._guard:
                self._check(owner)
                self._busy[connection] = owner
            with self._explained():
                yield connection
        finally:
            with self._guard:
                self._busy.pop(connection, None)
                self._guard.notify_all()
            connection.close()

    def _check(self, work: int | None) -> None:
        if self._closing:
            raise WarehouseError("The service is stopping.")
        if work in self._interrupted_jobs:
            raise WarehouseError("The work is no longer needed.")
