"""Creating many transforms at once, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.errors import BadRequestError
from datapipe_local.service import transform_drafts

if TYPE_CHECKING:
    from datapipe_local.service.context import Context


class Result(NamedTuple):
    """
    What became of one of them.

    :param name: Its name.
    :param transform_id: Its id, if it was created.
    :param error: Why it was not.
    """

    name: str
    transform_id: str | None = None
    error: str | None = None


def create_one(context: Context, fields: dict[str, Any]) -> Result:
    """
    Create one of many: that it is refused keeps none of the others from being created.

    :param context: The service.
    :param fields: As :func:`datapipe_local.service.transform_drafts.create` takes them.
    """
    name = str(fields["name"])
    try:
        return Result(name, transform_drafts.create(context, **fields).id)
    except BadRequestError as error:
        return Result(name, error=error.message)
