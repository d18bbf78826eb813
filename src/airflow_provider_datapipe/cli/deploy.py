"""``datapipe deploy``: deploy transforms from a folder of SQL files."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from airflow_provider_datapipe.cli.command import Command, Option, positive_seconds, seconds
from airflow_provider_datapipe.cli.files import DELETE_ORPHANS, FOLDER_PATH, RESEND
from airflow_provider_datapipe.cli.output import FORMAT, REPORT_STATUSES, show_report
from airflow_provider_datapipe.cli.service import OPTIONS, service_of


def run(options: argparse.Namespace) -> int:
    """
    Deploy transforms.

    :param options: parsed options.
    :return: 0, or 1 if any deployment failed.
    """
    from airflow_provider_datapipe.pipelines.transforms.deploying import deploy_transforms
    from airflow_provider_datapipe.pipelines.transforms.files import desired_from_files, read_files

    desired = desired_from_files(read_files(Path(options.transforms)), folder_path=options.folder_path)
    with service_of(options) as service:
        report = service.run(
            deploy_transforms(
                desired,
                publish=not options.no_publish,
                folder_path=options.folder_path,
                delete_orphans=options.delete_orphans,
                deadline=None if options.timeout is None else time.time() + options.timeout,
                poll_interval=options.poll_interval,
                resend=options.resend,
            )
        )
    return show_report(report, options)


COMMAND = Command(
    "deploy",
    "deploy the transforms of a folder of SQL files, and build them",
    (
        *OPTIONS,
        Option.of("--transforms", metavar="FOLDER", required=True, help="the folder of SQL files"),
        FOLDER_PATH,
        DELETE_ORPHANS,
        Option.of(
            "--no-publish",
            action="store_true",
            help="publish nothing: new transforms stay drafts, published versions stay unchanged",
        ),
        Option.of("--timeout", metavar="SECONDS", type=seconds, help="longest wait for builds (default: no limit)"),
        Option.of(
            "--poll-interval",
            metavar="SECONDS",
            type=positive_seconds,
            help="seconds between two polls of a build (default: based on earlier builds)",
        ),
        RESEND,
        FORMAT,
    ),
    run,
    REPORT_STATUSES,
)
