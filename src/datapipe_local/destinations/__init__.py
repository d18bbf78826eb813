"""Where reverse ETL writes: one module per kind of destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.destinations.settings import HttpSettings, JsonLinesSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from datapipe_local.destinations.base import Destination
    from datapipe_local.store.records import Connection
    from datapipe_local.strict import Strict

#: What connections are told, by integration id.
DESTINATIONS: dict[str, type[Strict]] = {"http": HttpSettings, "jsonl": JsonLinesSettings}


def connect(
    connection: Connection, object_type_id: str, *, checkpoint: str | None, pause: Callable[[float], None]
) -> Destination:
    """
    Give the destination that a connection leads to, for one run.

    :param connection: The connection.
    :param object_type_id: What is written there.
    :param checkpoint: How far the run got in another process.
    :param pause: Waits that many seconds, or raises when the service stops.
    """
    if connection.integration_id == "http":
        from datapipe_local.destinations.http import HttpDestination

        return HttpDestination(connection.settings, object_type_id, pause)
    from datapipe_local.destinations.jsonl import JsonLinesDestination

    return JsonLinesDestination(connection.settings, object_type_id, checkpoint)
