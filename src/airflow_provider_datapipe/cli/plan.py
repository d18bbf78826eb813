"""``datapipe plan``: show the changes that deploying transforms or applying a workspace file would make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import Command
from airflow_provider_datapipe.cli.files import DELETE_ORPHANS, FOLDER_PATH, TRANSFORMS, WORKSPACE, run_for_files
from airflow_provider_datapipe.cli.output import EXIT_ZERO, FORMAT, PLAN_STATUSES, show_plan
from airflow_provider_datapipe.cli.service import OPTIONS

if TYPE_CHECKING:
    from airflow_provider_datapipe.cli.service import Service
    from airflow_provider_datapipe.pipelines.plan import Plan


def run(options: argparse.Namespace) -> int:
    """
    Show a plan.

    :param options: parsed options.
    :return: 3 if the plan has changes, 0 otherwise or with ``--exit-zero``.
    """
    from airflow_provider_datapipe.pipelines.plan import combined_plans

    parts = {"workspace": _workspace, "transforms": _transforms}
    return show_plan(combined_plans(run_for_files(options, parts)), options)


def _workspace(options: argparse.Namespace, service: Service) -> Plan:
    from airflow_provider_datapipe.pipelines.workspace.document import read
    from airflow_provider_datapipe.pipelines.workspace.planning import make_plan

    return make_plan(service, read(Path(options.workspace)), delete_orphans=options.delete_orphans).plan


def _transforms(options: argparse.Namespace, service: Service) -> Plan:
    from airflow_provider_datapipe.pipelines.transforms.files import desired_from_files, read_files
    from airflow_provider_datapipe.pipelines.transforms.planning import plan_transforms

    desired = desired_from_files(read_files(Path(options.transforms)), folder_path=options.folder_path)
    return plan_transforms(service, desired, folder_path=options.folder_path, delete_orphans=options.delete_orphans)


COMMAND = Command(
    "plan",
    "show the differences between files and the service",
    (*OPTIONS, TRANSFORMS, WORKSPACE, FOLDER_PATH, DELETE_ORPHANS, FORMAT, EXIT_ZERO),
    run,
    PLAN_STATUSES,
)
