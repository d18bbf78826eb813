"""Version control mode: transform definitions come from version control, and callers cannot change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import BadRequestError

if TYPE_CHECKING:
    from datapipe_local.services.context import Context

#: Name of the setting, also in the seed.
SETTING = "transforms_managed_by_version_control"


def refuse_if_managed(context: Context, action: str) -> None:
    """
    Raise if version control manages transforms.

    :param context: Service context.
    :param action: Refused action, for the message.
    :raises BadRequestError: if version control manages transforms.
    """
    if context.store.setting(SETTING, default=False):
        raise BadRequestError(
            f"{action} is not possible: transforms are managed by version control here. Change them there; publish"
            " without overrides, and rematerialize, work.",
            error_code="version_control_managed",
        )
