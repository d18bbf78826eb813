"""Resources of the service that can be in a workspace file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_datapipe.api.endpoints import (
    connections,
    elt_streams,
    elt_syncs,
    orchestrations,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import Flow, list_all, send

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.connections import Connection
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.orchestrations import Orchestration
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.api.models.transforms import Transform
    from airflow_provider_datapipe.pipelines.collect import Runner

T = TypeVar("T")


@dataclass(slots=True)
class CurrentResources:
    """
    Resources of the service by ID; streams by the ID of their sync and their own ID.

    :param transforms: transforms, which identify reverse ETL syncs and can be attached to orchestrations.
    """

    connections: dict[str, Connection] = field(default_factory=dict)
    orchestrations: dict[str, Orchestration] = field(default_factory=dict)
    syncs: dict[str, EltSync] = field(default_factory=dict)
    streams: dict[str, dict[str, EltStream]] = field(default_factory=lambda: defaultdict(dict))
    transforms: dict[str, Transform] = field(default_factory=dict)
    reverse_syncs: dict[str, ReverseEtlSync] = field(default_factory=dict)


async def read_current_resources() -> CurrentResources:
    """Read the resources of the service, as shown in lists."""
    # Pages can contain duplicates if the list changes between the requests.
    resources = CurrentResources(
        {each.id: each for each in await list_all(connections.list_())},
        {each.id: each for each in await list_all(orchestrations.list_())},
        {each.id: each for each in await list_all(elt_syncs.list_())},
    )
    for stream in await list_all(elt_streams.list_()):
        resources.streams[stream.elt_sync_id][stream.id] = stream
    resources.transforms = {each.id: each for each in await list_all(transforms.list_())}
    resources.reverse_syncs = {each.id: each for each in await list_all(reverse_etl_syncs.list_())}
    return resources


def read_details(
    service: Runner, resources: CurrentResources, syncs: Iterable[str], reverse_syncs: Iterable[str]
) -> None:
    """
    Read the details of syncs. Lists may omit any field of ELT syncs, and the settings of reverse ETL syncs.

    :param service: runner of the requests.
    :param resources: the resources to update. Resources that were deleted meanwhile are removed.
    :param syncs: IDs of ELT syncs.
    :param reverse_syncs: IDs of reverse ETL syncs.
    """
    _update(service, resources.syncs, list(syncs), elt_syncs.get)
    _update(service, resources.reverse_syncs, list(reverse_syncs), reverse_etl_syncs.get)


def _update(service: Runner, resources: dict[str, T], ids: Sequence[str], get: Callable[[str], Request[Any]]) -> None:
    flows: list[Flow[T | None]] = [_get_or_none(get(each)) for each in ids]
    for resource_id, resource in zip(ids, service.run_concurrently(flows), strict=True):
        if resource is None:
            del resources[resource_id]
        else:
            resources[resource_id] = resource


async def _get_or_none(request: Request[Any]) -> Any:
    try:
        return await send(request)
    except NotFoundError:
        return None
