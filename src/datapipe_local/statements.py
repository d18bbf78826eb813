"""The statements that DuckDB executes: which are going, for whom, and how they are broken off."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import duckdb

from datapipe_local import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LONGEST_REASON = 400


class WarehouseError(Exception):
    """DuckDB refused; the message is what it said, in one line."""


class WarehouseStorageError(WarehouseError):
    """The disk is full or cannot be written; the message contains the folder and the remedy."""


def one_line(error: duckdb.Error) -> str:
    """Give what DuckDB says first, without its advice and its drawings, in one line."""
    said = []
    for line in str(error).splitlines():
        if not line.strip() or line.startswith(("Possible", "The search space", "LINE ")):
            break
        said.append(line.strip().rstrip("."))
    text = "; ".join(said) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"


class Interruptible(Protocol):
    """What does something that can be broken off."""

    def interrupt(self) -> None:
        """Have it fail with an error of its own. It must not take long."""


class Statements:
    """
    Statements on one database, for all threads: each gets a cursor of its own.

    :param connect: Opens the database.
    :param folder: The folder of the database.
    """

    def __init__(self, connect: Callable[[], duckdb.DuckDBPyConnection], folder: Path) -> None:
        self._connect = connect
        self._folder = folder
        self._connection = connect()
        #: After a failed checkpoint DuckDB refuses everything, until the database is opened again.
        self._is_broken = False
        self._open_cursors = 0
        #: What is executing, and for which work.
        self._busy: dict[Interruptible, int | None] = {}
        self._working: set[int] = set()
        self._broken_off: set[int] = set()
        self._local = threading.local()
        self._guard = threading.Condition(threading.Lock())
        self._closing = False

    def close(self) -> None:
        """Close the file. No thread may be at work on it."""
        self._connection.close()

    def interrupt(self) -> None:
        """Break off all statements, now and from now on; they raise :class:`WarehouseError`."""
        with self._guard:
            self._closing = True
            for cursor in self._busy:
                cursor.interrupt()

    def settled(self, seconds: float) -> bool:
        """
        Wait until no statement is executing.

        :param seconds: For how long at the most.
        :return: Whether none is.
        """
        with self._guard:
            return self._guard.wait_for(lambda: not self._busy, seconds)

    @contextmanager
    def working_on(self, work: int) -> Iterator[None]:
        """
        Have :meth:`break_off` end what this thread does in the block.

        :param work: What it is, by a number that nothing else has.
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
                self._broken_off.discard(work)

    def break_off(self, work: int) -> None:
        """Break off what a work is executing, and what it is yet to execute: both raise :class:`WarehouseError`."""
        with self._guard:
            if work in self._working:
                self._broken_off.add(work)
            for connection, owner in self._busy.items():
                if owner == work:
                    connection.interrupt()

    def check(self) -> None:
        """
        Tell whoever does something else than a statement whether to go on.

        :raises WarehouseError: what this thread does is broken off.
        """
        with self._guard:
            self._check(getattr(self._local, "work", None))

    def resume(self) -> None:
        """Take statements again, after :meth:`interrupt`."""
        with self._guard:
            self._closing = False

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """
        Give what statements are executed with, one after the other.

        :raises WarehouseError: for whatever DuckDB refuses in the block.
        """
        cursor = self._cursor()
        try:
            with self.watched(cursor):
                try:
                    yield cursor
                except duckdb.FatalException:
                    self._is_broken = True
                    raise
        finally:
            with self._guard:
                self._open_cursors -= 1

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._guard:
            try:
                # All have to be closed: else DuckDB takes the database that it has open.
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
        failed = storage.failure(error, self._folder)
        return WarehouseError(one_line(error)) if failed is None else WarehouseStorageError(failed.at(self._folder))

    @contextmanager
    def breaking_off(self, what: Interruptible) -> Iterator[None]:
        """
        Have :meth:`interrupt` and :meth:`break_off` break off something else, too, that this thread does in the block.

        :raises WarehouseError: it is broken off already.
        """
        owner: int | None = getattr(self._local, "work", None)
        with self._guard:
            self._check(owner)
            self._busy[what] = owner
        try:
            yield
        finally:
            with self._guard:
                self._busy.pop(what, None)

    @contextmanager
    def watched(self, connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
        """
        Have :meth:`interrupt` break off what a connection does, and close it in the end.

        :raises WarehouseError: for whatever DuckDB refuses in the block.
        """
        owner: int | None = getattr(self._local, "work", None)
        try:
            with self._guard:
                self._check(owner)
                self._busy[connection] = owner
            yield connection
        except duckdb.Error as error:
            raise self._refusal(error) from error
        finally:
            with self._guard:
                self._busy.pop(connection, None)
                self._guard.notify_all()
            connection.close()

    def _check(self, work: int | None) -> None:
        if self._closing:
            raise WarehouseError("The service is stopping.")
        if work in self._broken_off:
            raise WarehouseError("It is not wanted any more.")
