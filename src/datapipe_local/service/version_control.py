"""The mode in which transforms are managed by version control: their definitions come from there, not from callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.errors import BadRequestError

if TYPE_CHECKING:
    from datapipe_local.service.context import Context

#: The setting, as the seed names it.
SETTING = "transforms_managed_by_version_control"


def refuse_if_managed(context: Context, what: str) -> None:
    """
    Refuse what changes the definition of a transform.

    :param context: The service.
    :param what: What was asked for.
    :raises BadRequestError: version control manages transforms here.
    """
    if context.store.setting(SETTING, default=False):
        raise BadRequestError(
            f"{what} is not possible: transforms are managed by version control here. Change them there; publish"
            " without overrides, and rematerialize, work.",
            error_code="version_control_managed",
        )
