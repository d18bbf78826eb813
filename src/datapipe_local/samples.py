"""Looking at the first rows of a query that somebody else wrote."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from datapipe_local.warehouse import NESTED, WarehouseError, as_json_can, number, with_nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from datapipe_local.warehouse import Warehouse

_ROWS_AT_A_TIME = 100


class Sample:
    """
    The rows of a query, as of one moment.

    :param cursor: What it is executed with.
    :param query: The query.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, query: str) -> None:
        # What ends with a comment must not swallow what follows.
        self._source = f"({query}\n)"
        self._cursor = cursor
        described = cursor.execute(f"DESCRIBE {query}").fetchall()
        self._kinds = [kind for _, kind, *_ in described]
        self.columns = _distinct([name for name, *_ in described])

    def rows(self, most: int) -> Iterator[tuple[Any, ...]]:
        """Give so many rows at the most, with values such as the warehouse hands out."""
        # By position: a query can give one name twice.
        names = [f"c{position}" for position in range(len(self._kinds))]
        shown = [as_json_can(name, kind) for name, kind in zip(names, self._kinds, strict=True)]
        nested = [position for position, kind in enumerate(self._kinds) if NESTED.match(kind)]
        self._cursor.execute(
            f"SELECT {', '.join(shown)} FROM {self._source} AS sample ({', '.join(names)}) LIMIT {most}"  # noqa: S608 - names of our own
        )
        while batch := self._cursor.fetchmany(_ROWS_AT_A_TIME):
            for row in batch:
                yield with_nested(row, nested) if nested else row

    def count(self) -> int:
        """Count all rows."""
        return number(self._cursor.execute(f"SELECT count(*) FROM {self._source}"))  # noqa: S608 - a checked query


@contextmanager
def opened(warehouse: Warehouse, query: str, *, seconds: float) -> Iterator[Sample]:
    """
    Look at a query, which can change nothing.

    :param warehouse: The warehouse.
    :param query: The query.
    :param seconds: How long that may take.
    :raises WarehouseError: it is no query that only reads, DuckDB refuses it, or it takes longer.
    """
    warehouse.check_query(query)
    over = threading.Event()
    try:
        with warehouse.cursor() as cursor:
            guard = threading.Timer(seconds, _break_off, [cursor, over])
            guard.daemon = True
            guard.start()
            try:
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                yield Sample(cursor, query)
            finally:
                guard.cancel()
                guard.join()
    except WarehouseError as error:
        if over.is_set():
            raise WarehouseError(f"The query took longer than {seconds:g} seconds: have it read less.") from error
        raise


def _break_off(cursor: duckdb.DuckDBPyConnection, over: threading.Event) -> None:
    over.set()
    cursor.interrupt()


def _distinct(names: Sequence[str]) -> list[str]:
    """Give names of which no two are the same, so that each can be the field of an object."""
    taken = set(names)
    given: list[str] = []
    seen: set[str] = set()
    for name in names:
        fresh, number_of_it = name, 0
        while fresh in seen or (number_of_it and fresh in taken):
            number_of_it += 1
            fresh = f"{name}_{number_of_it}"
        seen.add(fresh)
        given.append(fresh)
    return given
