"""Declaration of commands, shared by the ``datapipe`` program and Airflow's CLI."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DONE, FAILED = 0, 1
#: Invalid command line; argparse uses the same status.
INVALID_ARGUMENTS = 2
#: Differences found, for read-only commands.
DIFFERS = 3


@dataclass(frozen=True, slots=True)
class Option:
    """
    Option or argument of a command.

    :param flags: flags, such as ``--output``.
    :param settings: arguments for argparse that Airflow's CLI also supports: ``help``, ``action``, ``default``,
        ``nargs``, ``type``, ``choices``, ``required``, ``metavar``, ``dest``.
    """

    flags: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, *flags: str, **settings: Any) -> Option:
        """Return an option with the given flags and argparse settings."""
        return cls(flags, settings)


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command.

    :param name: name of the command.
    :param help: one-line description.
    :param options: options and arguments.
    :param run: function that runs the command and returns the exit status. It imports heavy modules itself.
    :param epilog: text at the end of the help; None for no text.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    run: Callable[[argparse.Namespace], int]
    epilog: str | None = None


def seconds(text: str) -> float:
    """
    Parse a number of seconds.

    :raises argparse.ArgumentTypeError: if the text is not a finite number of 0 or more.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def positive_seconds(text: str) -> float:
    """
    Parse a number of seconds greater than 0.

    :raises argparse.ArgumentTypeError: if the text is not such a number.
    """
    if not (value := seconds(text)):
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return value


def whole_seconds(text: str) -> int:
    """
    Parse a whole number of seconds.

    :raises argparse.ArgumentTypeError: if the text is not such a number.
    """
    if not (value := seconds(text)).is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds")
    return int(value)


class CommandError(Exception):
    """The command can't run with the given options."""


class InvalidArgumentsError(CommandError):
    """Options are missing, or exclude each other."""
