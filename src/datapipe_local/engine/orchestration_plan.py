"""Plan of an orchestration run: the resources to run, and their dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.formats import sql_references
from airflow_provider_datapipe.api.models.reverse_etl_syncs import SourceType
from datapipe_local.services import references
from datapipe_local.storage.records import JobKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import ReverseEtlSync

#: Resource that can run: its kind and its ID.
Subject = tuple[JobKind, str]

_ATTACHED = "orchestration_workflow_id = ?"
_IS_PUBLISHED = "published_version_id IS NOT NULL AND deleted_at IS NULL"


class Planned(NamedTuple):
    """Item of a plan, and all resources that it depends on, directly or indirectly, attached or not."""

    subject: Subject
    needs: frozenset[Subject]


def plan(context: Context, orchestration_id: str) -> list[Planned]:
    """
    Return the attached resources that can run, each after its dependencies.

    These are the streams of enabled syncs, except those with a schedule of their own; published transforms; and
    activated reverse ETL syncs whose source exists.
    """
    store, lineage = context.store, _Lineage(context)
    streams = store.database.rows(
        "SELECT s.id FROM elt_streams s JOIN elt_syncs y ON y.id = s.elt_sync_id"  # noqa: S608 - fixed names of columns and tables
        f" WHERE y.{_ATTACHED} AND y.enabled AND s.sync_interval IS NULL"
        " ORDER BY y.created_at, y.seq, s.created_at, s.seq",
        orchestration_id,
    )
    planned = [Planned((JobKind.ELT_STREAM_RUN, row["id"]), frozenset()) for row in streams]
    for transform in store.transforms.all(
        f"WHERE {_ATTACHED} AND {_IS_PUBLISHED} ORDER BY created_at, seq", orchestration_id
    ):
        subject = (JobKind.MATERIALIZATION, transform.id)
        planned.append(Planned(subject, lineage.of(subject) - {subject}))
    for reverse in store.reverse_etl_syncs.all(
        f"WHERE {_ATTACHED} AND enabled ORDER BY created_at, seq", orchestration_id
    ):
        source = lineage.source_of(reverse)
        if source is not None:
            needs = lineage.of(source) | {source}
            planned.append(Planned((JobKind.REVERSE_ETL_SYNC_RUN, reverse.id), needs))
    # An item has more dependencies than each of its dependencies.
    return sorted(planned, key=lambda item: len(item.needs))


def is_there(context: Context, subject: Subject) -> bool:
    """Return True if a planned resource still exists and can run."""
    kind, subject_id = subject
    if kind == JobKind.MATERIALIZATION:
        return context.store.transforms.first(f"WHERE id = ? AND {_IS_PUBLISHED}", subject_id) is not None
    if kind == JobKind.ELT_STREAM_RUN:
        return context.store.elt_streams.get(subject_id) is not None
    return context.store.reverse_etl_syncs.get(subject_id) is not None


class _Lineage:
    """
    Dependencies between resources, according to the published transforms.

    Streams and tables that were never loaded or built count, too: the same orchestration run may create them.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        database = context.store.database
        self._owners: dict[str, Subject] = {}
        for table in references.stream_tables(context):
            self._own(table.tag, (JobKind.ELT_STREAM_RUN, table.stream_id))
        self._templates: dict[Subject, str] = {}
        for row in database.rows(
            "SELECT t.id, t.object_tag, t.folder_path, t.name, v.sql_template FROM transforms t"  # noqa: S608 - fixed names
            f" JOIN transform_versions v ON v.id = t.published_version_id WHERE {_IS_PUBLISHED}"
        ):
            subject = (JobKind.MATERIALIZATION, row["id"])
            self._templates[subject] = row["sql_template"]
            for tag in (row["object_tag"], references.tag_of(row["folder_path"], row["name"])):
                if tag is not None:
                    self._own(tag, subject)

    def of(self, subject: Subject) -> frozenset[Subject]:
        """Return all direct and indirect dependencies of a resource."""
        found: set[Subject] = set()
        ahead = list(self._near(subject))
        while ahead:
            needed = ahead.pop()
            if needed not in found:
                found.add(needed)
                ahead += self._near(needed)
        return frozenset(found)

    def source_of(self, reverse: ReverseEtlSync) -> Subject | None:
        """Return the source of a reverse ETL sync; None if it is a draft or does not exist."""
        if reverse.source_type == SourceType.RAW_VIEW:
            return self._owners.get(f"raw.{reverse.source_id}".lower())
        source = (JobKind.MATERIALIZATION, reverse.source_id)
        return source if source in self._templates else None

    def _own(self, tag: str, subject: Subject) -> None:
        self._owners[tag.lower()] = subject

    def _near(self, subject: Subject) -> Iterator[Subject]:
        named: Sequence[str] = sql_references.tags(self._templates.get(subject, ""))
        return (owner for tag in named if (owner := self._owners.get(tag.lower())) is not None)
