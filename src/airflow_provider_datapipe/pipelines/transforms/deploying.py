"""Having a service hold what files say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.changes.transform_bulk import (
    ItemResult,
    begin,
    cut_short,
    go_on,
    is_anything_changed,
)
from airflow_provider_datapipe.changes.transforms import KIND
from airflow_provider_datapipe.pipelines.plan import Done, Report, Result
from airflow_provider_datapipe.runs.batch import Batch, run_batch
from airflow_provider_datapipe.runs.records import NoRecords
from airflow_provider_datapipe.runs.start import StartPolicy
from airflow_provider_datapipe.runs.steps import Steps
from airflow_provider_datapipe.runs.verdict import explain
from airflow_provider_datapipe.runs.wait import WaitPolicy

if TYPE_CHECKING:
    from airflow_provider_datapipe.changes.transform_folder import DesiredTransform

#: A person or a CI job waits.
_SLOWEST_LOOK = 10.0


def deploy_transforms(
    desired: Sequence[DesiredTransform],
    *,
    publish: bool = True,
    folder_path: str = "",
    delete_orphans: bool = False,
    deadline: float | None = None,
    poll_interval: float | None = None,
    resend: bool = False,
) -> Steps[Report]:
    """
    Have a service hold definitions, and wait until they are built.

    Nothing is remembered: whoever is killed tries again, and goes by what the service shows.

    :param desired: what is to be there.
    :param publish: whether those are to be built, too, that want to be.
    :param folder_path: the folder of the service that all of them are in or below; empty for all folders.
    :param delete_orphans: whether what else is there is deleted.
    :param deadline: when waiting ends, as seconds since the epoch; None for never.
    :param poll_interval: seconds between two looks at a build; None for what is usual of builds.
    :param resend: send schedules also if the service does not show them and nothing else differs.
    :returns: one result for each; also where an error ended it after something was changed, which a warning tells then.
    :raises CyclicTransformsError: they read one another in a circle; nothing was changed.
    :raises DatapipeError: the service refused all of it, or could not be reached; nothing was changed.
    """
    records = NoRecords()
    items: dict[str, ItemResult] = {}
    batch: Batch | None = None
    policy = WaitPolicy(poll_interval, deadline, fastest=0.5, slowest=_SLOWEST_LOOK)
    try:
        batch = yield from begin(
            desired,
            publish=publish,
            records=records,
            folder_path=folder_path,
            delete_orphans=delete_orphans,
            so_far=items,
            resend=resend,
        )
        items = batch.note["items"]
        is_going_on = True
        while is_going_on:
            yield from run_batch(batch, records, StartPolicy(), policy, alone=False)
            ended = []
            for end in batch.ended:
                known = yield from explain(end)
                ended.append(known)
            batch.ended = ended
            yield from go_on(batch)
            is_going_on = not batch.is_over
    except DatapipeError as error:
        if batch is None and not is_anything_changed(items):
            raise
        cut_short(items, desired, batch, publish=publish)
        return report_of(items, f"The deployment came to no end: {error}")
    return report_of(items, *batch.note["warnings"])


def report_of(items: Mapping[str, ItemResult], *warnings: str) -> Report:
    """Give what became of many transforms as a report."""
    done = []
    for path, item in items.items():
        outcome = Result(item["result"])
        if outcome is Result.UNCHANGED and item["published"]:
            outcome = Result.PUBLISHED
        done.append(Done(KIND, path, outcome, item["error"]))
    return Report(tuple(done), warnings)
