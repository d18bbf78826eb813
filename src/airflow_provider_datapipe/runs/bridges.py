"""Connection bridges, and the check that a user has authorized with one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_datapipe.api.endpoints import connection_bridges, connections
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.runs.run_history import parse_time
from airflow_provider_datapipe.runs.targets import parse_rendered

#: Tolerance for the clocks of the service and of Airflow.
_CLOCKS = timedelta(minutes=1)
_LISTED = 5


class BridgeError(DatapipeError):
    """The state of a bridge cannot be determined."""


class BridgeExpiredError(BridgeError):
    """The bridge expired before a user authorized with it."""


def fingerprint(authorize_url: str) -> str:
    """Return a hash of the authorization URL. It identifies the URL, but cannot be used to authorize."""
    return hashlib.sha256(authorize_url.encode()).hexdigest()[:32]


def may_match(connection: Connection, integration_id: str, label: str) -> bool:
    """Return True if a bridge may have created a connection. Not all services show both fields."""
    return connection.integration_id in (None, integration_id) and connection.label in (None, label)


@dataclass(frozen=True, slots=True)
class Bridge:
    """
    A bridge without its authorization URL. It can be serialized to JSON.

    :param integration_id: ID of the integration.
    :param label: label of the connection.
    :param expires_at: time at which the bridge expires, ISO 8601.
    :param connection_id: ID of the connection to authorize again; None for a new one.
    :param known_connection_ids: IDs of the existing connections that could be mistaken for the new one.
    :param fingerprint: hash of the authorization URL, which identifies the bridge in the service's list; None if the
        list does not show the bridge.
    """

    integration_id: str
    label: str
    expires_at: str
    connection_id: str | None = None
    known_connection_ids: tuple[str, ...] = ()
    fingerprint: str | None = None

    @property
    def end(self) -> datetime:
        """Time at which the bridge expires."""
        return parse_time("expires_at of the bridge", self.expires_at)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"known_connection_ids": list(self.known_connection_ids)}

    @classmethod
    def of(cls, value: Any) -> Bridge:
        """
        Return the bridge from the result of the task that created it, or from the text of this result.

        :raises ValueError: if the value is not such a result. The message does not show the value, because it may
            contain the authorization URL.
        """
        data = parse_rendered(value)
        needed = ("integration_id", "label", "expires_at")
        if not isinstance(data, Mapping) or not all(isinstance(data.get(name), str) for name in needed):
            raise ValueError("bridge must be the result of a ConnectionBridgeCreateOperator, or its text")
        known = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        return replace(cls(**known), known_connection_ids=tuple(known.get("known_connection_ids") or ()))


async def authorized(bridge: Bridge, now: datetime) -> str | None:
    """
    Return the ID of the authorized connection, None if no user has authorized yet.

    :param bridge: the bridge.
    :param now: the current time.
    :raises BridgeExpiredError: if the bridge expired without an authorization.
    :raises BridgeError: if the state of the bridge cannot be determined.
    """
    if bridge.connection_id is None:
        found = await _new_connection(bridge)
    else:
        found = await _reauthorized(bridge, bridge.connection_id, now)
    if found is None and now >= bridge.end:
        raise BridgeExpiredError(
            f"The bridge for {bridge.label!r} ({bridge.integration_id}) ended at {bridge.end:%Y-%m-%d %H:%M:%S %Z}, "
            "and no user has authorized the connection with it. Clear the task that created it to create another one."
        )
    return found


async def _new_connection(bridge: Bridge) -> str | None:
    listed = await list_all(replace(connections.list_(), once=True))
    found = [
        one.id
        for one in listed
        if may_match(one, bridge.integration_id, bridge.label) and one.id not in bridge.known_connection_ids
    ]
    if len(found) > 1:
        raise BridgeError(
            f"{len(found)} connections may have been created by the bridge for {bridge.label!r}: "
            f"{', '.join(found[:_LISTED])}. Use a different label for each bridge."
        )
    return found[0] if found else None


async def _reauthorized(bridge: Bridge, connection_id: str, now: datetime) -> str | None:
    """Return the ID of the connection if the bridge disappeared before it expired, because then it was used."""
    if bridge.fingerprint is None:
        raise BridgeError(
            f"The service's list of bridges does not show the bridge for connection {connection_id}, so "
            "the time of its next authorization is unknown."
        )
    listed = await list_all(replace(connections.list_(), once=True))
    if connection_id not in [one.id for one in listed]:
        raise BridgeError(f"Connection {connection_id} no longer exists, so it cannot be authorized again.")
    active = (await send(replace(connection_bridges.list_(), once=True))).data
    open_now = {fingerprint(one.authorize_url) for one in active if one.authorize_url}
    if bridge.fingerprint in open_now or now >= bridge.end - _CLOCKS:
        return None
    return connection_id
