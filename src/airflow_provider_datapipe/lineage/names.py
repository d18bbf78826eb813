"""Dataset names, which are stable across events and tasks."""

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

#: URI scheme of datasets in the service's namespace.
SCHEME = "datapipe"
_RAW = "raw"
_RAW_VIEW = "raw_view"
#: Options that can follow the database name in a URL.
_OPTIONS = re.compile(r"[?;#].*", re.DOTALL)
#: Path segments of this length or more may be secret.
_LIKE_A_KEY = 16
#: OpenLineage's names for object storage schemes with several names.
_SCHEMES = {"gcs": "gs", "s3a": "s3", "s3n": "s3"}
#: Schemes whose URLs have a query. In other URLs, a question mark is part of the name.
_WEB = frozenset({"http", "https"})


class Name(NamedTuple):
    """
    Dataset name according to OpenLineage's naming rules.

    :param namespace: scheme and authority of the system.
    :param name: name within the namespace.
    """

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Naming:
    """
    Naming rules for the datasets of one service.

    :param service: namespace of datasets outside of the warehouse, such as ``datapipe://connect.example.com``.
    :param warehouse: namespace of the warehouse; same as ``service`` if it is not configured.
    :param database: prefix of table names, such as ``analytics``; may be empty.
    """

    service: str
    warehouse: str
    database: str = ""

    @classmethod
    def of(cls, netloc: str, warehouse: str | None = None) -> Naming:
        """
        Return the naming rules for a service.

        :param netloc: host and port of the service.
        :param warehouse: namespace and database of the warehouse, such as ``snowflake://org-account/ANALYTICS``; None
            if not configured. User, password and options are removed, because they are secret and not part of a name.
        :raises ValueError: if the warehouse has another format.
        """
        service = f"{SCHEME}://{netloc}"
        if not warehouse:
            return cls(service, service)
        scheme, found, rest = warehouse.partition("://")
        # A password may contain any character: drop everything up to the last @.
        authority, _, database = _OPTIONS.sub("", rest.rpartition("@")[2]).partition("/")
        if not (scheme and found):
            raise ValueError("lineage_warehouse must be like snowflake://org-account/DATABASE")
        return cls(service, f"{scheme}://{authority}" if authority else scheme, database.strip("/").replace("/", "."))

    def table(self, place: str) -> Name:
        """
        Return the name of a table or view in the warehouse.

        :param place: schema and name, such as ``stripe.payments``.
        """
        return Name(self.warehouse, f"{self.database}.{place}" if self.database else place)

    def external(self, connection_id: str, what: str) -> Name:
        """
        Return the name of a dataset in an external system, whose location the interface does not specify.

        :param connection_id: ID of the service's connection.
        :param what: stream of a source, or object type of a destination.
        """
        return Name(self.service, f"connections/{quote(connection_id, safe='')}/{quote(what, safe='')}")


def place_of_transform(folder_path: str, name: str, available: Iterable[Reference]) -> str | None:
    """
    Return the warehouse table of a published transform.

    The service's references do not contain the transform's ID. This function compares their tags, which consist of a
    prefix, the folders and the name.

    :param folder_path: folder of the transform.
    :param name: name of the transform.
    :param available: references that SQL templates can use.
    :returns: schema and name; None if no reference matches, for example before the first publish.
    """
    path = [*(part for part in folder_path.split("/") if part), name]
    tags = [(each.tag.split("."), each.dw_item_id) for each in available if each.type != _RAW_VIEW]
    named = [(segments, place) for segments, place in tags if segments[0] != _RAW]
    # A folder may have the same name as the prefix, so compare without the prefix first.
    for first in (1, 0):
        for segments, place in named:
            if path == segments[first:]:
                return place
    return None


def places_of(references: Iterable[Reference]) -> Mapping[str, str]:
    """Return the warehouse tables of references by tag."""
    return {reference.tag: reference.dw_item_id for reference in references}


def name_of_webhook(service: str, conn_id: str, endpoint: str | None) -> Name:
    """
    Return the name of the table behind a webhook. It contains the connection ID, because the URL may be secret.

    :param service: namespace of the service.
    :param conn_id: ID of the Airflow connection.
    :param endpoint: path of the table's URL, if the connection contains only the beginning of the URL.
    """
    given = [part for part in (endpoint or "").partition("?")[0].split("/") if part]
    shown = [_digest(part) if len(part) >= _LIKE_A_KEY else quote(part, safe="") for part in given]
    return Name(service, "/".join(["webhooks", quote(conn_id, safe=""), *shown]))


def name_of_file(source: str) -> Name:
    """
    Return the name of a file.

    :param source: path, or object storage URL, which may have an Airflow connection ID before the bucket.
    """
    scheme, is_address, rest = source.partition("://")
    if not is_address or scheme == "file":
        return Name("file", str(Path(rest if is_address else source).absolute()))
    if scheme in _WEB:
        # The query may contain a signature, which is secret and not part of the name.
        rest = _OPTIONS.sub("", rest)
    bucket, _, key = rest.partition("/")
    return Name(f"{_SCHEMES.get(scheme, scheme)}://{bucket.rpartition('@')[2]}", key)


def _digest(part: str) -> str:
    """Return a hash that distinguishes path segments without revealing them."""
    return hashlib.sha256(part.encode()).hexdigest()[:12]
