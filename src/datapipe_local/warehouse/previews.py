"""Previews: the first rows of a user's query, run in a separate process."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.warehouse.query_process import snapshot
from datapipe_local.warehouse.query_process.process import QueryTimeError
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from datapipe_local.warehouse.warehouse import Warehouse

#: Default time limit of a query preview.
SECONDS = 30.0
#: Default limits of the result.
MOST_ROWS = 1_000
MOST_CHARACTERS = 5_000_000


class Preview(NamedTuple):
    """
    The first rows of a query.

    :param rows: The rows as JSON carries them.
    :param total: The number of all rows; None if they were not counted.
    :param is_complete: These are all rows.
    """

    rows: list[dict[str, Any]]
    total: int | None
    is_complete: bool


def preview(
    warehouse: Warehouse,
    query: str,
    *,
    seconds: float,
    most_rows: int = MOST_ROWS,
    most_characters: int = MOST_CHARACTERS,
    with_total: bool = True,
) -> Preview:
    """
    Return the first rows of a query.

    The query runs in another process, on a copy of the tables that it names: this process only checks the query and
    copies the tables.

    :param warehouse: The warehouse.
    :param query: The query.
    :param seconds: The time limit of the copy and the query together.
    :param most_rows: Return at most this number of rows.
    :param most_characters: Return only as many rows as have this number of characters in JSON.
    :param with_total: Count all rows.
    :raises WarehouseError: it is not a query that only reads, it fails, or it exceeds a limit.
    """
    warehouse.check_query(query)
    with (
        warehouse.preview_processes.borrow(warehouse.check) as process,
        tempfile.TemporaryDirectory(prefix="preview-", dir=warehouse.scratch) as folder,
    ):
        deadline = time.monotonic() + seconds
        try:
            with warehouse.cursor() as cursor, _limited(cursor, seconds):
                # Copy no more rows of plain tables than the preview shows.
                taken = snapshot.take(cursor, query, Path(folder), most_rows)
            request = {
                "operation": "sample",
                "snapshot": taken._asdict(),
                "query": query,
                "most_rows": most_rows,
                "most_characters": most_characters,
                "with_total": with_total,
            }
            with warehouse.interruptible(process):
                return Preview(**process.run(request, max(0.0, deadline - time.monotonic())))
        except WarehouseError as error:
            # If the service stops, it has killed the process.
            warehouse.check()
            if isinstance(error, QueryTimeError) or time.monotonic() >= deadline:
                raise WarehouseError(
                    f"The query took longer than {seconds:g} seconds: reduce the data that it reads, or raise"
                    " --preview-time-limit of the service."
                ) from error
            raise


@contextmanager
def _limited(cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt the statements of a ``with`` block after a time."""
    timer = threading.Timer(seconds, cursor.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
