"""``datapipe snapshot``: write the service's resources and dependencies to a file."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_datapipe.cli.command import DIFFERS, DONE, Command, CommandError, InvalidArgumentsError, Option
from airflow_provider_datapipe.cli.files import write
from airflow_provider_datapipe.cli.service import OPTIONS, service_of

if TYPE_CHECKING:
    from airflow_provider_datapipe.pipelines.snapshot import Snapshot

_STDOUT = "-"


def run(options: argparse.Namespace) -> int:
    """
    Take a snapshot.

    :param options: parsed options.
    :return: 0, or 3 if ``--check`` found a difference between the file and the service.
    """
    from airflow_provider_datapipe.pipelines.collect import collect

    if options.check and options.output == _STDOUT:
        raise InvalidArgumentsError("--check requires --output with the file to compare.")
    with service_of(options) as service:
        snapshot = collect(service, with_sql=options.sql)
    _warn(snapshot)
    if options.check:
        return _check(snapshot, Path(options.output))
    if options.output == _STDOUT:
        sys.stdout.write(snapshot.as_text())
    else:
        write(Path(options.output), snapshot.as_text())
    if not options.quiet:
        counts = Counter(node.kind for node in snapshot.nodes.values())
        reported = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)) or "nothing"
        print(f"{reported} -> {'standard output' if options.output == _STDOUT else options.output}", file=sys.stderr)
    return DONE


def _warn(snapshot: Snapshot) -> None:
    from airflow_provider_datapipe.pipelines.plan import printable

    for node in snapshot.nodes.values():
        if node.unresolved:
            reported = (
                f"datapipe snapshot: {node.id} ({node.title}) refers to unknown streams or transforms: "
                f"{', '.join(node.unresolved)}. It will not wait for them."
            )
            print(printable(reported), file=sys.stderr)


def _check(snapshot: Snapshot, path: Path) -> int:
    from airflow_provider_datapipe.pipelines.plan import printable

    try:
        existing = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} can't be read: {error}.") from None
    now = snapshot.as_text()
    if existing == now:
        return DONE
    lines = difflib.unified_diff(existing.splitlines(), now.splitlines(), str(path), "the service", lineterm="")
    print(printable("\n".join(lines)))
    return DIFFERS


COMMAND = Command(
    "snapshot",
    "write the resources of a service and their dependencies to a JSON file, the source of generated task groups",
    (
        *OPTIONS,
        Option.of("--output", metavar="FILE", default=_STDOUT, help="output file (default: the standard output)"),
        Option.of("--sql", action="store_true", help="include the SQL of transforms"),
        Option.of(
            "--check",
            action="store_true",
            help="write nothing: show the differences between the file and the service; exit status 3 if there are any",
        ),
    ),
    run,
)
