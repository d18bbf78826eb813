"""Deployment of transforms from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.errors import DatapipeError, in_one_line
from airflow_provider_datapipe.pipelines.plan import Report, ReportItem, Result
from airflow_provider_datapipe.resources.transform_bulk import (
    ItemResult,
    begin,
    complete_results,
    go_on,
    is_anything_changed,
)
from airflow_provider_datapipe.resources.transforms import KIND
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.batch_wait import run_batch
from airflow_provider_datapipe.runs.results import explain
from airflow_provider_datapipe.runs.start import StartPolicy
from airflow_provider_datapipe.runs.task_state import NoTaskState
from airflow_provider_datapipe.runs.wait import WaitPolicy

if TYPE_CHECKING:
    from airflow_provider_datapipe.resources.transform_folder import DesiredTransform

#: Maximum poll interval in seconds, short because a user or a CI job waits.
_SLOWEST_POLL = 10.0


async def deploy_transforms(
    desired: Sequence[DesiredTransform],
    *,
    publish: bool = True,
    folder_path: str = "",
    delete_orphans: bool = False,
    deadline: float | None = None,
    poll_interval: float | None = None,
    resend: bool = False,
) -> Report:
    """
    Deploy definitions, and wait until they are built.

    No state is stored: after an interruption, the next deployment continues from the state that the service shows.

    :param desired: the desired transforms.
    :param publish: if True, the transforms whose own ``publish`` is True are also built.
    :param folder_path: folder of the service that contains all desired transforms; empty for all folders.
    :param delete_orphans: if True, other transforms in that folder or below it are deleted.
    :param deadline: time at which waiting ends, in seconds since the epoch; None for no limit.
    :param poll_interval: seconds between two polls of a build; None for an interval based on earlier builds.
    :param resend: send schedules also if the service does not show them and nothing else differs.
    :returns: a result for each transform. If an error ends the deployment after a change, the remaining transforms and
        orphans are skipped, and a warning contains the error.
    :raises CyclicTransformsError: if transforms read one another in a cycle. Nothing was changed.
    :raises DatapipeError: if the service refuses a request or cannot be reached, and nothing was changed.
    """
    records = NoTaskState()
    note: dict[str, Any] = {}
    batch: Batch | None = None
    policy = WaitPolicy(poll_interval, deadline, fastest=0.5, slowest=_SLOWEST_POLL)
    try:
        batch = await begin(
            desired,
            publish=publish,
            records=records,
            folder_path=folder_path,
            delete_orphans=delete_orphans,
            resend=resend,
            note=note,
        )
        is_going_on = True
        while is_going_on:
            await run_batch(batch, records, StartPolicy(), policy, alone=False)
            batch.ended = [await explain(end) for end in batch.ended]
            await go_on(batch)
            is_going_on = not batch.is_over
    except DatapipeError as error:
        if batch is None and not is_anything_changed(note):
            raise
        complete_results(note, desired, publish=publish)
        return report_of(note["items"], f"The deployment was aborted: {in_one_line(error)}")
    return report_of(note["items"], *note["warnings"])


def report_of(items: Mapping[str, ItemResult], *warnings: str) -> Report:
    """Return the results of transforms as a report."""
    report_items = []
    for path, item in items.items():
        outcome = Result(item["result"])
        if outcome is Result.UNCHANGED and item["published"]:
            outcome = Result.PUBLISHED
        report_items.append(ReportItem(KIND, path, outcome, item["error"]))
    return Report(tuple(report_items), warnings)
