"""Tests of failed writes: their detection, and the outage of the state."""

from __future__ import annotations

import errno
import io
import logging
import os
import sqlite3
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.jsonl import unwritable
from datapipe_local.server.logging import Handler
from datapipe_local.storage.store import Store
from datapipe_local.storage.write_failures import Outage, failure
from datapipe_local.warehouse.statements import WarehouseError, WarehouseStorageError
from datapipe_local.warehouse.warehouse import Place, Warehouse


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "number"),
    [
        *((OSError(number, ""), number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)),
        (sqlite_error(sqlite3.SQLITE_FULL), errno.ENOSPC),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), errno.EIO),
        (sqlite_error(sqlite3.SQLITE_READONLY_DBMOVED), errno.EROFS),
        (duckdb.IOException('IO Error: Could not write file "x": No space left on device'), errno.ENOSPC),
        (duckdb.TransactionException('Failed to commit: Could not write file "x": Disk quota exceeded'), errno.EDQUOT),
        (duckdb.FatalException('database has been invalidated: "x": No space left on device"'), errno.ENOSPC),
        (duckdb.OutOfMemoryException("limit was set by the 'max_temp_directory_size' setting"), errno.ENOSPC),
        (FileNotFoundError(errno.ENOENT, ""), None),
        (sqlite_error(sqlite3.SQLITE_CONSTRAINT), None),
        (sqlite3.ProgrammingError("closed"), None),
        (duckdb.ConversionException('Could not convert "a: No space left on device"'), None),
        (duckdb.OutOfMemoryException("could not allocate block"), None),
        (ValueError("No space left on device"), None),
    ],
)
def test_error_is_a_failed_write(error: Exception, number: int | None) -> None:
    found = failure(error)
    assert (found and found.reason) == (None if number is None else os.strerror(number))


def test_explicit_cause_of_an_error_is_a_failed_write() -> None:
    error = RunError("it failed")
    error.__cause__ = OSError(errno.ENOSPC, "")
    assert failure(error) is not None
    error.__cause__ = None
    error.__context__ = OSError(errno.ENOSPC, "")
    assert failure(error) is None


def test_destination_error_names_the_file_and_the_remedy() -> None:
    error = unwritable(Path("/data/out.csv"), OSError(errno.EROFS, "Read-only file system"))
    remedy = "make the file system writable."
    assert str(error) == f"The destination /data/out.csv cannot be written: Read-only file system: {remedy}"


def test_outage_ends_with_a_successful_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    full = sqlite_error(sqlite3.SQLITE_FULL)
    (tmp_path / "scratch").mkdir()
    outage = Outage(tmp_path, Mock(side_effect=[full, full, None]))
    assert outage.probe()
    assert not outage.begin(ValueError())
    assert outage.begin(OSError(errno.ENOSPC, ""))
    assert outage.begin(OSError(errno.ENOSPC, ""))
    assert [outage.probe(), outage.probe(), outage.is_on] == [False, False, True]
    assert [outage.probe(), outage.is_on] == [True, False]
    assert len(caplog.records) == 2
    assert list((tmp_path / "scratch").iterdir()) == []


def test_failed_write_of_the_warehouse_is_not_an_outage(tmp_path: Path) -> None:
    outage = Outage(tmp_path, lambda: None)
    error = WarehouseStorageError("no room")
    error.__cause__ = duckdb.IOException('Could not write file "x": No space left on device')
    assert outage.begin(error)
    assert not outage.is_on


def test_log_line_that_a_full_disk_does_not_take_is_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    Handler(Full()).handle(logging.makeLogRecord({"msg": "unwritable"}))
    assert capsys.readouterr().err == ""


def test_transaction_without_room_leaves_none_open(store: Store) -> None:
    database = store.database
    pages = database.value("PRAGMA page_count")
    database.run(f"PRAGMA max_page_count = {pages}")

    def write() -> None:
        with database.transaction():
            store.set("before", 1)
            store.set("large", "x" * 100_000)

    with pytest.raises(sqlite3.OperationalError, match="full"):
        write()
    database.run("PRAGMA max_page_count = 1000000")
    with database.transaction():
        store.set("after", 2)
    assert [store.setting(name, None) for name in ("before", "large", "after")] == [None, None, 2]


def test_warehouse_that_duckdb_invalidated_is_opened_again(warehouse: Warehouse) -> None:
    place = Place("main", "kept")
    with warehouse.cursor() as cursor:
        cursor.execute("CREATE TABLE kept AS SELECT 1 AS x")
    message = 'Failed to create checkpoint because of error: Could not write file "w": No space left on device'
    with warehouse.cursor() as other:
        with pytest.raises(WarehouseStorageError), warehouse.cursor() as before:
            raise duckdb.FatalException(message)
        # One that is open keeps DuckDB from opening the file.
        assert other.execute("SELECT 1").fetchone() == (1,)
    assert warehouse.count(place) == 1
    with pytest.raises(duckdb.Error):
        before.execute("SELECT 1")
    with pytest.raises(WarehouseError, match="does not exist"):
        warehouse.count(Place("main", "absent"))
