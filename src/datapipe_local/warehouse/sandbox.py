"""Queries of custom reports. Each runs in a separate process and DuckDB, with only the files that it names."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from datapipe_local.warehouse import query_rules
from datapipe_local.warehouse.loading.types import Typed
from datapipe_local.warehouse.query_process.process import QueryTimeError
from datapipe_local.warehouse.warehouse import WarehouseError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from datapipe_local.warehouse.loading.readable import Selection
    from datapipe_local.warehouse.query_process.process import QueryProcess
    from datapipe_local.warehouse.warehouse import Scan, Warehouse

_LONGEST_QUERY = 100_000
#: Largest time for the columns of a query: their types are inferred from all rows of the files.
_COLUMNS_SECONDS = 300.0


class SandboxTable(NamedTuple):
    """File that a query can name, and the columns that the query may see."""

    scan: Scan
    selection: Selection


def tables_named(query: str) -> set[str]:
    """
    Return the tables that a query names, including those it defines in ``WITH``.

    :raises WarehouseError: it is not one ``SELECT`` that only reads.
    """
    if "\0" in query or len(query) > _LONGEST_QUERY:
        raise WarehouseError(f"The query must be text of at most {_LONGEST_QUERY} characters")
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    try:
        if query_rules.is_too_nested(query):
            raise WarehouseError("The query is nested too deeply")
        statements = connection.extract_statements(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise WarehouseError("The query must be a single SELECT")
        # DuckDB's `get_table_names` refuses queries whose tables do not exist.
        tree = query_rules.syntax_tree(connection, query)
        if tree.get("error"):
            raise WarehouseError(f"The query cannot be read: {tree.get('error_message')}")
        obstacle, named = query_rules.reading(tree, query_rules.system_views())
        if obstacle is not None:
            raise WarehouseError(obstacle)
        for table in named:
            if table.schema.lower() != "main":
                # DuckDB's own schemas, such as information_schema.
                raise WarehouseError(f"The tables of a custom report have no schema {table.schema[:100]!r}")
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
    Return the columns of a query.

    :raises WarehouseError: DuckDB refuses it.
    """
    borrowed = warehouse.preview_processes.borrow(warehouse.check)
    described = _run_in_process(warehouse, borrowed, "report_columns", query, tables, seconds=_COLUMNS_SECONDS)
    return [Typed(name, kind) for name, kind in described]


def store(warehouse: Warehouse, query: str, tables: Mapping[str, SandboxTable], file: Path) -> None:
    """
    Write the result of a query to a file, for :class:`datapipe_local.warehouse.loading.readable.Stored`.

    :param warehouse: The warehouse. Its interruption interrupts the query, too.
    :param query: The query.
    :param tables: The tables that it can name.
    :param file: The file, which must not exist.
    :raises WarehouseError: DuckDB refuses the query, or it fails.
    """
    borrowed = warehouse.report_processes.borrow(warehouse.check)
    _run_in_process(warehouse, borrowed, "report_store", query, tables, seconds=None, file=str(file))


def _run_in_process(
    warehouse: Warehouse,
    borrowed: AbstractContextManager[QueryProcess],
    operation: str,
    query: str,
    tables: Mapping[str, SandboxTable],
    *,
    seconds: float | None,
    **arguments: str,
) -> Any:
    """Run a query in another process, until it ends or the work of this thread is interrupted."""
    # DuckDB also lets a query write to files that it may read. Therefore the query must only read.
    tables_named(query)
    request = {"operation": operation, "query": query, "tables": {name: tuple(table) for name, table in tables.items()}}
    with (
        borrowed as process,
        tempfile.TemporaryDirectory(prefix="report-", dir=warehouse.scratch) as temporary,
        warehouse.interruptible(process),
    ):
        try:
            return process.run({**request, **arguments, "temporary": temporary}, seconds)
        except QueryTimeError as error:
            raise WarehouseError(
                f"The columns of the query could not be determined within {seconds:g} seconds: reduce the data"
                " that it reads"
            ) from error
        except WarehouseError:
            # An interruption kills the process.
            warehouse.check()
            raise
