"""A DuckDB apart, for queries that somebody else wrote: it sees what it is given, and reaches nothing else."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from datapipe_local import query_rules
from datapipe_local.loading.readable import RESULT, Selection, ways
from datapipe_local.loading.types import Typed
from datapipe_local.warehouse import WarehouseError, literal, one_line, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from datapipe_local.warehouse import Scan, Warehouse

_LONGEST_QUERY = 100_000
_OUT = "__out__"
_THREADS = 2
_MEMORY = "1GB"


class SandboxTable(NamedTuple):
    """A file that a query can name, and the columns of it that the query may see."""

    scan: Scan
    selection: Selection


def tables_named(query: str) -> set[str]:
    """
    Tell which tables a query names, its own (``WITH``) among them.

    :raises WarehouseError: it is not one ``SELECT`` that only reads.
    """
    if "\0" in query or len(query) > _LONGEST_QUERY:
        raise WarehouseError(f"The query must be text of {_LONGEST_QUERY} characters at the most")
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    try:
        if query_rules.is_too_nested(query):
            raise WarehouseError("The query is nested too deeply")
        statements = connection.extract_statements(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise WarehouseError("The query must be a single SELECT")
        # DuckDB's own `get_table_names` refuses queries whose tables are not there.
        row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
        tree = json.loads(row[0]) if row else {}
        if tree.get("error"):
            raise WarehouseError(f"The query cannot be read: {tree.get('error_message')}")
        obstacle = query_rules.reading(tree).obstacle
        if obstacle is not None:
            raise WarehouseError(obstacle)
        return set(_tables(tree))
    except duckdb.Error as error:
        raise WarehouseError(one_line(error)) from error
    except RecursionError as error:
        raise WarehouseError("The query is nested too deeply") from error
    finally:
        connection.close()


def _tables(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE" and not node.get("schema_name"):
            yield node["table_name"]
        node = list(node.values())
    if isinstance(node, list):
        for entry in node:
            yield from _tables(entry)


def columns(warehouse: Warehouse, query: str, tables: Mapping[str, SandboxTable]) -> list[Typed]:
    """
    Tell the columns of a query.

    :raises WarehouseError: DuckDB refuses it.
    """
    with _opened(warehouse, query, tables) as connection:
        return [Typed(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {_one(query)}").fetchall()]


def store(warehouse: Warehouse, query: str, tables: Mapping[str, SandboxTable], file: Path) -> None:
    """
    Put the result of a query into a file, for :class:`datapipe_local.loading.readable.Stored`.

    :param warehouse: Its interruption interrupts this, too.
    :param query: The query.
    :param tables: What it can name.
    :param file: The file, which is not there yet.
    :raises WarehouseError: DuckDB refuses it, or it fails.
    """
    with _opened(warehouse, query, tables, file) as connection:
        # Watched anew: what was broken off in the meantime does not begin.
        with warehouse.watched(connection.cursor()) as cursor:
            cursor.execute(f"CREATE TABLE {_OUT}.main.{RESULT} AS {_one(query)}")
        connection.execute(f"DETACH {_OUT}")


@contextmanager
def _opened(
    warehouse: Warehouse, query: str, tables: Mapping[str, SandboxTable], file: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    # A file that may be read may be written, too, as far as DuckDB's own bounds go: so the query must only read.
    tables_named(query)
    fresh = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # Variables of this program are no tables.
            "python_enable_replacements": False,
            "threads": _THREADS,
            "memory_limit": _MEMORY,
            "temp_directory": str(warehouse.scratch / "duckdb"),
        },
    )
    with warehouse.watched(fresh) as connection:
        if file is not None:
            connection.execute(f"ATTACH {literal(str(file))} AS {_OUT}")
        paths = [str(path) for table in tables.values() for path in table.scan.paths]
        connection.execute(f"SET allowed_paths = {literal(paths)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for name, table in tables.items():
            # A query is not tried twice: types are taken from all of a file before its first run.
            relation = ways(connection, table.scan)[: 1 if file is None else 2][-1]
            described = connection.execute(f"DESCRIBE FROM {relation}").fetchall()
            shown = table.selection.sql(relation, [column for column, *_ in described])
            connection.execute(f"CREATE VIEW {quoted(name)} AS {shown}")
        yield connection


def _one(query: str) -> str:
    return query.strip().rstrip("; \n\t\r")
