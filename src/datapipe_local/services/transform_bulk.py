"""Bulk creation of transforms, independently of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import transform_drafts

if TYPE_CHECKING:
    from datapipe_local.services.context import Context


class Result(NamedTuple):
    """
    Result of one item of a bulk request.

    :param name: Name of the transform.
    :param transform_id: ID, if the transform was created.
    :param error: Error message, if it was not.
    """

    name: str
    transform_id: str | None = None
    error: str | None = None


def create_one(context: Context, fields: dict[str, Any]) -> Result:
    """
    Create one transform of a bulk request. A refusal does not affect the others.

    :param context: Service context.
    :param fields: Arguments of :func:`datapipe_local.services.transform_drafts.create`.
    """
    name = str(fields["name"])
    try:
        return Result(name, transform_drafts.create(context, **fields).id)
    except BadRequestError as error:
        return Result(name, error=error.message)
