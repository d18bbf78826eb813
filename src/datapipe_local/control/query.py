"""Queries over the warehouse, for assertions of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datapipe_local.common.errors import BadRequestError
from datapipe_local.warehouse import previews
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.warehouse.warehouse import Warehouse

_MOST_ROWS = 10_000
_MOST_CHARACTERS = 20_000_000
_SECONDS = 30


def rows(warehouse: Warehouse, sql: str) -> list[dict[str, Any]]:
    """
    Return the rows of a query.

    :param warehouse: The warehouse.
    :param sql: A query that only reads.
    :raises BadRequestError: the query does more than read, fails, or has too many rows.
    """
    try:
        found = previews.preview(
            warehouse, sql, seconds=_SECONDS, most_rows=_MOST_ROWS, most_characters=_MOST_CHARACTERS, with_total=False
        )
    except WarehouseError as error:
        raise BadRequestError(f"sql: {error}", error_code="query_failed") from error
    if not found.is_complete:
        raise BadRequestError(
            f"sql: more than {_MOST_ROWS:,} rows or {_MOST_CHARACTERS:,} characters: limit the query,"
            " or count the rows."
        )
    return found.rows
