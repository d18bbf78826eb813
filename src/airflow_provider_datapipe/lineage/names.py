"""What datasets are called: the same at the start and at the end of a task, and for all who read and write."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.transforms import Reference

#: The scheme of what is named after the service.
SCHEME = "datapipe"
_RAW = "raw"
_RAW_VIEW = "raw_view"
#: What may follow the name of a database in an address.
_OPTIONS = re.compile(r"[?;#].*", re.DOTALL)
#: A part of an address that is as long as this may be all that lets in.
_LIKE_A_KEY = 16
#: What OpenLineage calls schemes of object storage that go by other names as well.
_SCHEMES = {"gcs": "gs", "s3a": "s3", "s3n": "s3"}
#: Where an address may have a query; elsewhere, a question mark is a character of the name.
_WEB = frozenset({"http", "https"})


class Name(NamedTuple):
    """
    A dataset, by the naming rules of OpenLineage.

    :param namespace: where it is: a scheme and an authority.
    :param name: which it is there.
    """

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Naming:
    """
    How the datasets of a service are named.

    :param service: the namespace of what only the service knows, such as ``datapipe://connect.example.com``.
    :param warehouse: the namespace of the warehouse; the same, unless somebody has said what it is.
    :param database: what the names of tables begin with there, such as ``analytics``; empty for nothing.
    """

    service: str
    warehouse: str
    database: str = ""

    @classmethod
    def of(cls, netloc: str, warehouse: str | None = None) -> Naming:
        """
        Name by a service's address.

        :param netloc: host and port of the service.
        :param warehouse: what the warehouse is, as a namespace and a database, such as
            ``snowflake://org-account/ANALYTICS``; None if nobody has said so. User, password and options in it are no
            part of a name, and not for everybody who reads events.
        :raises ValueError: it is no such thing.
        """
        service = f"{SCHEME}://{netloc}"
        if not warehouse:
            return cls(service, service)
        scheme, found, rest = warehouse.partition("://")
        # A password may have any character: what is before the last @ is no name, whatever it looks like.
        authority, _, database = _OPTIONS.sub("", rest.rpartition("@")[2]).partition("/")
        if not (scheme and found):
            raise ValueError("lineage_warehouse must be like snowflake://org-account/DATABASE")
        return cls(service, f"{scheme}://{authority}" if authority else scheme, database.strip("/").replace("/", "."))

    def table(self, place: str) -> Name:
        """
        Name a table or view of the warehouse.

        :param place: its schema and name, such as ``stripe.payments``.
        """
        return Name(self.warehouse, f"{self.database}.{place}" if self.database else place)

    def external(self, connection_id: str, what: str) -> Name:
        """
        Name what is on the other side of a connection: the interface does not say where that is.

        :param connection_id: the connection.
        :param what: the stream of a source, or the type of object of a destination.
        """
        return Name(self.service, f"connections/{quote(connection_id, safe='')}/{quote(what, safe='')}")


def place_of_stream(schema: str | None, name: str) -> str:
    """Tell where a stream is loaded to."""
    return f"{schema}.{name}" if schema else name


def place_of_transform(folder_path: str, name: str, available: Iterable[Reference]) -> str | None:
    """
    Tell where a published transform stands.

    The interface says where references lead to, and not whose they are: that is told by their tags, which are a word,
    the folders and the name.

    :param folder_path: its folder.
    :param name: its name.
    :param available: what SQL can name.
    :returns: schema and name; None if the service names no such place, as before it is first published.
    """
    path = [*(part for part in folder_path.split("/") if part), name]
    tags = [(each.tag.split("."), each.dw_item_id) for each in available if each.type != _RAW_VIEW]
    named = [(segments, place) for segments, place in tags if segments[0] != _RAW]
    # A folder may be called as that word is.
    for first in (1, 0):
        for segments, place in named:
            if path == segments[first:]:
                return place
    return None


def places_of(references: Iterable[Reference]) -> Mapping[str, str]:
    """Tell where references lead to, by their tags."""
    return {reference.tag: reference.dw_item_id for reference in references}


def name_of_webhook(service: str, conn_id: str, endpoint: str | None) -> Name:
    """
    Name the table behind a webhook: by the connection of Airflow, as its address may be secret.

    :param service: the namespace of the service.
    :param conn_id: the connection.
    :param endpoint: the rest of the table's address, if the connection has only the beginning.
    """
    given = [part for part in (endpoint or "").partition("?")[0].split("/") if part]
    shown = [_digest(part) if len(part) >= _LIKE_A_KEY else quote(part, safe="") for part in given]
    return Name(service, "/".join(["webhooks", quote(conn_id, safe=""), *shown]))


def name_of_file(source: str) -> Name:
    """
    Name a file.

    :param source: its path, or its address in object storage, which may have a connection of Airflow before the bucket.
    """
    scheme, is_address, rest = source.partition("://")
    if not is_address or scheme == "file":
        return Name("file", str(Path(rest if is_address else source).absolute()))
    if scheme in _WEB:
        # What signs the address is no part of a name, and not for everybody who reads events.
        rest = _OPTIONS.sub("", rest)
    bucket, _, key = rest.partition("/")
    return Name(f"{_SCHEMES.get(scheme, scheme)}://{bucket.rpartition('@')[2]}", key)


def _digest(part: str) -> str:
    """Tell parts of an address apart without showing them."""
    return hashlib.sha256(part.encode()).hexdigest()[:12]
