"""Conversion of a transform's SQL template to a warehouse query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services.references import Catalog, tag_of
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Transform


def query_of(context: Context, template: str, transform: Transform, *, name: str, folder_path: str) -> str:
    """
    Return the validated query of a transform.

    :param context: Service context.
    :param template: SQL template of the transform.
    :param transform: Transform.
    :param name: Current or future name.
    :param folder_path: Current or future folder.
    :raises BadRequestError: if a reference is unknown or circular, or the SQL is not a read-only query.
    """
    catalog = Catalog(context)
    own_tag = tag_of(folder_path, name)
    cycle = catalog.leads_to(template, transform.id, own_tag)
    if cycle is not None:
        itself = cycle in (own_tag, transform.object_tag)
        raise BadRequestError(
            f"The transform {name!r} would depend on itself: its SQL names {{{{{cycle}}}}}, which is"
            f" {'this transform' if itself else 'computed from this transform'}.",
            error_code="cyclic_reference",
        )
    query = catalog.resolve(template)
    try:
        context.warehouse.check_query(query)
    except WarehouseError as error:
        raise refusal(error) from error
    return query


def refusal(error: WarehouseError) -> BadRequestError:
    """Return the error response for SQL that the warehouse rejects."""
    return BadRequestError(f"The SQL fails: {error}", error_code="invalid_sql")
