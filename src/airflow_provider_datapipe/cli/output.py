"""Output of plans and reports: options, colors and exit statuses."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import DIFFERS, DONE, FAILED, Option

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.plan import Plan, Report

#: Name of the codec error handler for characters that the output encoding does not support.
_ESCAPED = "datapipe_escaped"
#: Option of all commands that show a plan or a report.
FORMAT = Option.of("--format", choices=["text", "json"], default="text", help="output format (default: text)")
#: Option of all commands that show a plan.
EXIT_ZERO = Option.of("--exit-zero", action="store_true", help="exit status 0 also if there are differences")
#: Help texts about exit statuses.
PLAN_STATUSES = "exit status: 0 no differences, 3 differences, 1 failed, 2 invalid command line"
REPORT_STATUSES = "exit status: 0 success, 1 failed, 2 invalid command line"


def show_plan(plan: Plan, options: argparse.Namespace) -> int:
    """
    Write a plan to the standard output.

    :param plan: the plan.
    :param options: parsed options, with :data:`FORMAT` and :data:`EXIT_ZERO`.
    :return: exit status: 3 if the plan has changes, 0 otherwise or with ``--exit-zero``.
    """
    from airflow_provider_datapipe.pipelines.plan import as_json_text, plan_text

    if options.format == "json":
        sys.stdout.write(as_json_text(plan))
    else:
        note = "Not deleted." if options.delete_orphans else "Not deleted, because --delete-orphans is not set."
        sys.stdout.write(plan_text(plan, colored=_use_color(), orphans_note=note))
    return DIFFERS if plan.changes and not options.exit_zero else DONE


def show_report(report: Report, options: argparse.Namespace) -> int:
    """
    Write a report to the standard output.

    :param report: the report.
    :param options: parsed options, with :data:`FORMAT`.
    :return: exit status: 1 if anything failed, otherwise 0.
    """
    from airflow_provider_datapipe.pipelines.plan import as_json_text, report_text

    text = as_json_text(report) if options.format == "json" else report_text(report, colored=_use_color())
    sys.stdout.write(text)
    return FAILED if report.failed else DONE


def make_writable() -> None:
    """Make the standard output and error accept any text, even if closed or in a limited encoding."""
    codecs.register_error(_ESCAPED, _escaped)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # The parent process closed the stream.
            sink = Path(os.devnull).open("w", encoding="utf-8", errors=_ESCAPED)  # noqa: SIM115 - never closed
            setattr(sys, name, sink)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def discard_broken_output() -> None:
    """Redirect the standard output to the null device if it is broken: Python would report an error at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Replace unsupported characters by JSON escapes, which keeps JSON output valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _use_color() -> bool:
    # Honor NO_COLOR (https://no-color.org) if it is set and not empty.
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
