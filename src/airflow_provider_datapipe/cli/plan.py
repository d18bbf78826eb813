"""``datapipe plan``: show the changes that deploying transforms or applying a workspace file would make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli import workspace
from airflow_provider_datapipe.cli.command import Command, CommandError, Option
from airflow_provider_datapipe.cli.output import EXIT_ZERO, FORMAT, PLAN_STATUSES, show_plan
from airflow_provider_datapipe.cli.service import OPTIONS, service_of

if TYPE_CHECKING:
    from airflow_provider_datapipe.cli.service import Service
    from airflow_provider_datapipe.pipelines.plan import Plan

#: Options of all commands for transforms.
TRANSFORMS = Option.of("--transforms", metavar="FOLDER", help="the folder of SQL files")
FOLDER_PATH = Option.of(
    "--folder-path",
    metavar="PATH",
    default="",
    help="the folder of the service that all of them are in or below (default: files say all folders)",
)
DELETE_ORPHANS = Option.of(
    "--delete-orphans", action="store_true", help="delete what the service holds there, and no file says"
)
#: Option of all commands that change schedules.
RESEND = Option.of(
    "--resend", action="store_true", help="send also schedules that the service does not show, and can't be compared"
)


def run(options: argparse.Namespace) -> int:
    """
    Show a plan.

    :param options: parsed options.
    :return: 3 if the plan has changes, 0 otherwise or with ``--exit-zero``.
    """
    from airflow_provider_datapipe.pipelines.plan import combined

    if options.transforms is None and options.workspace is None:
        raise CommandError("give --workspace or --transforms, so that it is known what the service is to hold.")
    plans = []
    with service_of(options) as service:
        if options.workspace is not None:
            plans.append(workspace.plan(options, service))
        if options.transforms is not None:
            plans.append(_transforms(options, service))
    return show_plan(combined(plans), options)


def _transforms(options: argparse.Namespace, service: Service) -> Plan:
    from airflow_provider_datapipe.pipelines.transforms.files import read_files, wanted
    from airflow_provider_datapipe.pipelines.transforms.planning import plan_transforms

    desired = wanted(read_files(Path(options.transforms)), folder_path=options.folder_path)
    return plan_transforms(service, desired, folder_path=options.folder_path, delete_orphans=options.delete_orphans)


COMMAND = Command(
    "plan",
    "show what would have to be done so that the service holds what files say",
    (*OPTIONS, TRANSFORMS, workspace.WORKSPACE, FOLDER_PATH, DELETE_ORPHANS, FORMAT, EXIT_ZERO),
    run,
    PLAN_STATUSES,
)
