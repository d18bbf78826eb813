"""Deletion order of orphaned transforms: readers before the transforms that they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from airflow_provider_datapipe.api.endpoints import reverse_etl_syncs
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.flows import list_all
from airflow_provider_datapipe.resources.transform_folder import CyclicTransformsError, DesiredTransform, levels, reads
from airflow_provider_datapipe.resources.transform_state import folder_of, path_in_service


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
) -> list[Orphan]:
    """
    Return transforms in an order in which each is deleted before those that it reads, with their remaining readers.

    :param orphans: the transforms to delete.
    :param desired: the desired transforms.
    :param existing: all transforms of the service, by folder and name.
    :param raw_tags: tags that do not belong to transforms.
    """
    by_path: dict[str, list[Transform]] = {}
    for each in orphans:
        by_path.setdefault(path_in_service(each), []).append(each)
    remaining = {path: desired_like(found[0]) for path, found in existing.items() if path not in by_path}
    remaining |= {each.path: each for each in desired}
    deleted = {path: desired_like(found[0]) for path, found in by_path.items()}
    read = reads([*remaining.values(), *deleted.values()], raw_tags)
    readers = {path: [reader for reader in sorted(remaining) if path in read[reader]] for path in deleted}
    sync_readers: dict[str, list[str]] = {}
    for sync in await list_all(reverse_etl_syncs.list_()):
        reported = f"the reverse ETL sync {sync.id}"
        sync_readers.setdefault(sync.transform_id or sync.source_id, []).append(reported)
    dependencies = {path: [other for other in read[path] if other in deleted] for path in deleted}
    return [
        Orphan(
            id=each.id,
            key=path if len(by_path[path]) == 1 else f"{path} ({each.id})",
            read_by=readers[path] + sync_readers.get(each.id, []),
        )
        for path in _readers_first(dependencies)
        for each in by_path[path]
    ]


def desired_like(transform: Transform) -> DesiredTransform:
    """Return a transform of the service as a desired transform."""
    return DesiredTransform(transform.name, folder_of(transform), transform.sql_template)


def _readers_first(read: Mapping[str, Sequence[str]]) -> list[str]:
    try:
        return [path for level in reversed(levels(read)) for path in level]
    except CyclicTransformsError:
        # Drafts can have cyclic references. No draft depends on another one being built.
        return sorted(read)
