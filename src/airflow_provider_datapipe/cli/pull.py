"""``datapipe pull``: write the service's resources to files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli import workspace
from airflow_provider_datapipe.cli.command import Command, CommandError, Option
from airflow_provider_datapipe.cli.output import FORMAT, REPORT_STATUSES, show_report
from airflow_provider_datapipe.cli.plan import FOLDER_PATH, TRANSFORMS
from airflow_provider_datapipe.cli.service import OPTIONS, service_of

if TYPE_CHECKING:
    from airflow_provider_datapipe.cli.service import Service
    from airflow_provider_datapipe.pipelines.plan import Report


def run(options: argparse.Namespace) -> int:
    """
    Write the files.

    :param options: parsed options.
    :return: 0, or 1 if a resource could not be written to a file.
    """
    from airflow_provider_datapipe.pipelines.plan import combined_reports

    if options.transforms is None and options.workspace is None:
        raise CommandError("give --workspace or --transforms, so that it is known what is to be written.")
    reports = []
    with service_of(options) as service:
        if options.workspace is not None:
            reports.append(workspace.pull(options, service))
        if options.transforms is not None:
            reports.append(_transforms(options, service))
    return show_report(combined_reports(reports), options)


def _transforms(options: argparse.Namespace, service: Service) -> Report:
    from airflow_provider_datapipe.pipelines.transforms.files import read_files
    from airflow_provider_datapipe.pipelines.transforms.pulling import pull_transforms, write

    folder = Path(options.transforms)
    files = read_files(folder, may_be_empty=True)
    pulled = pull_transforms(service, files, folder_path=options.folder_path)
    return write(folder, pulled, force=options.force, delete=options.delete_orphans)


COMMAND = Command(
    "pull",
    "write what the service holds as files; those that say it already stay as they are",
    (
        *OPTIONS,
        TRANSFORMS,
        workspace.WORKSPACE,
        FOLDER_PATH,
        Option.of("--force", action="store_true", help="overwrite files that say something else"),
        Option.of("--delete-orphans", action="store_true", help="delete files of what the service does not hold"),
        FORMAT,
    ),
    run,
    REPORT_STATUSES,
)
