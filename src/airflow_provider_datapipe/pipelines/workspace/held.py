"""Resources of the service that can be in a workspace file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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


@dataclass(slots=True)
class Held:
    """
    Resources of the service by ID; streams by the ID of their sync and their own ID.

    :param transforms: transforms, which identify reverse ETL syncs and can be attached to orchestrations.
    """

    connections: dict[str, Connection] = field(default_factory=dict)
    orchestrations: dict[str, Orchestration] = field(default_factory=dict)
    syncs: dict[str, EltSync] = field(default_factory=dict)
    streams: dict[str, dict[str, EltStream]] = field(default_factory=lambda: defaultdict(dict))
    transforms: dict[str, Transform] = field(default_factory=dict)
    sendings: dict[str, ReverseEtlSync] = field(default_factory=dict)


def held_by(service: Runner) -> Held:
    """
    Read the resources of the service, as shown in lists.

    :param service: runner of the requests.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    return service.run(_lists())


async def _lists() -> Held:
    held = Held(
        # Pages can contain duplicates if the list changes between the requests.
        {each.id: each for each in await list_all(connections.list_())},
        {each.id: each for each in await list_all(orchestrations.list_())},
        {each.id: each for each in await list_all(elt_syncs.list_())},
    )
    for stream in await list_all(elt_streams.list_()):
        held.streams[stream.elt_sync_id][stream.id] = stream
    held.transforms = {each.id: each for each in await list_all(transforms.list_())}
    held.sendings = {each.id: each for each in await list_all(reverse_etl_syncs.list_())}
    return held


def read_details(service: Runner, held: Held, syncs: Collection[str], sendings: Collection[str]) -> None:
    """
    Read the details of syncs. Lists may omit any field of ELT syncs, and the settings of reverse ETL syncs.

    :param service: runner of the requests.
    :param held: the resources to update. Resources that were deleted meanwhile are removed.
    :param syncs: IDs of ELT syncs.
    :param sendings: IDs of reverse ETL syncs.
    """
    of_syncs: list[Flow[EltSync | None]] = [_if_there(elt_syncs.get(each)) for each in syncs]
    for sync_id, sync in zip(list(syncs), service.run_concurrently(of_syncs), strict=True):
        if sync is None:
            del held.syncs[sync_id]
        else:
            held.syncs[sync_id] = sync
    of_sendings: list[Flow[ReverseEtlSync | None]] = [_if_there(reverse_etl_syncs.get(each)) for each in sendings]
    for sync_id, sending in zip(list(sendings), service.run_concurrently(of_sendings), strict=True):
        if sending is None:
            del held.sendings[sync_id]
        else:
            held.sendings[sync_id] = sending


async def _if_there(request: Request[Any]) -> Any:
    try:
        return await send(request)
    except NotFoundError:
        return None
