"""``datapipe pull``: write the service's resources to files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import Command, Option
from airflow_provider_datapipe.cli.files import FOLDER_PATH, TRANSFORMS, WORKSPACE, for_each_given, write
from airflow_provider_datapipe.cli.output import FORMAT, REPORT_STATUSES, show_report
from airflow_provider_datapipe.cli.service import OPTIONS

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

    parts = {"workspace": _workspace, "transforms": _transforms}
    return show_report(combined_reports(for_each_given(options, parts)), options)


def _workspace(options: argparse.Namespace, service: Service) -> Report:
    """Write the service's resources to the file."""
    from airflow_provider_datapipe.pipelines.plan import Done, Report, Result
    from airflow_provider_datapipe.pipelines.workspace.document import text_of
    from airflow_provider_datapipe.pipelines.workspace.pulling import pull as pulled_by

    path = Path(options.workspace)
    there = text_of(path) if path.exists() else None
    pulled = pulled_by(service, there, str(path))
    unsaid = (
        "Settings may hold secrets, and are never written. The service holds some that the file does not say: "
        f"{', '.join(pulled.unsaid)}."
    )
    without = (
        "The service does not show some schedules, so the file does not contain them. Add those that you know: "
        f"{', '.join(pulled.without_schedule)}."
    )
    warnings = (*((unsaid,) if pulled.unsaid else ()), *((without,) if pulled.without_schedule else ()))
    if there is None:
        result = Result.CREATED
    elif pulled.text == there:
        result = Result.UNCHANGED
    elif options.force:
        result = Result.UPDATED
    else:
        why = "it says something else than the service holds: `plan` tells what; --force has it overwritten"
        return Report((Done("workspace", str(path), Result.FAILED, why),), warnings)
    if result is not Result.UNCHANGED:
        write(path, pulled.text)
    return Report((Done("workspace", str(path), result),), warnings)


def _transforms(options: argparse.Namespace, service: Service) -> Report:
    from airflow_provider_datapipe.pipelines.transforms.files import read_files
    from airflow_provider_datapipe.pipelines.transforms.pulling import pull_transforms, write_files

    folder = Path(options.transforms)
    files = read_files(folder, may_be_empty=True)
    pulled = pull_transforms(service, files, folder_path=options.folder_path)
    return write_files(folder, pulled, force=options.force, delete=options.delete_orphans)


COMMAND = Command(
    "pull",
    "write what the service holds as files; those that say it already stay as they are",
    (
        *OPTIONS,
        TRANSFORMS,
        WORKSPACE,
        FOLDER_PATH,
        Option.of("--force", action="store_true", help="overwrite files that say something else"),
        Option.of("--delete-orphans", action="store_true", help="delete files of what the service does not hold"),
        FORMAT,
    ),
    run,
    REPORT_STATUSES,
)
