"""Deletion order of orphaned transforms: readers before the transforms that they read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from airflow_provider_datapipe.api.endpoints import reverse_etl_syncs
from airflow_provider_datapipe.api.models.transforms import Transform, TransformStatus
from airflow_provider_datapipe.flows import gather, list_all
from airflow_provider_datapipe.resources.transform_folder import (
    CyclicTransformsError,
    DesiredTransform,
    levels,
    read_by,
    tag_resolver,
)
from airflow_provider_datapipe.resources.transform_state import folder_of, path_in_service, published_version


class Orphan(TypedDict):
    """
    A transform to delete, as JSON.

    ``key``: folder and name, followed by the ID if they are ambiguous; identifies the transform in results.
    ``read_by``: transforms and reverse ETL syncs that read it and are not deleted.
    """

    id: str
    key: str
    read_by: list[str]


async def in_order_of_deletion(
    orphans: Sequence[Transform],
    desired: Sequence[DesiredTransform],
    existing: Mapping[str, Sequence[Transform]],
    raw_tags: Collection[str],
    *,
    publish: bool,
) -> list[Orphan]:
    """
    Return transforms in an order in which each is deleted before those that it reads, with their remaining readers.

    :param orphans: the transforms to delete.
    :param desired: the desired transforms.
    :param existing: all transforms of the service, by folder and name.
    :param raw_tags: tags that do not belong to transforms.
    :param publish: if True, the transforms whose own ``publish`` is True are also built. The published versions of all
        other transforms remain, and count as readers.
    """
    if not orphans:
        return []
    by_path: dict[str, list[Transform]] = {}
    for each in orphans:
        by_path.setdefault(path_in_service(each), []).append(each)
    named = {each.path for each in desired}
    newest = [*desired, *(_desired_like(one) for path, found in existing.items() if path not in named for one in found)]
    built = {each.path for each in desired if publish and each.publish}
    published = await _published(one for path, found in existing.items() if path not in built for one in found)
    readers = _readers(by_path, newest, published, raw_tags)
    sync_readers: dict[str, list[str]] = {}
    for sync in await list_all(reverse_etl_syncs.list_()):
        sync_readers.setdefault(sync.transform_id or sync.source_id, []).append(f"the reverse ETL sync {sync.id}")
    dependencies = {path: [other for other in by_path if path in readers[other]] for path in by_path}
    ordered: list[Orphan] = []
    deleted = set(by_path)
    for path in _readers_first(dependencies):
        remaining = [reported for reader, reported in sorted(readers[path].items()) if reader not in deleted]
        found = [
            Orphan(
                id=each.id,
                key=path if len(by_path[path]) == 1 else f"{path} ({each.id})",
                read_by=remaining + sync_readers.get(each.id, []),
            )
            for each in by_path[path]
        ]
        if any(each["read_by"] for each in found):
            # An orphan that is not deleted is a reader, too.
            deleted.remove(path)
        ordered += found
    return ordered


def _readers(
    paths: Iterable[str],
    newest: Sequence[DesiredTransform],
    published: Sequence[DesiredTransform],
    raw_tags: Collection[str],
) -> dict[str, dict[str, str]]:
    """Return the readers of each path: their paths, and their descriptions for messages."""
    transform_of = tag_resolver(newest, raw_tags)
    readers: dict[str, dict[str, str]] = {path: {} for path in paths}
    for definitions, prefix in ((newest, ""), (published, "the published version of ")):
        for each in definitions:
            for path in readers.keys() & read_by(each.sql_template, transform_of):
                readers[path].setdefault(each.path, prefix + each.path)
    return readers


async def _published(candidates: Iterable[Transform]) -> list[DesiredTransform]:
    """Return the published definitions of those transforms that have one."""
    owners = [each for each in candidates if each.status != TransformStatus.DRAFT]
    versions = await gather([published_version(each.id) for each in owners])
    return [
        replace(_desired_like(owner), sql_template=version.sql_template)
        for owner, version in zip(owners, versions, strict=True)
        if version is not None
    ]


def _desired_like(transform: Transform) -> DesiredTransform:
    """Return a transform of the service as a desired transform."""
    return DesiredTransform(transform.name, folder_of(transform), transform.sql_template)


def _readers_first(read: Mapping[str, Sequence[str]]) -> list[str]:
    try:
        return [path for level in reversed(levels(read)) for path in level]
    except CyclicTransformsError:
        # Drafts can have cyclic references. No draft depends on another one being built.
        return sorted(read)
