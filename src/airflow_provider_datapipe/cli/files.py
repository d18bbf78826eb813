"""Files that commands write, and the options for files with a desired state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from airflow_provider_datapipe.cli.command import CommandError, InvalidArgumentsError, Option
from airflow_provider_datapipe.cli.service import service_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from airflow_provider_datapipe.cli.service import Service

T = TypeVar("T")

#: Options of all commands for workspace files.
WORKSPACE = Option.of(
    "--workspace", metavar="FILE", help="YAML file with orchestrations, ELT syncs and reverse ETL syncs"
)
#: Options of all commands for transforms.
TRANSFORMS = Option.of("--transforms", metavar="FOLDER", help="the folder of SQL files")
FOLDER_PATH = Option.of(
    "--folder-path",
    metavar="PATH",
    default="",
    help="folder of the service that contains all of these transforms (default: the files set all folders)",
)
DELETE_ORPHANS = Option.of(
    "--delete-orphans", action="store_true", help="delete resources of the service that the files do not contain"
)
#: Option of all commands that change schedules.
RESEND = Option.of(
    "--resend",
    action="store_true",
    help="also send schedules that the service does not show, so that they can't be compared",
)


def run_for_files(
    options: argparse.Namespace, parts: Mapping[str, Callable[[argparse.Namespace, Service], T]]
) -> list[T]:
    """
    Return the results of the parts of a command whose files are given.

    :param options: parsed options.
    :param parts: function of each part, by the name of its option.
    :raises InvalidArgumentsError: if no files are given.
    """
    given = [part for name, part in parts.items() if getattr(options, name) is not None]
    if not given:
        raise InvalidArgumentsError("no files are set: use --workspace, --transforms, or both.")
    with service_of(options) as service:
        return [part(options, service) for part in given]


def write(path: Path, text: str) -> None:
    """
    Write a file atomically.

    :raises CommandError: if the file can't be written.
    """
    from airflow_provider_datapipe.pipelines.atomic_write import write_atomically

    try:
        write_atomically(path, text)
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror or error}.") from None
    except UnicodeEncodeError as error:
        wrong = ascii(error.object[error.start : error.end])
        raise CommandError(f"{path} can't be written: {wrong} has no UTF-8 encoding.") from None
