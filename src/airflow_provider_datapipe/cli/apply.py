"""``datapipe apply``: apply a workspace file to the service."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from airflow_provider_datapipe.cli.command import Command, Option, whole_seconds
from airflow_provider_datapipe.cli.files import DELETE_ORPHANS, RESEND
from airflow_provider_datapipe.cli.output import FORMAT, REPORT_STATUSES, show_report
from airflow_provider_datapipe.cli.service import OPTIONS, service_of


def run(options: argparse.Namespace) -> int:
    """
    Apply a workspace file.

    :param options: parsed options.
    :return: 0, or 1 if any change failed.
    """
    from airflow_provider_datapipe.pipelines.workspace.applying import FileTaskState, apply, exclusive_lock
    from airflow_provider_datapipe.pipelines.workspace.document import read

    path = Path(options.workspace)

    def report_line(line: str) -> None:
        if not options.quiet:
            print(line, file=sys.stderr, flush=True)

    with _sigterm_as_interrupt(), exclusive_lock(path, report_line):
        document = read(path)
        with service_of(options) as service:
            report = apply(
                service,
                document,
                FileTaskState(path.with_name(f".{path.name}.apply")),
                delete_orphans=options.delete_orphans,
                wait_for_run=options.wait_for_run,
                resend=options.resend,
            )
    return show_report(report, options)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM, which for example a canceled CI job sends, like Ctrl-C, so that cleanup code runs."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


COMMAND = Command(
    "apply",
    "apply a workspace file to the service: orchestrations, ELT syncs with their streams, reverse ETL syncs",
    (
        *OPTIONS,
        Option.of("--workspace", metavar="FILE", required=True, help="the workspace file"),
        DELETE_ORPHANS,
        Option.of(
            "--wait-for-run",
            metavar="SECONDS",
            type=whole_seconds,
            default=600,
            help="longest wait for an active run that blocks the change of a reverse ETL sync (default: 600)",
        ),
        RESEND,
        FORMAT,
    ),
    run,
    REPORT_STATUSES,
)
