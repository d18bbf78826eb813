"""Publishing of transforms as views or tables of the warehouse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.transforms import Materialization, MaterializationStatus, TransformStatus
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import elt_tables, jobs, transform_sql, transform_triggers, transforms, version_control
from datapipe_local.services.checks import check_name
from datapipe_local.services.references import Catalog, place_of, tag_of, transform_at
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import JobKind
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.services.transforms import Definition
    from datapipe_local.storage.clock import Timestamp
    from datapipe_local.storage.records import Transform
    from datapipe_local.warehouse.warehouse import Place

_LONGEST_FOLDER_PATH = 255
_MARK = re.compile(r"Publication \d+ of the transform \S+")
#: Schemas and databases of DuckDB, and the warehouse itself. These names would be ambiguous.
_RESERVED_SCHEMAS = frozenset({"information_schema", "pg_catalog", "main", "temp", "system", "warehouse"})


def publish(
    context: Context,
    transform_id: str,
    *,
    version_id: str | None = None,
    name: str | None = None,
    folder_path: str | None = None,
    materialization: Materialization | None = None,
    ignore_version_control: bool = False,
) -> Transform:
    """
    Publish a version of a transform: a view immediately, a table in the background.

    The interface does not define if overrides are permanent, nor what happens to an active build. Here, overrides
    become the transform's own values, and the latest publication wins: the result of an active build is discarded, and
    the new version is built next.

    The previous view or table stays available until the new one is complete.

    :param context: Service context.
    :param transform_id: Transform.
    :param version_id: Version, by default the latest.
    :param name: New name.
    :param folder_path: New folder.
    :param materialization: New materialization.
    :param ignore_version_control: Allow overrides while version control manages transforms.
    :raises NotFoundError: if the transform or the version does not exist.
    :raises BadRequestError: if a name is invalid or taken, a reference is unknown or circular, other transforms
        refer to the current name, DuckDB rejects the SQL, or overrides are set while version control manages
        transforms.
    """
    if not ignore_version_control and any(override is not None for override in (name, folder_path, materialization)):
        version_control.refuse_if_managed(context, "Publishing with overrides")
    with context.publishing:
        transform = transforms.get(context, transform_id)
        known = transforms.definition(transform)
        return _publish(
            context,
            transform,
            transforms.version(context, transform, version_id or transform.latest_version_id).id,
            transforms.Definition(
                known.name if name is None else name,
                known.folder_path if folder_path is None else folder_path,
                materialization or known.materialization,
            ),
        )


def rematerialize(context: Context, transform_id: str) -> Transform:
    """
    Rebuild the published version of a transform.

    :raises NotFoundError: if the transform does not exist.
    :raises BadRequestError: if the transform is not published, or :func:`publish` would refuse its SQL or its name.
    """
    with context.publishing:
        transform = transforms.get(context, transform_id)
        if transform.published_version_id is None:
            raise BadRequestError(
                f"The transform {transform_id!r} is not published: publish it first.",
                error_code="transform_not_published",
            )
        published = transforms.Definition(
            transform.name, transform.folder_path, Materialization(transform.materialization)
        )
        return _publish(context, transform, transform.published_version_id, published, is_again=True)


def published_query(context: Context, transform: Transform) -> str:
    """
    Return the SQL of a published transform with its references resolved.

    :raises BadRequestError: if a reference no longer exists.
    """
    template = transforms.version(context, transform, str(transform.published_version_id)).sql_template
    return transform_sql.query_of(context, template, transform, name=transform.name, folder_path=transform.folder_path)


def recreate_view(context: Context, transform: Transform) -> None:
    """
    Create the view of a transform again, as it was published, in place of its present object.

    :raises BadRequestError: if a reference no longer exists.
    :raises WarehouseError: if DuckDB refuses the query; nothing is changed.
    """
    context.warehouse.create_view(
        place_of(transform.folder_path, transform.name),
        published_query(context, transform),
        instead_of=transforms.place_in_warehouse(transform),
        comment=mark(transform.id, transform.publication),
    )


def mark(transform_id: str, publication: int) -> str:
    """Return the comment of a view, which identifies its publication after a kill."""
    return f"Publication {publication} of the transform {transform_id}"


def is_mark(comment: str) -> bool:
    """Return True if a comment is that of a transform's view."""
    return _MARK.fullmatch(comment) is not None


def note_object(context: Context, transform: Transform) -> None:
    """Record that the warehouse contains the transform as published."""
    place = place_of(transform.folder_path, transform.name)
    # This object replaces one that a deleted transform has left.
    context.store.database.run(
        "UPDATE transforms SET object_kind = NULL, object_schema = NULL, object_name = NULL"
        " WHERE deleted_at IS NOT NULL AND object_schema = ? AND object_name = ?",
        *place,
    )
    context.store.transforms.update(
        transform.id,
        object_tag=tag_of(transform.folder_path, transform.name),
        object_kind=transform.materialization,
        object_schema=place.schema,
        object_name=place.name,
    )


def start_build(context: Context, transform_id: str, due_at: Timestamp) -> None:
    """Let the engine build the table of a transform, unless a build is pending. The caller holds a transaction."""
    context.store.transforms.update(transform_id, materialization_status=MaterializationStatus.RUNNING)
    if jobs.get(context, JobKind.MATERIALIZATION, transform_id) is None:
        jobs.add(context, JobKind.MATERIALIZATION, transform_id, due_at, begun=True)


def check_names(name: str, folder_path: str) -> None:
    """
    Validate the name and the folder of a transform.

    :raises BadRequestError: if one of them is invalid.
    """
    check_name("name", name)
    if not folder_path:
        return
    if len(folder_path) > _LONGEST_FOLDER_PATH:
        raise BadRequestError(
            f"folder_path: it has {len(folder_path)} characters: at most {_LONGEST_FOLDER_PATH} are allowed."
        )
    for part in folder_path.split("/"):
        check_name("folder_path", part)
    # The folder names joined make the schema name, which can be reserved even if no folder name is.
    schema = place_of(folder_path, name).schema
    if schema.lower() in _RESERVED_SCHEMAS:
        raise BadRequestError(f"folder_path: {schema!r} is reserved in the warehouse: choose another folder.")


def _publish(
    context: Context, transform: Transform, version_id: str, wanted: Definition, *, is_again: bool = False
) -> Transform:
    name, folder_path, materialization = wanted
    check_names(name, folder_path)
    place = place_of(folder_path, name)
    _refuse_if_taken(context, transform, place)
    _refuse_if_missed(context, transform, tag_of(folder_path, name))
    template = transforms.version(context, transform, version_id).sql_template
    query = transform_sql.query_of(context, template, transform, name=name, folder_path=folder_path)
    if materialization == Materialization.VIEW:
        try:
            context.warehouse.create_view(
                place,
                query,
                instead_of=transforms.place_in_warehouse(transform),
                comment=mark(transform.id, transform.publication + 1),
            )
        except WarehouseError as error:
            raise transform_sql.refusal(error) from error
    # Rebuilding must not publish changes that the draft has received since the publication.
    given_since = {} if is_again else {"next_name": None, "next_folder_path": None, "next_materialization": None}
    with context.store.transaction():
        now = context.clock.now()
        context.store.transforms.update(
            transform.id,
            name=name,
            folder_path=folder_path,
            materialization=materialization,
            **given_since,
            status=TransformStatus.PUBLISHED,
            published_version_id=version_id,
            publication=transform.publication + 1,
            materialization_status=None,
            materialization_error=None,
            updated_at=now,
        )
        published = transforms.get(context, transform.id)
        if materialization == Materialization.VIEW:
            note_object(context, published)
            transform_triggers.remove_schedule_of_view(context, published)
        else:
            start_build(context, transform.id, later(now, context.minimum_duration_of(transform.id)))
        published = transforms.get(context, transform.id)
    context.wake.set()
    return published


def _refuse_if_taken(context: Context, transform: Transform, place: Place) -> None:
    owner = transform_at(context, place)
    if owner is not None and owner.id != transform.id:
        raise BadRequestError(
            f"name: {place} is the place of the transform {owner.id!r}: choose another name or folder.",
            error_code="name_taken",
        )
    elt_tables.refuse_if_taken(context, place)


def _refuse_if_missed(context: Context, transform: Transform, tag: str) -> None:
    if transform.object_tag in (None, tag):
        return
    dependents = Catalog(context).dependents(str(transform.object_tag), but=transform.id)
    if dependents:
        raise BadRequestError(
            f"name: {', '.join(sorted(repr(dependent.name) for dependent in dependents))} would lose"
            f" {{{{{transform.object_tag}}}}}: publish without another name or folder.",
            error_code="transform_in_use",
        )
