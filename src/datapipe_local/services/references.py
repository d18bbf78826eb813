"""References in SQL templates, written in double braces, and dependencies between transforms."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.formats.sql_references import tags
from airflow_provider_datapipe.api.models.transforms import Materialization, ReferenceType, TransformStatus
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import templates
from datapipe_local.warehouse.loading.history import history_of
from datapipe_local.warehouse.loading.substreams import prefix_of
from datapipe_local.warehouse.warehouse import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Transform

_RAW = "raw."
_MODEL = "model."
#: Schema of transforms without a folder.
_SCHEMA_WITHOUT_FOLDER = "models"


class Reference(NamedTuple):
    """
    Target of a reference.

    :param tag: Text in the braces.
    :param type: Kind of the target.
    :param place: Location in the warehouse.
    :param owner_id: ID of the stream or transform. Empty if the target does not exist.
    """

    tag: str
    type: ReferenceType
    place: Place
    owner_id: str


class StreamTable(NamedTuple):
    """
    Table of an ELT stream, or its history, or the view of one of its substreams.

    :param stream_id: ID of the stream.
    :param place: Location in the warehouse.
    :param is_loaded: True if the stream is loaded, so that SQL can name the table.
    """

    stream_id: str
    place: Place
    is_loaded: bool

    @property
    def tag(self) -> str:
        """Reference to the table."""
        return f"{_RAW}{self.place}"


def stream_tables(context: Context) -> Iterator[StreamTable]:
    """Yield the tables of all streams, including those that a later run creates."""
    database = context.store.database
    # First: a stream can have the name of a history that another stream no longer writes, and is its owner.
    for row in database.rows(
        "SELECT s.id, t.schema_name, t.name, s.loaded FROM elt_tables t JOIN elt_streams s ON s.id = t.beside"
    ):
        yield StreamTable(row["id"], Place(row["schema_name"], row["name"]), bool(row["loaded"]))
    for row in database.rows(
        "SELECT s.id, y.destination_schema_name, s.name, s.loaded, s.enabled_history_table"
        " FROM elt_streams s JOIN elt_syncs y ON y.id = s.elt_sync_id"
    ):
        place = Place(row["destination_schema_name"], row["name"])
        yield StreamTable(row["id"], place, bool(row["loaded"]))
        if row["enabled_history_table"]:
            yield StreamTable(row["id"], history_of(place), is_loaded=False)


def tag_of(folder_path: str, name: str) -> str:
    """Return the reference to a transform."""
    return _MODEL + ".".join([*_folders(folder_path), name])


def place_of(folder_path: str, name: str) -> Place:
    """Return the location of a transform: its folder path is the schema name."""
    return Place("_".join(_folders(folder_path)) or _SCHEMA_WITHOUT_FOLDER, name)


def transform_at(context: Context, place: Place) -> Transform | None:
    """Return the published transform whose object is, or will be, at a location."""
    owner = context.store.transforms.first(
        "WHERE object_schema = ? AND object_name = ? AND deleted_at IS NULL", place.schema, place.name
    )
    if owner is not None:
        return owner
    for transform in context.store.transforms.all(
        "WHERE status = ? AND name = ? COLLATE NOCASE AND deleted_at IS NULL", TransformStatus.PUBLISHED, place.name
    ):
        if place_of(transform.folder_path, transform.name).schema.lower() == place.schema.lower():
            return transform
    return None


def transform_among_substreams(context: Context, table: Place) -> Transform | None:
    """Return a published transform whose name is, or will be, that of a possible substream of a table."""
    prefix = prefix_of(table.name).lower()
    for transform in context.store.transforms.all(
        "WHERE deleted_at IS NULL AND (instr(lower(object_name), ?) = 1 OR (status = ? AND instr(lower(name), ?) = 1))",
        prefix,
        TransformStatus.PUBLISHED,
        prefix,
    ):
        schemas = {transform.object_schema, place_of(transform.folder_path, transform.name).schema}
        if table.schema.lower() in {schema.lower() for schema in schemas if schema is not None}:
            return transform
    return None


class Catalog:
    """
    Catalog of everything that references can name: tables of loaded streams and objects of published transforms.

    :param context: Service context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._references = {reference.tag: reference for reference in self._read()}

    def available(self) -> list[Reference]:
        """Return all references, sorted."""
        return sorted(self._references.values())

    def describe(self, template: str) -> list[Reference]:
        """Return the references of a template. A missing target is described by its tag."""
        return [self._references.get(tag) or _guess(tag) for tag in tags(template)]

    def resolve(self, template: str) -> str:
        """
        Return the SQL of a template.

        :raises BadRequestError: if a reference is unknown. The message contains similar references.
        """
        unknown = [tag for tag in tags(template) if tag not in self._references]
        if unknown:
            raise BadRequestError(
                f"Unknown reference {', '.join(map(self._with_hint, unknown))}: a stream can be named once it"
                " is loaded, a transform once it is published.",
                error_code="unknown_reference",
            )
        return templates.filled(template, lambda tag: self._references[tag].place.sql)

    def leads_to(self, template: str, transform_id: str, own_tag: str) -> str | None:
        """
        Return the first reference of a template that depends on a transform, or None.

        :param template: SQL template.
        :param transform_id: Transform.
        :param own_tag: Future tag of the transform. A reference to it counts even if the target does not exist yet.
        """
        for tag in tags(template):
            if self._reaches(tag, transform_id, own_tag):
                return tag
        return None

    def dependents(self, tag: str, *, but: str) -> list[Transform]:
        """Return the other published transforms that refer directly to a tag."""
        return [
            transform
            for transform in self._context.store.transforms.all(
                "WHERE published_version_id IS NOT NULL AND deleted_at IS NULL AND id != ?", but
            )
            if tag in tags(self._published_template(transform.id))
        ]

    def _reaches(self, tag: str, transform_id: str, own_tag: str) -> bool:
        ahead, seen = [tag], set()
        while ahead:
            tag = ahead.pop()
            reference = self._references.get(tag)
            if tag == own_tag or (reference is not None and reference.owner_id == transform_id):
                return True
            if reference is not None and reference.type != ReferenceType.RAW_VIEW and tag not in seen:
                seen.add(tag)
                ahead += tags(self._published_template(reference.owner_id))
        return False

    def _read(self) -> Iterator[Reference]:
        for table in stream_tables(self._context):
            if table.is_loaded:
                yield Reference(table.tag, ReferenceType.RAW_VIEW, table.place, table.stream_id)
        for transform in self._context.store.transforms.all("WHERE object_tag IS NOT NULL"):
            kind = (
                ReferenceType.MATERIALIZED_TABLE
                if transform.object_kind == Materialization.TABLE
                else ReferenceType.MODEL_VIEW
            )
            place = Place(str(transform.object_schema), str(transform.object_name))
            yield Reference(str(transform.object_tag), kind, place, transform.id)

    def _published_template(self, transform_id: str) -> str:
        text = self._context.store.database.value(
            "SELECT v.sql_template FROM transforms t JOIN transform_versions v ON v.id = t.published_version_id"
            " WHERE t.id = ?",
            transform_id,
        )
        return str(text or "")

    def _with_hint(self, tag: str) -> str:
        near = difflib.get_close_matches(tag, self._references, n=3, cutoff=0.6)
        return f"{{{{{tag}}}}}" + (f" (did you mean {' or '.join(near)}?)" if near else "")


def _folders(folder_path: str) -> list[str]:
    return [part for part in folder_path.split("/") if part]


def _guess(tag: str) -> Reference:
    kind = ReferenceType.RAW_VIEW if tag.startswith(_RAW) else ReferenceType.MODEL_VIEW
    *schema, name = tag.removeprefix(_RAW).removeprefix(_MODEL).split(".")
    return Reference(tag, kind, Place("_".join(schema) or _SCHEMA_WITHOUT_FOLDER, name), "")
