"""``datapipe pull``: write the service's resources to files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import Command, Option
from airflow_provider_datapipe.cli.files import FOLDER_PATH, TRANSFORMS, WORKSPACE, run_for_files, write
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
    return show_report(combined_reports(run_for_files(options, parts)), options)


def _workspace(options: argparse.Namespace, service: Service) -> Report:
    """Write the service's resources to the file."""
    from airflow_provider_datapipe.pipelines.plan import Report, ReportItem, Result
    from airflow_provider_datapipe.pipelines.workspace.document import text_of
    from airflow_provider_datapipe.pipelines.workspace.pulling import pull as pull_workspace

    path = Path(options.workspace)
    existing = text_of(path) if path.exists() else None
    pulled = pull_workspace(service, existing, str(path))
    warnings = []
    if pulled.without_settings:
        warnings.append(
            "Settings can contain secrets, so they are not written. The service has settings that the file does not "
            f"contain: {', '.join(pulled.without_settings)}."
        )
    if pulled.without_schedule:
        warnings.append(
            "The service does not show some schedules, so the file does not contain them. Add those that you know: "
            f"{', '.join(pulled.without_schedule)}."
        )
    if existing is None:
        result = Result.CREATED
    elif pulled.text == existing:
        result = Result.UNCHANGED
    elif options.force:
        result = Result.UPDATED
    else:
        why = "it differs from the service: `datapipe plan` shows the differences, --force overwrites the file"
        return Report((ReportItem("workspace", str(path), Result.FAILED, why),), tuple(warnings))
    if result is not Result.UNCHANGED:
        write(path, pulled.text)
    return Report((ReportItem("workspace", str(path), result),), tuple(warnings))


def _transforms(options: argparse.Namespace, service: Service) -> Report:
    from airflow_provider_datapipe.pipelines.transforms.files import read_files
    from airflow_provider_datapipe.pipelines.transforms.pulling import pull_transforms, write_files

    folder = Path(options.transforms)
    files = read_files(folder, may_be_empty=True)
    pulled = pull_transforms(service, files, folder_path=options.folder_path)
    return write_files(folder, pulled, force=options.force, delete=options.delete_orphans)


COMMAND = Command(
    "pull",
    "write the resources of the service to files; files that match the service stay unchanged",
    (
        *OPTIONS,
        TRANSFORMS,
        WORKSPACE,
        FOLDER_PATH,
        Option.of("--force", action="store_true", help="overwrite files that differ from the service"),
        Option.of("--delete-orphans", action="store_true", help="delete files without a resource in the service"),
        FORMAT,
    ),
    run,
    REPORT_STATUSES,
)
