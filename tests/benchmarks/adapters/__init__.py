"""Adapters of all measured waits, by name."""

from __future__ import annotations

from tests.benchmarks.adapters.base import Adapter
from tests.benchmarks.adapters.histories import Histories
from tests.benchmarks.adapters.ours import AdaptiveAlone, AdaptiveOfSyncs, Orchestrations, StreamsAlone, StreamsOfSyncs
from tests.benchmarks.adapters.peers import Airbyte, DbtCloud, Fivetran

__all__ = ["ADAPTERS", "Adapter", "Histories"]

#: Adapters in the order of the tables.
ADAPTERS: dict[str, type[Adapter]] = {
    adapter.name: adapter
    for adapter in (
        StreamsOfSyncs,
        Orchestrations,
        StreamsAlone,
        AdaptiveOfSyncs,
        AdaptiveAlone,
        Airbyte,
        DbtCloud,
        Fivetran,
    )
}
