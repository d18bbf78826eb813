"""Sources of ELT: one module per kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.connectors.sources.files import FileOrigin, FilesSettings, FilesSource
from datapipe_local.connectors.sources.generated import GeneratedOrigin, GeneratedSettings, GeneratedSource
from datapipe_local.connectors.sources.sql import SqlOrigin, SqlSource, SqlSourceSettings
from datapipe_local.connectors.sources.webhook import WebhookOrigin, WebhookSettings, WebhookSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from datapipe_local.common.base_model import Strict
    from datapipe_local.connectors.sources.base import Source
    from datapipe_local.storage.clock import Clock
    from datapipe_local.storage.records import Connection
    from datapipe_local.storage.store import Store


class SourceKind(NamedTuple):
    """
    Kind of source.

    :param settings: The settings model of its connections.
    :param origin: The model of its stream definitions.
    :param connect: A function that returns the source of a connection. A webhook source reads the store; a generated
        source reads the clock.
    :param reports: Custom reports can query its streams.
    """

    settings: type[Strict]
    origin: type[Strict]
    connect: Callable[[Connection, Store, Clock], Source]
    reports: bool = False


#: Kinds of sources by integration ID.
SOURCES = {
    "files": SourceKind(
        FilesSettings, FileOrigin, lambda connection, *_: FilesSource(connection.settings), reports=True
    ),
    "generated": SourceKind(
        GeneratedSettings, GeneratedOrigin, lambda connection, _, clock: GeneratedSource(connection.settings, clock)
    ),
    "sql": SourceKind(SqlSourceSettings, SqlOrigin, lambda connection, *_: SqlSource(connection.settings)),
    "webhook": SourceKind(
        WebhookSettings, WebhookOrigin, lambda connection, store, _: WebhookSource(connection, store)
    ),
}


def connect(connection: Connection, store: Store, clock: Clock) -> Source:
    """Return the source of a connection."""
    return SOURCES[connection.integration_id].connect(connection, store, clock)
