"""Validation of load options that depend on each other or on other streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import elt_tables, references
from datapipe_local.warehouse.loading.history import history_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datapipe_local.services.context import Context
    from datapipe_local.warehouse.warehouse import Place

_HISTORY = "enabled_history_table"


def check(context: Context, sync_id: str, place: Place, options: Mapping[str, Any]) -> None:
    """
    Validate the load options of a stream.

    :param context: Service context.
    :param sync_id: Sync of the stream.
    :param place: Table of the stream.
    :param options: All options of the stream, as column values of the store.
    :raises BadRequestError: if the options conflict with each other, another stream or a transform.
    """
    pointer, key = options.get("incremental_pointer_id"), options.get("incremental_primary_key_name") or ()
    hidden = {
        field: {name.lower() for name in options.get(field) or ()} for field in ("excluded_columns", "hashed_columns")
    }
    if pointer is not None:
        for field, names in hidden.items():
            if pointer.lower() in names:
                raise BadRequestError(f"{field}: {pointer!r} is the incremental pointer: remove it from this list.")
    for name in key:
        if name.lower() in hidden["excluded_columns"]:
            raise BadRequestError(f"excluded_columns: {name!r} is part of the primary key: remove it from this list.")
    history = history_of(place)
    streams = context.store.elt_streams
    if options.get(_HISTORY):
        if streams.first("WHERE elt_sync_id = ? AND name = ?", sync_id, history.name) is not None:
            raise BadRequestError(f"{_HISTORY}: {history} is the place of another stream.")
        owner = references.transform_at(context, history)
        if owner is not None:
            raise BadRequestError(f"{_HISTORY}: {history} is the place of the transform {owner.name!r}.")
    for other in streams.all("WHERE elt_sync_id = ? AND enabled_history_table", sync_id):
        if history_of(place._replace(name=other.name)).name.lower() == place.name.lower():
            raise BadRequestError(f"name: {place} is the place of the history of the stream {other.name!r}.")
    is_new = streams.first("WHERE elt_sync_id = ? AND name = ?", sync_id, place.name) is None
    if is_new and elt_tables.is_beside_a_stream(context, sync_id, place):
        raise BadRequestError(f"name: {place} is the place of the history or of a substream of another stream.")
