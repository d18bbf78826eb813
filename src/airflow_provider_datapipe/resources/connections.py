"""Creation of bridges to connections, and deletion of connections."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_datapipe.api.endpoints import connection_bridges, connections, elt_syncs, reverse_etl_syncs
from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError
from airflow_provider_datapipe.api.models.common import UNSET, format_timestamp
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.resources.base import Change, IfMissing, change
from airflow_provider_datapipe.resources.template_values import choice
from airflow_provider_datapipe.runs.bridges import Bridge, fingerprint, may_match
from airflow_provider_datapipe.runs.names import UnknownNameError, find_connection
from airflow_provider_datapipe.runs.targets import required

KIND = "connection"
BRIDGE = "connection_bridge"

_LISTED = 5


class ConnectionInUseError(DatapipeError):
    """Syncs use the connection to delete, and ``if_used`` is ``fail``."""


@dataclass(frozen=True, slots=True)
class OpenedBridge:
    """
    A new bridge, with the secrets for the person who authorizes it.

    :param bridge: the bridge without secrets.
    :param authorize_url: address of the authorization page. It grants access to anyone who has it.
    :param state: value that the service passes to the redirect address.
    """

    bridge: Bridge
    authorize_url: str = field(repr=False)
    state: str = field(repr=False)


async def open_bridge(
    *,
    redirect_uri: str | None,
    integration_id: str | None,
    new_label: str | None,
    connection_id: str | None,
    connection_label: str | None,
    state: str | None,
) -> OpenedBridge:
    """
    Create a bridge to a new connection, or to an existing one for reauthorization.

    Each call creates another bridge. An unused bridge is harmless and expires.

    :param state: value that the service passes to the redirect address; None for a random value.
    """
    existing = None
    if connection_label is not None:
        existing = await find_connection(required("connection_label", connection_label))
    elif connection_id is not None:
        wanted = required("connection_id", connection_id)
        existing = await _by_id(wanted) or Connection(id=wanted)
    wanted_integration = required(
        "integration_id", _given(integration_id, existing.integration_id if existing else None)
    )
    label = required("new_label", _given(new_label, existing.label if existing else None))
    state_value = secrets.token_urlsafe(32) if state is None else required("state", state)
    request = connection_bridges.create(
        redirect_uri=required("redirect_uri", redirect_uri),
        integration_id=wanted_integration,
        label=label,
        connection_id=UNSET if existing is None else existing.id,
        state=state_value,
    )
    known: tuple[str, ...] = ()
    if existing is None:
        listed = await list_all(connections.list_())
        known = tuple(one.id for one in listed if may_match(one, wanted_integration, label))
    created = await send(request)
    bridge = Bridge(
        integration_id=wanted_integration,
        label=label,
        expires_at=format_timestamp(created.expires_at),
        connection_id=None if existing is None else existing.id,
        known_connection_ids=known,
    )
    if existing is not None:
        # Not every service lists the address that identifies a bridge.
        active = (await send(connection_bridges.list_())).data
        if created.authorize_url in [one.authorize_url for one in active]:
            bridge = replace(bridge, fingerprint=fingerprint(created.authorize_url))
    return OpenedBridge(bridge, created.authorize_url, state_value)


def result_of(opened: OpenedBridge, *, show: bool) -> dict[str, Any]:
    """
    Return the result of a new bridge as JSON.

    :param show: if True, the result contains the secret address and the state.
    """
    result: dict[str, Any] = {"resource": BRIDGE, "id": None, "action": "created", "changed": True}
    result |= opened.bridge.as_dict()
    if show:
        result |= {"authorize_url": opened.authorize_url, "state": opened.state}
    return result


async def delete(
    connection_id: str | None, connection_label: str | None, *, if_used: str, if_missing: IfMissing
) -> Change:
    """
    Delete a connection. The details of the result list the syncs that used it.

    :raises ConnectionInUseError: if syncs use it, and ``if_used`` is ``fail``.
    """
    choice("if_used", if_used, ("fail", "delete"))
    choice("if_missing", if_missing, ("succeed", "fail"))
    wanted, label = None, None
    try:
        if connection_label is None:
            wanted = required("connection_id", connection_id)
            found = await _by_id(wanted)
        else:
            found = await find_connection(required("connection_label", connection_label))
            wanted, label = found.id, found.label
        users = await _users(wanted)
        if if_used == "fail" and any(users.values()):
            raise ConnectionInUseError(f"Connection {label or wanted} is used by {_describe(users)}. {_IN_USE}")
        try:
            await send(connections.delete(wanted))
        except NotFoundError:
            # A listed connection existed a moment ago: the response to the first deletion request may have been lost.
            if found is None:
                raise
    except (NotFoundError, UnknownNameError):
        if if_missing == "fail":
            raise
        return change(KIND, wanted, action="deleted", changed=False)
    result = change(KIND, wanted, action="deleted", name=label)
    result["details"] = users
    return result


def _given(value: str | None, otherwise: str | None) -> str | None:
    return otherwise if value is None else value


_IN_USE = "Delete these syncs first, or set if_used='delete' to send the request anyway."


async def _by_id(connection_id: str) -> Connection | None:
    listed = await list_all(connections.list_())
    return next((one for one in listed if one.id == connection_id), None)


async def _users(connection_id: str) -> dict[str, list[str]]:
    syncs = await list_all(elt_syncs.list_())
    reverse = await list_all(reverse_etl_syncs.list_(destination_connection_id=connection_id))
    return {
        "elt_syncs": [
            sync.id for sync in syncs if connection_id in (sync.source_connection_id, sync.destination_connection_id)
        ],
        "reverse_etl_syncs": [sync.id for sync in reverse if sync.destination_connection_id == connection_id],
    }


def _describe(users: dict[str, list[str]]) -> str:
    named = [f"ELT sync {one}" for one in users["elt_syncs"]]
    named += [f"reverse ETL sync {one}" for one in users["reverse_etl_syncs"]]
    more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
    return ", ".join(named[:_LISTED]) + more
