"""End of a wait whose task is stopped. The service cannot cancel runs."""

from __future__ import annotations

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.kinds import KINDS


async def stop(batch: Batch, *, disable: bool) -> list[str]:
    """
    Return a log line for each active run of a batch, and optionally disable the schedules of the resources.

    :param batch: the batch.
    :param disable: True to disable the schedule of each resource, if the interface can do so.
    :return: lines for the log.
    """
    kind = KINDS[batch.kind]
    lines: list[str] = []
    done: dict[str, str | None] = {}
    for reference in batch.waiting:
        run = f"run {reference.run_id}" if reference.run_id else "the run that was requested"
        again = "continues with it" if kind.is_found_again else "starts another one"
        line = (
            f"{kind.noun} {reference.name}: {run} continues, because the service cannot cancel runs. Check it in the "
            f"service; if this task runs again, it {again}."
        )
        if disable:
            try:
                # Disabling a sync disables all its streams.
                what = reference.sync_id or reference.resource_id
                if what not in done:
                    done[what] = await kind.disable(reference)
                line += f" By on_kill='disable', {did}." if (did := done[what]) else " There is nothing to disable."
            except DatapipeError as error:
                line += f" on_kill='disable' failed: {error}"
        lines.append(line)
    return lines
