"""Where ELT reads: one module per kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from datapipe_local.sources.files import FileOrigin, FilesSettings, FilesSource

if TYPE_CHECKING:
    from datapipe_local.sources.base import Source
    from datapipe_local.store.records import Connection
    from datapipe_local.strict import Strict


class SourceKind(NamedTuple):
    """
    A kind of source.

    :param settings: What its connections are told.
    :param origin: What its streams are told.
    :param connect: Makes a source of a connection's settings.
    """

    settings: type[Strict]
    origin: type[Strict]
    connect: type[FilesSource]


#: By integration id.
SOURCES = {"files": SourceKind(FilesSettings, FileOrigin, FilesSource)}


def connect(connection: Connection) -> Source:
    """Give the source that a connection leads to."""
    return SOURCES[connection.integration_id].connect(connection.settings)
