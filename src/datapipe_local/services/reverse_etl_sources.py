"""Sources of reverse ETL syncs: published transforms, and raw views of loaded streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl_syncs import SourceType
from airflow_provider_datapipe.api.models.transforms import TransformStatus
from datapipe_local.common.errors import NotFoundError
from datapipe_local.services import transforms
from datapipe_local.warehouse.warehouse import Place

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import ReverseEtlSync

#: Prefix of raw views in references, optional in the name of a source.
_RAW = "raw."


@dataclass(frozen=True)
class Source:
    """
    Source of a reverse ETL sync.

    :param type: Kind of source.
    :param id: ID of the transform, or schema and name of the raw view.
    :param owner_id: ID of the transform or stream. Empty if it was deleted.
    :param is_published: True for raw views and published transforms. Drafts cannot be used.
    :param place: Location in the warehouse, or ``None`` if it does not exist there.
    """

    type: SourceType
    id: str
    owner_id: str
    is_published: bool
    place: Place | None

    @property
    def title(self) -> str:
        """Return the display name for messages."""
        return f"the {'transform' if self.type == SourceType.TRANSFORM else 'raw view'} {self.id!r}"

    @property
    def obstacle(self) -> str:
        """Return the reason why the source is not in the warehouse, and the remedy."""
        if not self.owner_id:
            return "was deleted: create a sync for another source"
        if self.type == SourceType.RAW_VIEW:
            return "is not in the warehouse: run its stream first"
        if self.is_published:
            return "is not in the warehouse yet: wait until it is materialized"
        return "is not in the warehouse: publish it first"


def find(context: Context, given: str) -> Source:
    """
    Return a source by transform ID, or by raw view name with or without ``raw.``.

    :raises NotFoundError: if the source does not exist.
    """
    found = _transform(context, given) or _raw_view(context, given.removeprefix(_RAW))
    if found is None:
        raise NotFoundError("transform or raw view", given)
    return found


def of(context: Context, sync: ReverseEtlSync) -> Source:
    """Return the source of a sync, even if it was deleted."""
    kind = SourceType(sync.source_type)
    find_source = _transform if kind == SourceType.TRANSFORM else _raw_view
    return find_source(context, sync.source_id) or Source(kind, sync.source_id, "", is_published=False, place=None)


def _transform(context: Context, transform_id: str) -> Source | None:
    transform = context.store.transforms.get(transform_id)
    if transform is None or transform.deleted_at is not None:
        return None
    is_published = transform.status == TransformStatus.PUBLISHED
    place = transforms.place_in_warehouse(transform)
    return Source(SourceType.TRANSFORM, transform_id, transform_id, is_published, place)


def _raw_view(context: Context, name: str) -> Source | None:
    schema, _, table = name.partition(".")
    row = context.store.database.row(
        "SELECT s.id, s.name, s.loaded, y.destination_schema_name FROM elt_streams s"
        " JOIN elt_syncs y ON y.id = s.elt_sync_id WHERE y.destination_schema_name = ? AND s.name = ?",
        schema,
        table,
    )
    if row is None:
        return None
    place = Place(row["destination_schema_name"], row["name"])
    return Source(SourceType.RAW_VIEW, str(place), row["id"], is_published=True, place=place if row["loaded"] else None)
