"""Columns of a stream's table, for the page at ``/``. Requires the API key, but is not part of the interface."""

from typing import Any

from fastapi import APIRouter

from datapipe_local.api.routes.common import CurrentContext
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import elt_streams
from datapipe_local.warehouse.warehouse import WarehouseError

router = APIRouter(include_in_schema=False)


# A plain function: it runs in a thread, so DuckDB does not block the event loop.
@router.get("/web/streams/{stream_id}/columns")
def columns(context: CurrentContext, stream_id: str) -> dict[str, Any]:
    """Return names and types of columns, and the row count of the last load. Contains no values."""
    try:
        shape = elt_streams.table_shape(context, stream_id)
    except WarehouseError as error:
        raise BadRequestError(f"The columns cannot be read: {error}") from error
    if shape is None:
        return {"columns": [], "rows": None}
    return {"columns": [column._asdict() for column in shape.columns], "rows": shape.rows}
