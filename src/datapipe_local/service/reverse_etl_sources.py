"""What reverse ETL syncs read: published transforms, and raw views of loaded streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl import SourceType
from airflow_provider_datapipe.api.models.transforms import TransformStatus
from datapipe_local.errors import NotFoundError
from datapipe_local.warehouse import Place

if TYPE_CHECKING:
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import ReverseEtlSync

#: How references name raw views: accepted before the name of one.
_RAW = "raw."


@dataclass(frozen=True)
class Source:
    """
    A source of reverse ETL.

    :param type: What it is.
    :param id: What it is called: a transform by its id, a raw view by its schema and name.
    :param owner_id: The transform or the stream; empty if it is gone.
    :param is_published: Whether it may be used: a transform that is a draft may not.
    :param place: Where it stands; ``None`` while it is not in the warehouse.
    """

    type: SourceType
    id: str
    owner_id: str
    is_published: bool
    place: Place | None

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"the {'transform' if self.type == SourceType.TRANSFORM else 'raw view'} {self.id!r}"

    @property
    def obstacle(self) -> str:
        """What is wrong with one that is not in the warehouse, and what to do."""
        if not self.owner_id:
            return "was deleted: make a sync for another one"
        if self.type == SourceType.RAW_VIEW:
            return "is not in the warehouse: run its stream first"
        if self.is_published:
            return "is not in the warehouse yet: wait until it is materialized"
        return "is not in the warehouse: publish it first"


def find(context: Context, given: str) -> Source:
    """
    Give the source that a caller names: by a transform's id, or a raw view's name, with or without ``raw.``.

    :raises NotFoundError: there is none.
    """
    found = _transform(context, given) or _raw_view(context, given.removeprefix(_RAW))
    if found is None:
        raise NotFoundError("transform or raw view", given)
    return found


def of(context: Context, sync: ReverseEtlSync) -> Source:
    """Give the source of a sync, also if it is gone."""
    kind = SourceType(sync.source_type)
    look = _transform if kind == SourceType.TRANSFORM else _raw_view
    return look(context, sync.source_id) or Source(kind, sync.source_id, "", is_published=False, place=None)


def _transform(context: Context, transform_id: str) -> Source | None:
    transform = context.store.transforms.get(transform_id)
    if transform is None or transform.deleted_at is not None:
        return None
    place = None
    if transform.object_schema is not None and transform.object_name is not None:
        place = Place(transform.object_schema, transform.object_name)
    is_published = transform.status == TransformStatus.PUBLISHED
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
