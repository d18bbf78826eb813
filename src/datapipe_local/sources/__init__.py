"""Where ELT reads: one module per kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.sources.files import FileOrigin, FilesSettings, FilesSource
from datapipe_local.sources.generated import GeneratedOrigin, GeneratedSettings, GeneratedSource
from datapipe_local.sources.sql import SqlOrigin, SqlSource, SqlSourceSettings
from datapipe_local.sources.webhook import WebhookOrigin, WebhookSettings, WebhookSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from datapipe_local.clock import Clock
    from datapipe_local.sources.base import Source
    from datapipe_local.store.records import Connection
    from datapipe_local.store.store import Store
    from datapipe_local.strict import Strict


class SourceKind(NamedTuple):
    """
    A kind of source.

    :param settings: What its connections are told.
    :param origin: What its streams are told.
    :param connect: Makes a source of a connection; of the store it reads what was pushed there, if it is that kind;
        of the clock, what has changed by now, if that is made up.
    :param reports: Queries over its streams can be streams, too.
    """

    settings: type[Strict]
    origin: type[Strict]
    connect: Callable[[Connection, Store, Clock], Source]
    reports: bool = False


#: By integration id.
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
    """Give the source that a connection leads to."""
    return SOURCES[connection.integration_id].connect(connection, store, clock)
