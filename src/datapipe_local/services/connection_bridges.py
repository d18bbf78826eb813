"""Connection bridges: sessions in which a user authorizes a connection in the browser."""

from __future__ import annotations

import secrets
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from datapipe_local.common.errors import BadRequestError
from datapipe_local.connectors.destinations.settings import HttpSettings
from datapipe_local.connectors.egress import RefusedDestinationError
from datapipe_local.services import connections, integrations, redirects
from datapipe_local.services.checks import check_text
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import ConnectionBridge, Json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from datapipe_local.services.context import Context
    from datapipe_local.services.integrations import Integration

LIFETIME = 86_400
# Setting that contains a local folder path.
_FOLDER = "path"


class Standing(Enum):
    """State of a bridge that is not open."""

    USED = "used"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class NotOpenError(Exception):
    """
    Error for a bridge that is used, expired or unknown.

    :param standing: State of the bridge.
    """

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.value)
        self.standing = standing


class Problem(NamedTuple):
    """Validation error of one setting: its location and a message."""

    location: tuple[str | int, ...]
    message: str


class InvalidSettingsError(Exception):
    """
    Error for invalid connection settings.

    :param problems: Validation errors, at least one.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class Session(NamedTuple):
    """Open bridge with the data that the authorization page shows."""

    bridge: ConnectionBridge
    integration: Integration
    #: Current settings of the connection, if an existing connection is authorized again.
    settings: Json | None


def create(
    context: Context,
    *,
    redirect_uri: str,
    integration_id: str,
    label: str,
    connection_id: str | None = None,
    state: str | None = None,
) -> ConnectionBridge:
    """
    Create a bridge.

    :param context: Service context.
    :param redirect_uri: URL that the browser is redirected to after authorization.
    :param integration_id: Integration of the connection.
    :param label: Display name of the connection.
    :param connection_id: Existing connection to authorize again. A new connection is created if not set.
    :param state: Opaque value that is returned to the redirect URI.
    :raises BadRequestError: if the redirect URI is not allowed, or the connection belongs to another integration.
    :raises NotFoundError: if the integration or the connection does not exist.
    """
    redirects.check(redirect_uri)
    check_text("label", label)
    integrations.get(integration_id)
    now = context.clock.now()
    bridge = ConnectionBridge(
        # The ID is the only credential of the authorization page, so it must be unguessable.
        id=secrets.token_urlsafe(32),
        redirect_uri=redirect_uri,
        integration_id=integration_id,
        connection_id=connection_id,
        state=state,
        label=label,
        created_at=now,
        expires_at=later(now, LIFETIME),
    )
    with context.store.transaction():
        if connection_id is not None:
            connection = connections.get(context, connection_id)
            if connection.integration_id != integration_id:
                raise BadRequestError(
                    f"connection_id: the connection has the integration {connection.integration_id!r}, not"
                    f" {integration_id!r}: give the integration of the connection."
                )
        context.store.connection_bridges.insert(bridge)
    return bridge


def active(context: Context) -> list[ConnectionBridge]:
    """Return the unused and unexpired bridges, in order of creation."""
    return context.store.connection_bridges.all(
        "WHERE expires_at > ? AND authorized_at IS NULL ORDER BY seq", context.clock.now()
    )


def session(context: Context, bridge_id: str) -> Session:
    """
    Return the session of a bridge ID.

    :raises NotOpenError: if the bridge is unknown, used or expired.
    """
    with context.store.transaction():
        bridge = _open(context, bridge_id)
        known = None if bridge.connection_id is None else connections.get(context, bridge.connection_id)
    return Session(bridge, integrations.get(bridge.integration_id), None if known is None else known.settings)


def authorize(context: Context, bridge_id: str, given: Json) -> str:
    """
    Create or update the connection and mark the bridge as used.

    :param context: Service context.
    :param bridge_id: Bridge.
    :param given: Submitted settings.
    :return: URL to redirect the browser to.
    :raises NotOpenError: if the bridge is unknown, used or expired.
    :raises InvalidSettingsError: if the settings are invalid. Nothing changes in this case.
    """
    with context.store.transaction():
        bridge = _open(context, bridge_id)
        settings = _checked(context, integrations.get(bridge.integration_id), given)
        if bridge.connection_id is None:
            connection_id = connections.create(
                context, integration_id=bridge.integration_id, label=bridge.label, settings=settings
            ).id
        else:
            connection_id = bridge.connection_id
            context.store.connections.update(connection_id, label=bridge.label, settings=settings)
        context.store.connection_bridges.update(bridge_id, authorized_at=context.clock.now())
    return redirects.with_answer(bridge.redirect_uri, {"connection_id": connection_id, "state": bridge.state})


def decline(context: Context, bridge_id: str) -> str:
    """
    Return the redirect URL for a declined authorization. The bridge stays open.

    :raises NotOpenError: if the bridge is unknown, used or expired.
    """
    bridge = _open(context, bridge_id)
    return redirects.with_answer(bridge.redirect_uri, {"error": "access_denied", "state": bridge.state})


def _open(context: Context, bridge_id: str) -> ConnectionBridge:
    bridge = context.store.connection_bridges.get(bridge_id)
    if bridge is None:
        raise NotOpenError(Standing.UNKNOWN)
    if bridge.authorized_at is not None:
        raise NotOpenError(Standing.USED)
    if bridge.expires_at <= context.clock.now():
        raise NotOpenError(Standing.EXPIRED)
    return bridge


def _checked(context: Context, integration: Integration, given: Json) -> Json:
    problems = []
    folder = given.get(_FOLDER)
    if isinstance(folder, str) and folder and not PurePath(folder).is_absolute():
        problems.append(Problem((_FOLDER,), "Give the absolute path, which starts with a slash."))
    settings: Json = {}
    try:
        validated = integration.settings.model_validate(given)
        settings = validated.model_dump(exclude_none=True)
        if isinstance(validated, HttpSettings):
            validated.check_address(context.http_destinations)
    except RefusedDestinationError as error:
        problems.append(Problem(("url",), f"{error}."))
    except ValidationError as error:
        problems += [
            Problem(one["loc"], _sentence(one)) for one in error.errors(include_url=False, include_input=False)
        ]
    if problems:
        raise InvalidSettingsError(problems)
    return settings


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "This field is required."
    within = error.get("ctx", {}).get("error")
    if isinstance(within, ValidationError):
        # The error comes from a nested model validation.
        error = within.errors(include_url=False, include_input=False)[0]
    text = error["msg"].removeprefix("Value error, ")
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
