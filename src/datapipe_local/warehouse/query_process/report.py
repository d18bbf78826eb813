"""Queries of custom reports over files. Runs in a query process."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from datapipe_local.warehouse.loading import csv_files, json_lines, protection
from datapipe_local.warehouse.loading.readable import RESULT, Selection, relations_of_files
from datapipe_local.warehouse.query_process.database import open_database
from datapipe_local.warehouse.warehouse import Scan, literal, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import duckdb

_OUT = "__out__"


def columns(
    *, memory: int, query: str, tables: Mapping[str, tuple[Scan, Selection]], temporary: str
) -> list[tuple[str, str]]:
    """
    Return the names and types of the columns of a query.

    :param memory: The memory limit of this process, in bytes.
    :param query: A query that was checked.
    :param tables: The files that the query can name, and the columns of them that it may see.
    :param temporary: The folder for data that exceeds the memory.
    """
    with _opened(memory, tables, temporary) as connection:
        described = connection.execute(f"DESCRIBE {_one(query)}").fetchall()
    return [(name, kind) for name, kind, *_ in described]


def store(*, memory: int, query: str, tables: Mapping[str, tuple[Scan, Selection]], temporary: str, file: str) -> None:
    """
    Write the result of a query to a file.

    :param memory: The memory limit of this process, in bytes.
    :param query: A query that was checked.
    :param tables: The files that the query can name, and the columns of them that it may see.
    :param temporary: The folder for data that exceeds the memory.
    :param file: The DuckDB file, which must not exist.
    """
    with _opened(memory, tables, temporary, file) as connection:
        connection.execute(f"CREATE TABLE {_OUT}.main.{RESULT} AS {_one(query)}")
        connection.execute(f"DETACH {_OUT}")


@contextmanager
def _opened(
    memory: int, tables: Mapping[str, tuple[Scan, Selection]], temporary: str, file: str | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_database(":memory:", memory, temporary) as connection:
        if file is not None:
            connection.execute(f"ATTACH {literal(file)} AS {_OUT}")
        paths = [str(path) for scan, _ in tables.values() for path in scan.paths]
        connection.execute(f"SET allowed_paths = {literal(paths)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for name, (scan, selection) in tables.items():
            # A query is not retried: infer types from all rows before it runs. Protected columns, which may be rare,
            # also need all rows.
            is_careful = file is not None or bool(selection.protected)
            found = relations_of_files(connection, scan, {name.lower() for name in selection.hashed})
            if file is not None and scan.reader == "read_json":
                found = [json_lines.verified(connection, scan, found[-1:])[-1]]
            relation = found[min(1, len(found) - 1) if is_careful else 0]
            shown = protection.query_of(connection, relation, scan, selection)
            connection.execute(f"CREATE VIEW {quoted(name)} AS {shown}")
        with ExitStack() as stack:
            if file is not None:
                for scan, _ in tables.values():
                    stack.enter_context(csv_files.verified(connection, scan))
            yield connection


def _one(query: str) -> str:
    return query.strip().rstrip("; \n\t\r")
