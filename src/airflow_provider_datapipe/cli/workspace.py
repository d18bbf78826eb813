"""Parts of ``plan`` and ``pull`` for workspace files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import Option
from airflow_provider_datapipe.cli.files import write

if TYPE_CHECKING:
    from airflow_provider_datapipe.cli.service import Service
    from airflow_provider_datapipe.pipelines.plan import Plan, Report

#: Option of all commands for workspace files.
WORKSPACE = Option.of(
    "--workspace", metavar="FILE", help="the YAML file of orchestrations, ELT syncs and reverse ETL syncs"
)


def plan(options: argparse.Namespace, service: Service) -> Plan:
    """Return the plan of applying the file."""
    from airflow_provider_datapipe.pipelines.workspace.document import read
    from airflow_provider_datapipe.pipelines.workspace.planning import make_plan

    document = read(Path(options.workspace))
    return make_plan(service, document, delete_orphans=options.delete_orphans).plan


def pull(options: argparse.Namespace, service: Service) -> Report:
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
