"""What stands in the warehouse, for assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datapipe_local import samples
from datapipe_local.engine.values import json_value
from datapipe_local.errors import BadRequestError
from datapipe_local.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.warehouse import Warehouse

_MOST_ROWS = 10_000
_SECONDS = 30


def rows(warehouse: Warehouse, sql: str) -> list[dict[str, Any]]:
    """
    Give what a query finds.

    :param warehouse: The warehouse.
    :param sql: One that only reads.
    :raises BadRequestError: it is another, it fails, or it finds too much.
    """
    try:
        with samples.opened(warehouse, sql, seconds=_SECONDS) as sample:
            found = [
                {name: json_value(value) for name, value in zip(sample.columns, row, strict=True)}
                for row in sample.rows(_MOST_ROWS + 1)
            ]
    except WarehouseError as error:
        raise BadRequestError(f"sql: {error}", error_code="query_failed") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise BadRequestError(f"sql: a value cannot be shown: {error}: cast it to text.") from error
    if len(found) > _MOST_ROWS:
        raise BadRequestError(f"sql: more than {_MOST_ROWS:,} rows: have it find less, or count them.")
    return found
