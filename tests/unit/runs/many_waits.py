"""Service with many active runs, and references of these runs."""

from __future__ import annotations

from airflow_provider_datapipe.runs.models import RunRef
from tests.support.many_runs import ManyRuns, Run


def many(
    now: float, ends_after: float = 10_000.0, *, reverse_etl: int = 0, streams: int = 0, orchestrations: int = 0
) -> ManyRuns:
    """Return a service with active runs of reverse ETL syncs, streams of the sync ``y``, and orchestrations."""
    began, ends = now - 10, now + ends_after
    service = ManyRuns()
    service.reverse_etl = {f"r{number}": Run(began, ends) for number in range(reverse_etl)}
    service.streams["y"] = {f"s{number}": Run(began, ends) for number in range(streams)}
    # The list is ordered by the start.
    service.orchestrations = {f"o{number}": Run(began - number, ends) for number in range(orchestrations)}
    return service


def reverse_etl(run_id: str) -> RunRef:
    return RunRef("reverse_etl", "r", run_id, run_id=run_id)


def stream(name: str, sync_id: str = "y") -> RunRef:
    return RunRef("elt_stream", name, name, run_id=f"{sync_id}.{name}", sync_id=sync_id)


def orchestration(run_id: str) -> RunRef:
    return RunRef("orchestration", "o", run_id, run_id=run_id)


def references(service: ManyRuns) -> list[RunRef]:
    streams = map(stream, service.streams["y"])
    return [*map(reverse_etl, service.reverse_etl), *streams, *map(orchestration, service.orchestrations)]
