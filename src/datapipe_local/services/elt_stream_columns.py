"""Columns of a stream's table, for the page of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.services import elt_streams, elt_syncs
from datapipe_local.warehouse.loading.table_loader import TableLoader, TableShape
from datapipe_local.warehouse.warehouse import Place

if TYPE_CHECKING:
    from datapipe_local.services.context import Context


def shape(context: Context, stream_id: str) -> TableShape | None:
    """
    Return the columns of a stream's table and the rows of its last load.

    :return: None if the stream has no table.
    :raises NotFoundError: if the stream does not exist.
    :raises WarehouseError: if the warehouse is closing.
    """
    stream = elt_streams.get(context, stream_id)
    sync = elt_syncs.get(context, stream.elt_sync_id)
    return TableLoader(context.warehouse).shape(Place(sync.destination_schema_name, stream.name))
