"""``datapipe plan``: show the changes that deploying transforms or applying a workspace file would make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import Command
from airflow_provider_datapipe.cli.files import DELETE_ORPHANS, FOLDER_PATH, TRANSFORMS, WORKSPACE, for_each_given
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
    from airflow_provider_datapipe.pipelines.plan import combined

    parts = {"workspace": _workspace, "transforms": _transforms}
    return show_plan(combined(for_each_given(options, parts)), options)


def _workspace(options: argparse.Namespace, service: Service) -> Plan:
    from airflow_provider_datapipe.pipelines.workspace.document import read
    from airflow_provider_datapipe.pipelines.workspace.planning import make_plan

    return make_plan(service, read(Path(options.workspace)), delete_orphans=options.delete_orphans).plan


def _transforms(options: argparse.Namespace, service: Service) -> Plan:
    from airflow_provider_datapipe.pipelines.transforms.files import read_files, wanted
    from airflow_provider_datapipe.pipelines.transforms.planning import plan_transforms

    desired = wanted(read_files(Path(options.transforms)), folder_path=options.folder_path)
    return plan_transforms(service, desired, folder_path=options.folder_path, delete_orphans=options.delete_orphans)


COMMAND = Command(
    "plan",
    "show what would have to be done so that the service holds what files say",
    (*OPTIONS, TRANSFORMS, WORKSPACE, FOLDER_PATH, DELETE_ORPHANS, FORMAT, EXIT_ZERO),
    run,
    PLAN_STATUSES,
)
