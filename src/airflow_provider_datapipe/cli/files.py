"""Files that commands write, and the options for files with a desired state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from airflow_provider_datapipe.cli.command import CommandError, Option
from airflow_provider_datapipe.cli.service import service_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from airflow_provider_datapipe.cli.service import Service

T = TypeVar("T")

#: Options of all commands for workspace files.
WORKSPACE = Option.of(
    "--workspace", metavar="FILE", help="the YAML file of orchestrations, ELT syncs and reverse ETL syncs"
)
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


def for_each_given(
    options: argparse.Namespace, parts: Mapping[str, Callable[[argparse.Namespace, Service], T]]
) -> list[T]:
    """
    Return the results of the parts of a command whose files are given.

    :param options: parsed options.
    :param parts: function of each part, by the name of its option.
    :raises CommandError: if no files are given.
    """
    given = [part for name, part in parts.items() if getattr(options, name) is not None]
    if not given:
        raise CommandError("the command needs files: give --workspace, --transforms, or both.")
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
        raise CommandError(f"{path} can't be written: no text in UTF-8 has {wrong} in it.") from None
