"""Connection bridges: sessions in which a person authorizes a connection."""

from __future__ import annotations

import secrets
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from datapipe_local.clock import later
from datapipe_local.destinations.settings import HttpSettings
from datapipe_local.egress import RefusedDestinationError
from datapipe_local.errors import BadRequestError
from datapipe_local.service import connections, integrations, redirects
from datapipe_local.store.records import ConnectionBridge, Json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from datapipe_local.service.context import Context
    from datapipe_local.service.integrations import Integration

LIFETIME = 86_400
# A setting that names a folder of this machine.
_FOLDER = "path"


class Standing(Enum):
    """What can be done with a bridge."""

    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class NotOpenError(Exception):
    """
    A bridge can't be used, or not any more.

    :param standing: Why.
    """

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.value)
        self.standing = standing


class Problem(NamedTuple):
    """What is wrong with a setting: where it stands, and what is wrong."""

    location: tuple[str | int, ...]
    message: str


class InvalidSettingsError(Exception):
    """
    Settings do not fit.

    :param problems: What is wrong, at least one.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class Session(NamedTuple):
    """A bridge that is open, and what a person who stands before it has to know."""

    bridge: ConnectionBridge
    integration: Integration
    #: The settings that the connection has now, if it is authorized again.
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
    Open a bridge.

    :param context: The service.
    :param redirect_uri: Where the browser goes afterwards.
    :param integration_id: What is connected to.
    :param label: The name of the connection for people.
    :param connection_id: The connection that is authorized again.
    :param state: What is handed back.
    :raises BadRequestError: the address is not allowed, or the connection is one of another integration.
    :raises NotFoundError: there is no such integration or connection.
    """
    redirects.check(redirect_uri)
    integrations.get(integration_id)
    now = context.clock.now()
    bridge = ConnectionBridge(
        # Whoever has it is let in.
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
                    f"connection_id: the connection is one of {connection.integration_id!r}, not of"
                    f" {integration_id!r}: give the integration that it has."
                )
        context.store.connection_bridges.insert(bridge)
    return bridge


def active(context: Context) -> list[ConnectionBridge]:
    """Give those that can be used, as they were created."""
    return context.store.connection_bridges.all(
        "WHERE expires_at > ? AND authorized_at IS NULL ORDER BY seq", context.clock.now()
    )


def session(context: Context, bridge_id: str) -> Session:
    """
    Give a bridge to who has its address.

    :raises NotOpenError: there is no such bridge, or it was used, or its time is over.
    """
    with context.store.transaction():
        bridge = _open(context, bridge_id)
        known = None if bridge.connection_id is None else connections.get(context, bridge.connection_id)
    return Session(bridge, integrations.get(bridge.integration_id), None if known is None else known.settings)


def authorize(context: Context, bridge_id: str, given: Json) -> str:
    """
    Create the connection, or change the one that is authorized again; the bridge is used up.

    :param context: The service.
    :param bridge_id: The bridge.
    :param given: The settings.
    :return: Where the browser is to go.
    :raises NotOpenError: as for :func:`session`.
    :raises InvalidSettingsError: they do not fit; everything is as it was.
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
    Tell where the browser is to go if the person does not authorize. The bridge stays: they may think better of it.

    :raises NotOpenError: as for :func:`session`.
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
        problems.append(Problem((_FOLDER,), "Give the whole path, which begins with a slash."))
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
        return "This is needed."
    within = error.get("ctx", {}).get("error")
    if isinstance(within, ValidationError):
        # A validator has used another one.
        error = within.errors(include_url=False, include_input=False)[0]
    text = error["msg"].removeprefix("Value error, ")
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
